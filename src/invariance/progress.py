"""A progress bar that appears only when the wait is worth announcing."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any, Literal, Self

ProgressMode = bool | Literal["auto"]

_WORTH_SHOWING = 2.0
_FIRST_LOOK = 0.25


class ProgressBar:
    """Counts steps; shows a bar on standard error once the whole is expected to take over two seconds, or when two
    seconds have passed without a step: the first use of a kernel compiles it.

    mode: "auto" shows it in terminals and notebooks only, True everywhere, False never.
    """

    def __init__(self, description: str, total: int, mode: ProgressMode = "auto") -> None:
        if mode not in (True, False, "auto"):
            raise ValueError(f"progress={mode!r} is not known: use True, False or 'auto'.")
        self.description = description
        self.total = total
        self.mode = mode
        self.done = 0
        self._bar: Any = None
        self._task: Any = None
        self._lock = threading.Lock()
        self._waiting: threading.Timer | None = None

    def __enter__(self) -> Self:
        self._start = time.perf_counter()
        # A thread costs as much as a small fit: only where somebody may be looking.
        if self.mode is True or (self.mode == "auto" and (sys.stderr.isatty() or "ipykernel" in sys.modules)):
            self._waiting = threading.Timer(_WORTH_SHOWING, self._show_before_the_first_step)
            self._waiting.daemon = True
            self._waiting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        with self._lock:
            self.mode = False
            if self.shown:
                self._bar.stop()

    @property
    def shown(self) -> bool:
        return self._bar is not None

    def advance(self, steps: int = 1, detail: str = "") -> None:
        with self._lock:
            self.done += steps
            if not self.shown and self.mode is not False:
                elapsed = time.perf_counter() - self._start
                if elapsed > _FIRST_LOOK and elapsed * self.total > _WORTH_SHOWING * self.done:
                    self._show()
            if self.shown:
                self._bar.update(self._task, completed=self.done, detail=detail)

    def _show_before_the_first_step(self) -> None:
        with self._lock:
            if self.done == 0 and self.mode is not False:
                self._show()
            if self.shown and self.done == 0:
                self._bar.update(self._task, detail="compiling, once after an installation")

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        console = Console(stderr=True, force_terminal=True if self.mode is True else None)
        if self.mode == "auto" and not (console.is_terminal or console.is_jupyter):
            self.mode = False
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[detail]}"),
        )
        self._bar = Progress(*columns, console=console, transient=True)
        self._task = self._bar.add_task(self.description, total=self.total, detail="")
        self._bar.start()
