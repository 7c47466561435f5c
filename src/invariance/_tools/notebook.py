"""What the running cell of a notebook shows: one display that changes in place, needs no widgets and leaves nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def shell_of_notebook() -> Any | None:
    """IPython's shell, if output goes to the cells of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if getattr(shell, "kernel", None) is not None else None


def in_notebook() -> bool:
    """Whether output goes to the cells of a notebook."""
    return shell_of_notebook() is not None


class Cell:
    """The output of the running cell.

    A frontend can forget all outputs of a cell or none. So the display is taken away where it is known to be the only
    one, and otherwise left without content: then the next display in the cell takes its place.
    """

    def __init__(self) -> None:
        self._handle: Any | None = None
        # The kernel's count of messages up to which the cell holds nothing but our display; None where it is not known.
        self._alone_until: int | None = None

    def begin(self, *_: object) -> None:
        """A cell begins to run."""
        self._handle, self._alone_until = None, self._sent()

    def show(self, html: str) -> None:
        from IPython.display import HTML, display

        handle = self._handle
        if handle is None:
            self._handle = self._sending(lambda: display(HTML(html), display_id=True))
        else:
            self._sending(lambda: handle.update(HTML(html)))

    def take_away(self) -> None:
        from IPython.display import clear_output

        if self._handle is None:
            return
        if self._is_alone():
            self._sending(clear_output)
            self._handle = None
        else:
            self._handle.update({}, raw=True)

    def _sending(self, send: Callable[[], Any]) -> Any:
        alone = self._is_alone()
        answer = send()
        if alone:
            self._alone_until = self._sent()
        return answer

    def _is_alone(self) -> bool:
        sys.stdout.flush()
        sys.stderr.flush()
        return self._alone_until is not None and self._alone_until == self._sent()

    def _sent(self) -> int | None:
        session = getattr(getattr(shell_of_notebook(), "kernel", None), "session", None)
        return getattr(session, "message_count", None)


CELL = Cell()


def follow_cells() -> None:
    """From the next cell on it is known what else the cells of this notebook show."""
    shell = shell_of_notebook()
    if shell is not None and CELL.begin not in shell.events.callbacks["pre_run_cell"]:
        shell.events.register("pre_run_cell", CELL.begin)
