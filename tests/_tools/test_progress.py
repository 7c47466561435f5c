"""When a progress bar appears, and what it says."""

from __future__ import annotations

import builtins
import itertools
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest
from numba.core import event

from invariance._tools import progress
from invariance._tools.progress import COMPILING, ProgressBar, compilation_explained


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_WORTH_SHOWING", 0.2)
    monkeypatch.setattr(progress, "_FIRST_LOOK", 0.02)


@pytest.mark.parametrize(
    ("mode", "wait", "shown"),
    [(True, 0.0, False), (True, 0.05, True), (True, 0.4, True), (False, 0.3, False), ("auto", 0.3, False)],
)
def test_long_work_shows_a_bar_where_somebody_looks(
    mode: progress.ProgressMode, wait: float, shown: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """After the first step of many, or when none is done for long; never after the end."""
    with ProgressBar("counting", 100 if wait else 1, mode, "the first is fitted") as bar:
        time.sleep(wait)
        bar.advance(1, "best -3.2")
        assert bar.shown == shown
    time.sleep(0.25)
    said = capfd.readouterr().err
    assert all((text in said) == shown for text in ("counting", "best -3.2"))
    assert ("the first is fitted" in said) == (shown and wait > 0.2)
    assert COMPILING not in said


@contextmanager
def compilation() -> Iterator[None]:
    with event.trigger_event("numba:compile"), event.trigger_event("numba:compile"):
        yield


@pytest.mark.parametrize("before", [0.0, 0.3])
def test_kernels_that_compile_are_the_reason(before: float, capfd: pytest.CaptureFixture[str]) -> None:
    """Whether they begin before the wait is long or after it; a step has been done already."""
    with ProgressBar("counting", 2, True) as bar:
        bar.advance()
        time.sleep(before)
        with compilation():
            time.sleep(0.4)
            assert bar.shown
    assert COMPILING in capfd.readouterr().err


@pytest.mark.parametrize("mode", [True, False, "auto"])
def test_kernels_that_compile_without_a_bar(mode: progress.ProgressMode, capfd: pytest.CaptureFixture[str]) -> None:
    with compilation_explained(mode):
        with compilation():
            time.sleep(0.02)
        time.sleep(0.2)
        assert capfd.readouterr().err == ""
        with compilation():
            time.sleep(0.05)
    assert (COMPILING in capfd.readouterr().err) == (mode is True)


def test_a_function_hears_of_every_stage_and_of_compilations() -> None:
    heard: list[tuple[float, str]] = []

    def hear(done: float, what: str) -> None:
        heard.append((done, what))

    with compilation_explained(hear):
        with compilation():
            pass
        with ProgressBar("counting", 2, hear) as bar:
            time.sleep(0.12)
            bar.advance()
            with compilation():
                pass
    compiling = [(0.5, f"counting: {COMPILING}"), (0.5, "counting")]
    counted = [(0.0, "counting"), (0.5, "counting"), *compiling, (1.0, "counting")]
    assert heard == [(0.0, f"preparing: {COMPILING}"), *counted]
    heard.clear()
    with ProgressBar("counting", 100_000, hear) as bar:
        for _ in range(100_000):
            bar.advance()
    assert len(heard) < 1000


class Stopped(BaseException):
    pass


@pytest.mark.parametrize("at", ["begun", "going on", "compiling", "done"])
def test_what_a_function_raises_stops_the_work(at: str) -> None:
    reached = []

    def refuse(done: float, what: str) -> None:
        now = "compiling" if COMPILING in what else {0.0: "begun", 1.0: "done"}.get(done, "going on")
        if now == at:
            raise Stopped(at)

    def work() -> None:
        with ProgressBar("counting", 2, refuse) as bar:
            reached.append("begun")
            time.sleep(0.12)
            bar.advance()
            reached.append("going on")
            with compilation():
                reached.append("compiling")
            bar.advance()
            reached.append("done")

    with pytest.raises(Stopped, match=at):
        work()
    assert (
        reached
        == {
            "begun": [],
            "going on": ["begun"],
            "compiling": ["begun", "going on", "compiling"],
            "done": ["begun", "going on", "compiling", "done"],
        }[at]
    )


def test_a_refusal_before_the_first_stage_is_heard() -> None:
    def refuse(done: float, what: str) -> None:
        raise Stopped

    with pytest.raises(Stopped), compilation_explained(refuse), compilation():
        pass


def test_an_error_of_the_work_is_not_the_end_of_a_stage() -> None:
    heard: list[float] = []

    def fail() -> None:
        with ProgressBar("counting", 2, lambda done, what: heard.append(done)):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert heard == [0.0]


class ZMQInteractiveShell:
    """A notebook's shell has this name and a kernel."""

    kernel: object | None = object()
    execution_count = 1


class HTML:
    def __init__(self, data: str) -> None:
        self.data = data


class Cell:
    """What a notebook's cell shows: one display, and what it was changed to."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.n_displays = 0

    def display(self, content: HTML, display_id: bool) -> Cell:
        assert display_id
        self.n_displays += 1
        self.update(content)
        return self

    def update(self, content: HTML | dict[str, str], raw: bool = False) -> None:
        self.shown.append("" if raw else content.data)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """A notebook without ipywidgets."""
    cell, shell = Cell(), ZMQInteractiveShell()
    ipython, displays = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: shell
    displays.HTML, displays.display = HTML, cell.display
    monkeypatch.setattr(progress, "_in_cell", None)
    ipython.display = displays
    modules = {"IPython": ipython, "IPython.display": displays, "ipykernel": ipython, "ipywidgets": None}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    return cell


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mode", [True, "auto"])
def test_a_notebook_has_one_display_without_widgets(
    mode: progress.ProgressMode, cell: Cell, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ProgressBar("scoring <subsets>", 10, mode) as bar:
        time.sleep(0.05)
        for step in range(10):
            bar.advance(1, f"best -{step}")
            time.sleep(0.03)
        assert bar.shown
        assert "scoring &lt;subsets&gt;" in cell.shown[-1]
        assert 'value="10" max="10"' in cell.shown[-1]
        assert "best -9" in cell.shown[-1]
    assert cell.n_displays == 1
    assert cell.shown[-1] == ""
    assert capfd.readouterr().err == ""
    progress._show_in_cell("the next stage")
    assert cell.n_displays == 1
    monkeypatch.setattr(ZMQInteractiveShell, "execution_count", 2)
    progress._show_in_cell("in the next cell")
    assert cell.n_displays == 2


def test_a_notebook_explains_a_first_step_that_takes_long(cell: Cell) -> None:
    with ProgressBar("counting", 2, "auto"), compilation():
        time.sleep(0.5)
    assert any(COMPILING in shown for shown in cell.shown)
    assert cell.shown[-1] == ""


@pytest.mark.filterwarnings("error")
def test_a_shell_without_a_kernel_is_no_notebook(
    cell: Cell, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ZMQInteractiveShell, "kernel", None)
    with ProgressBar("counting", 100, "auto") as bar:
        time.sleep(0.05)
        bar.advance()
        assert not bar.shown
    with ProgressBar("counting", 100, True) as bar:
        time.sleep(0.05)
        bar.advance()
    assert "counting" in capfd.readouterr().err
    assert cell.n_displays == 0


def test_the_time_left_does_not_count_the_first_step(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """40 seconds of compiling, then half a second for each step."""
    now = iter([0.0, 40.0, 40.5, 41.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))
    display = progress._NotebookDisplay("counting", 20)
    for done in (1, 2, 3):
        display.update(done, "")
    assert [shown.split("</progress> ")[1] for shown in cell.shown] == [
        "0%",
        "5%",
        "10% 9.0 seconds left",
        "15% 8.5 seconds left",
    ]


def test_a_notebook_is_not_flooded(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand steps in one second: ten changes, and the last."""
    steps = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(steps) / 1000)
    display = progress._NotebookDisplay("counting", 1000)
    for done in range(1, 1001):
        display.update(done, "")
    assert 10 <= len(cell.shown) <= 12
    assert 'value="1000"' in cell.shown[-1]
