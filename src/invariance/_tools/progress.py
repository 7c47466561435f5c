"""A progress bar that appears only when the wait is worth announcing."""

from __future__ import annotations

import html
import sys
import threading
import time
from types import TracebackType
from typing import Literal, Protocol, Self

from ..exceptions import SettingError
from .wording import duration

ProgressMode = bool | Literal["auto"]

_WORTH_SHOWING = 2.0
_FIRST_LOOK = 0.25
_BETWEEN_UPDATES = 0.1
_COMPILING = "compiling, once after an installation"


class _Display(Protocol):
    """Something on a screen that shows how far the work is, until it is stopped."""

    def update(self, done: int, detail: str) -> None: ...

    def stop(self) -> None: ...


class ProgressBar:
    """Counts steps; shows a bar on standard error once the whole is expected to take over two seconds, or when two
    seconds have passed without a step: the first use of a kernel compiles it.

    mode: "auto" shows it in terminals and notebooks only, True everywhere, False never. meanwhile: what happens before
    the first step.
    """

    def __init__(self, description: str, total: int, mode: ProgressMode = "auto", meanwhile: str = _COMPILING) -> None:
        if mode not in (True, False, "auto"):
            raise SettingError(f"progress={mode!r} is not known: use True, False or 'auto'.")
        self.description = description
        self.total = total
        self.mode = mode
        self.meanwhile = meanwhile
        self.done = 0
        self._bar: _Display | None = None
        self._lock = threading.Lock()
        self._waiting: threading.Timer | None = None

    def __enter__(self) -> Self:
        self._start = time.perf_counter()
        # A thread costs as much as a small fit: only where somebody may be looking.
        if self.mode is True or (self.mode == "auto" and (sys.stderr.isatty() or in_notebook())):
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
            if self._bar is not None:
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
            if self._bar is not None:
                self._bar.update(self.done, detail)

    def _show_before_the_first_step(self) -> None:
        with self._lock:
            if self.done == 0 and self.mode is not False:
                self._show()
            if self._bar is not None and self.done == 0:
                self._bar.update(0, self.meanwhile)

    def _show(self) -> None:
        if in_notebook():
            self._bar = _NotebookDisplay(self.description, self.total)
        elif self.mode is True or sys.stderr.isatty():
            self._bar = _TerminalDisplay(self.description, self.total, force=self.mode is True)
        else:
            self.mode = False


def in_notebook() -> bool:
    """Whether output goes to the cells of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class _TerminalDisplay:
    """A bar on standard error that vanishes at the end."""

    def __init__(self, description: str, total: int, force: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        console = Console(stderr=True, force_terminal=True if force else None, force_jupyter=False)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[detail]}"),
        )
        self._bar = Progress(*columns, console=console, transient=True)
        self._task = self._bar.add_task(description, total=total, detail="")
        self._bar.start()

    def update(self, done: int, detail: str) -> None:
        self._bar.update(self._task, completed=done, detail=detail)

    def stop(self) -> None:
        self._bar.stop()


class _NotebookDisplay:
    """One output of the cell that changes in place and is empty at the end; it needs no widgets."""

    def __init__(self, description: str, total: int) -> None:
        from IPython.display import HTML, display

        self._html = HTML
        self._description = html.escape(description)
        self._total = total
        self._begun: tuple[float, int] | None = None
        self._latest = time.perf_counter()
        self._handle = display(HTML(self._content(0, "")), display_id=True)

    def update(self, done: int, detail: str) -> None:
        now = time.perf_counter()
        if self._begun is None and done:
            self._begun = now, done  # what came before, a kernel's compilation perhaps, says nothing about the rest
        if now - self._latest >= _BETWEEN_UPDATES or done in (0, self._total):
            self._latest = now
            self._handle.update(self._html(self._content(done, detail)))

    def stop(self) -> None:
        self._handle.update(self._html(""))

    def _content(self, done: int, detail: str) -> str:
        parts = [self._description, f'<progress value="{done}" max="{self._total}"></progress>']
        parts += [f"{done / max(self._total, 1):.0%}", self._remaining(done), html.escape(detail)]
        return " ".join(part for part in parts if part)

    def _remaining(self, done: int) -> str:
        if self._begun is None or done == self._begun[1]:
            return ""
        since, first = self._begun
        return f"{duration((self._latest - since) / (done - first) * (self._total - done))} left"
