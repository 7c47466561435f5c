"""How far a fit is: a bar that appears only when the wait is worth announcing, or calls of a
function."""

from __future__ import annotations

import html
import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Literal, Self

from ..exceptions import SettingError
from .text import duration

COMPILING = "compiling, once after an installation"
ProgressMode = bool | Literal["auto"] | Callable[[float, str], None]

# Who waits where no bar is shown reads there that kernels compile, once a process, and how far a
# stage is.
LOGGER = logging.getLogger("invariance")

_WORTH_SHOWING = 2.0
_BETWEEN_UPDATES = 0.1
BETWEEN_LINES = 10.0


class ProgressBar:
    """Counts steps; shows a bar on standard error once two seconds have passed.
    mode : "auto" shows it in terminals and notebooks, and elsewhere logs that kernels compile and,
        every ten seconds, how far it is; True everywhere, False never; a function is called with
        the fraction that is done and what is being done, by the thread that waits for the work.
        What it raises stops the work.
    only_compiling : show nothing but compilations"""

    def __init__(
        self,
        description: str,
        total: int,
        mode: ProgressMode = "auto",
        only_compiling: bool = False,
    ) -> None:
        if not callable(mode) and mode not in (True, False, "auto"):
            known = "True, False, 'auto' or a function of a fraction and a message"
            raise SettingError(f"progress={mode!r} is not known: use {known}.")
        self._unseen = mode == "auto" and not sys.stderr.isatty() and _notebook() is None
        self.description = description
        self.total = total
        self.done = 0
        self._detail = ""
        self.mode: ProgressMode = False if self._unseen else mode
        self.only_compiling = only_compiling
        self._compiling = 0
        self._display: _TerminalBar | _NotebookBar | None = None
        self._due = callable(mode)
        # A function that is called may itself come here, as when it has to be compiled.
        self._lock = threading.RLock()
        self._until_exit = ExitStack()

    def __enter__(self) -> Self:
        self._thread, self._latest = threading.get_ident(), time.perf_counter()
        if self._unseen and not _logged and "numba" in sys.modules:
            self._until_exit.enter_context(_watch_compilations(_log_compilation))
        if self._unseen:
            self._begin_lines()
        if self.mode is False:
            return self
        if callable(self.mode) and not self.only_compiling:
            self.mode(0.0, self.description)
        _open.append(self)
        self._until_exit.callback(_open.remove, self)
        if not callable(self.mode):
            waiting = threading.Timer(_WORTH_SHOWING, self._wait_is_long)
            waiting.daemon = True
            waiting.start()
            self._until_exit.callback(waiting.cancel)
        if "numba" in sys.modules:
            self._until_exit.enter_context(_watch_compilations(self._compiles))
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._until_exit.close()
        with self._lock:
            if callable(self.mode) and error is None and not self.only_compiling:
                self.mode(1.0, self.description)
            self.mode = False
            self._hide()

    def _begin_lines(self) -> None:
        global _line_from
        if not _unseen:
            _line_from = time.perf_counter()
        _unseen.append(self)
        self._until_exit.callback(self._end_lines)
        self._await_line()

    def _end_lines(self) -> None:
        with self._lock:
            self._unseen = False
            self._clock.cancel()
        _unseen.remove(self)

    def _write_line(self) -> None:
        """Of the innermost bar, when the last line is long ago."""
        global _line_from
        innermost = _unseen[-1:] == [self] and not self.only_compiling
        if innermost and time.perf_counter() - _line_from >= BETWEEN_LINES:
            _line_from = time.perf_counter()
            detail = f" ({self._detail})" if self._detail else ""
            LOGGER.info(
                "%s: %.0f%%%s", self.description, 100.0 * self.done / max(self.total, 1), detail
            )

    def _await_line(self) -> None:
        """Also where no step is done for long."""

        def look() -> None:
            with self._lock:
                if self._unseen:
                    self._write_line()
                    self._await_line()

        due = _line_from + BETWEEN_LINES - time.perf_counter()
        self._clock = threading.Timer(max(due, BETWEEN_LINES / 4.0), look)
        self._clock.daemon = True
        self._clock.start()

    def advance(self, steps: int = 1, detail: str = "") -> None:
        with self._lock:
            self.done += steps
            self._detail = detail
            self._update()
            if self._unseen:
                self._write_line()

    def _compiles(self, change: int) -> None:
        """A kernel begins to compile (1) or has done so (-1); it compiles those that it calls in
        between."""
        with self._lock:
            before = self._compiling
            self._compiling = self._compiling + change
            if bool(before) != bool(self._compiling):
                self._update(at_once=True)

    def _wait_is_long(self) -> None:
        with self._lock:
            self._due = True
            self._update(at_once=True)

    def _update(self, at_once: bool = False) -> None:
        """Of the innermost bar, when the wait is long; at most ten times a second unless at
        once."""
        now = time.perf_counter()
        waits = not at_once and now - self._latest < _BETWEEN_UPDATES
        if self.mode is False or not self._due or _open[-1:] != [self] or waits:
            return
        self._latest = now
        if self.only_compiling and not self._compiling:
            self._hide()
        elif not callable(self.mode):
            if self._display is None:
                kind = _TerminalBar if _notebook() is None else _NotebookBar
                self._display = kind(self.description, self.total, force=self.mode is True)
            self._display.update(self.done, COMPILING if self._compiling else self._detail)
        elif threading.get_ident() == self._thread:
            message = f"{self.description}: {COMPILING}" if self._compiling else self.description
            self.mode(min(1.0, self.done / max(self.total, 1)), message)

    def _hide(self) -> None:
        if self._display is not None:
            self._display.stop()
            self._display = None


# Bars of which lines are logged, the innermost last, and when the last line was written or the
# outermost one began.
_unseen: list[ProgressBar] = []
_line_from = 0.0
# The innermost bar, which is last, tells of compilations.
_open: list[ProgressBar] = []
# That kernels compile, as it was logged
_logged: list[str] = []


def _log_compilation(change: int) -> None:
    if not _logged:
        _logged.append(COMPILING)
        LOGGER.info(COMPILING)


def compilation_explained(mode: ProgressMode) -> ProgressBar:
    """Inside the block: whoever waits for kernels to compile reads so, also where no other bar is
    open."""
    return ProgressBar("preparing", 1, mode, only_compiling=True)


def _watch_compilations(tell: Callable[[int], None]) -> AbstractContextManager[Any]:
    """Inside the block: tell(1) when numba begins to compile a function, tell(-1) when it has
    finished."""
    from numba.core import event

    class Watch(event.Listener):
        def on_start(self, event: Any) -> None:
            tell(1)

        def on_end(self, event: Any) -> None:
            tell(-1)

    return event.install_listener("numba:compile", Watch())


def _notebook() -> Any | None:
    """IPython's shell, if output goes to the cells of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if getattr(shell, "kernel", None) is not None else None


class _TerminalBar:
    """On standard error; vanishes at the end."""

    def __init__(self, description: str, total: int, force: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

        console = Console(stderr=True, force_terminal=True if force else None, force_jupyter=False)
        bar = BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
        self._bar = Progress(
            "{task.description}", *bar, "{task.fields[detail]}", console=console, transient=True
        )
        self._task = self._bar.add_task(description, total=total, detail="")
        self._bar.start()

    def update(self, done: int, detail: str) -> None:
        self._bar.update(self._task, completed=done, detail=detail)

    def stop(self) -> None:
        self._bar.stop()


# The display of the running cell, in which its bars take turns, and the number of that cell.
_in_cell: tuple[Any, int] | None = None


def _show_in_cell(content: str) -> None:
    global _in_cell
    from IPython.display import HTML, display

    cell = getattr(_notebook(), "execution_count", 0)
    if _in_cell is None or _in_cell[1] != cell:
        _in_cell = display(HTML(content), display_id=True), cell
    else:
        _in_cell[0].update(HTML(content))


class _NotebookBar:
    """In the cell; emptied at the end."""

    def __init__(self, description: str, total: int, force: bool) -> None:
        self._description = html.escape(description)
        self._total = total
        self._first: tuple[float, int] | None = None

    def update(self, done: int, detail: str) -> None:
        now = time.perf_counter()
        left = ""
        if self._first is None and done:
            self._first = (
                now,
                done,
            )  # the time before, perhaps of compiling, does not tell of the rest
        if self._first is not None and done > self._first[1]:
            since, first = self._first
            left = f"{duration((now - since) / (done - first) * (self._total - done))} left"
        bar = (
            f'<progress value="{done}" max="{self._total}"></progress> '
            f"{done / max(self._total, 1):.0%}"
        )
        _show_in_cell(" ".join(filter(None, (self._description, bar, left, html.escape(detail)))))

    def stop(self) -> None:
        if _in_cell is not None:
            _in_cell[0].update({}, raw=True)
