"""How far a fit is: a bar that appears only when the wait is worth announcing, or calls of a
function."""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Self

from ..exceptions import SettingError

if TYPE_CHECKING:
    from rich.progress import Progress

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
        self._logs = mode == "auto" and not sys.stderr.isatty() and _notebook() is None
        self.description = description
        self.total = total
        self.done = 0
        self._detail = ""
        self.mode: ProgressMode = mode
        self.only_compiling = only_compiling
        self._compiling = 0
        self._display: Progress | None = None
        self._due = callable(mode)
        # A function that is called may itself come here, as when it has to be compiled.
        self._lock = threading.RLock()
        self._due_at = math.inf

    def __enter__(self) -> Self:
        global _line_from
        self._thread = threading.get_ident()
        self._latest = time.perf_counter()
        if self.mode is False:
            return self
        if callable(self.mode) and not self.only_compiling:
            self.mode(0.0, self.description)
        if not any(bar._logs for bar in _open):
            _line_from = self._latest
        _open.append(self)
        if not callable(self.mode):
            self._await_update()
            _watch_waits()
        if "numba" in sys.modules:
            _watch_compilations()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self in _open:
            _open.remove(self)
        with self._lock:
            if callable(self.mode) and error is None and not self.only_compiling:
                self.mode(1.0, self.description)
            self.mode = False
            self._hide()

    def _await_update(self) -> None:
        """The wait is long, or a line is due also if no step is done for long."""
        now = time.perf_counter()
        since = now - _line_from
        due = max(BETWEEN_LINES - since, BETWEEN_LINES / 4.0) if self._logs else _WORTH_SHOWING
        self._due_at = now + due

    def _wait_is_long(self) -> None:
        with self._lock:
            self._due = True
            self._due_at = math.inf
            self._update(at_once=True)
            if self._logs:
                self._await_update()

    def advance(self, steps: int = 1, detail: str = "") -> None:
        with self._lock:
            self.done += steps
            self._detail = detail
            self._update()

    def _compiles(self, change: int) -> None:
        """A kernel begins to compile (1) or has done so (-1); it compiles those that it calls in
        between."""
        with self._lock:
            before = self._compiling
            self._compiling = self._compiling + change
            if self._logs and not _logged:
                _logged.append(COMPILING)
                LOGGER.info(COMPILING)
            if bool(before) != bool(self._compiling):
                self._update(at_once=True)

    def _update(self, at_once: bool = False) -> None:
        """Update the innermost bar if the wait is long, at most ten times a second unless at
        once."""
        global _line_from
        now = time.perf_counter()
        fraction = min(1.0, self.done / max(self.total, 1))
        idle = self.only_compiling and not self._compiling
        if self.mode is False or _open[-1:] != [self]:
            return
        if self._logs:
            if now - _line_from >= BETWEEN_LINES and not self.only_compiling:
                _line_from = now
                detail = f" ({self._detail})" if self._detail else ""
                LOGGER.info("%s: %.0f%%%s", self.description, 100.0 * fraction, detail)
        elif self._due and (at_once or now - self._latest >= _BETWEEN_UPDATES):
            self._latest = now
            if idle:
                self._hide()
            elif not callable(self.mode):
                self._draw(COMPILING if self._compiling else self._detail)
            elif threading.get_ident() == self._thread:
                compiling = f": {COMPILING}" if self._compiling else ""
                self.mode(fraction, f"{self.description}{compiling}")

    def _draw(self, detail: str) -> None:
        """Draw the bar in the terminal, or in the cell of a notebook."""
        if self._display is None:
            self._display = _rich_bar(force=self.mode is True)
            self._display.add_task(self.description, total=self.total, detail="")
        self._display.update(self._display.task_ids[0], completed=self.done, detail=detail)
        if _notebook() is None:
            self._display.start()
        else:
            _show_in_cell(self._display)

    def _hide(self) -> None:
        if self._display is not None and _in_cell is None:
            self._display.stop()
        elif self._display is not None:
            _in_cell[0].update({}, raw=True)
        self._display = None


# The innermost bar, which is last, is shown or logged.
_open: list[ProgressBar] = []
# When a timer calls
_called_at = math.inf
# When the last line was logged, or the outermost bar began.
_line_from = 0.0
# That kernels compile, as it was logged
_logged: list[str] = []


def compilation_explained(mode: ProgressMode) -> ProgressBar:
    """Inside the block: whoever waits for kernels to compile reads so, also where no other bar is
    open."""
    return ProgressBar("preparing", 1, mode, only_compiling=True)


def _watch_waits() -> None:
    """Have a timer call when the first of the open bars is due. It outlasts them, so that many
    short fits start one thread."""
    global _called_at
    now = time.perf_counter()
    due = min((bar._due_at for bar in _open), default=math.inf)
    # A timer whose time has passed is that of a process from which this one was forked.
    if due < math.inf and not now < _called_at <= due:
        _called_at = due
        timer = threading.Timer(due - now, _call)
        timer.daemon = True
        timer.start()


def _call() -> None:
    global _called_at
    _called_at = math.inf
    now = time.perf_counter()
    for bar in list(_open):
        if bar._due_at <= now:
            bar._wait_is_long()
    _watch_waits()


@cache
def _watch_compilations() -> None:
    """Tell open bars, from now on, when numba begins to compile a function (1) and when it has
    finished (-1)."""
    from numba.core import event

    class Watch(event.Listener):
        def on_start(self, event: Any) -> None:
            self.tell(1)

        def on_end(self, event: Any) -> None:
            self.tell(-1)

        def tell(self, change: int) -> None:
            for bar in list(_open):
                bar._compiles(change)

    event.register("numba:compile", Watch())


def _notebook() -> Any | None:
    """IPython's shell, if output goes to the cells of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if getattr(shell, "kernel", None) is not None else None


def _rich_bar(force: bool) -> Progress:
    """Return a bar on standard error that vanishes at the end; force : also without a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

    console = Console(stderr=True, force_terminal=True if force else None, force_jupyter=False)
    columns = BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), "{task.fields[detail]}"
    return Progress("{task.description}", *columns, console=console, transient=True)


# The display of the running cell, in which its bars take turns, and the number of that cell.
_in_cell: Any = None


def _show_in_cell(content: object) -> None:
    global _in_cell
    from IPython.display import display

    cell = getattr(_notebook(), "execution_count", 0)
    if _in_cell is None or _in_cell[1] != cell:
        _in_cell = display(content, display_id=True), cell
    else:
        _in_cell[0].update(content)
