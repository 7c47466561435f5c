"""When a progress bar appears, and what it says."""

from __future__ import annotations

import builtins
import itertools
import sys
import time
from types import ModuleType

import pytest

from invariance._tools import progress
from invariance._tools.progress import ProgressBar


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_WORTH_SHOWING", 0.2)
    monkeypatch.setattr(progress, "_FIRST_LOOK", 0.02)


def test_short_work_shows_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("counting", 3, True) as bar:
        for _ in range(3):
            bar.advance()
    assert capfd.readouterr().err == ""


def test_long_work_shows_a_bar(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("counting", 100, True) as bar:
        time.sleep(0.05)
        bar.advance(1, "best -3.2")
        assert bar.shown
    shown = capfd.readouterr().err
    assert "counting" in shown
    assert "best -3.2" in shown


def test_a_first_step_that_takes_long_is_explained(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("counting", 2, True) as bar:
        time.sleep(0.5)
        assert bar.shown
    assert "compiling, once after an installation" in capfd.readouterr().err


@pytest.mark.parametrize("mode", [False, "auto"])
def test_not_where_nobody_looks(mode: progress.ProgressMode, capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("counting", 2, mode) as bar:
        time.sleep(0.3)
        bar.advance()
        assert not bar.shown
    assert capfd.readouterr().err == ""


def test_nothing_appears_after_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("counting", 2, True) as bar:
        pass
    time.sleep(0.3)
    assert not bar.shown
    assert capfd.readouterr().err == ""


class ZMQInteractiveShell:
    """A notebook's shell has this name and a kernel."""

    kernel: object | None = object()


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

    def update(self, content: HTML) -> None:
        self.shown.append(content.data)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """A notebook without ipywidgets."""
    cell, shell = Cell(), ZMQInteractiveShell()
    ipython, displays = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: shell
    displays.HTML, displays.display = HTML, cell.display
    ipython.display = displays
    modules = {"IPython": ipython, "IPython.display": displays, "ipykernel": ipython, "ipywidgets": None}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    return cell


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mode", [True, "auto"])
def test_a_notebook_has_one_display_without_widgets(
    mode: progress.ProgressMode, cell: Cell, capfd: pytest.CaptureFixture[str]
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


def test_a_notebook_explains_a_first_step_that_takes_long(cell: Cell) -> None:
    with ProgressBar("counting", 2, "auto"):
        time.sleep(0.5)
    assert any("compiling, once after an installation" in shown for shown in cell.shown)
    assert cell.shown[-1] == ""


def test_an_error_clears_the_display(cell: Cell) -> None:
    def fail() -> None:
        with ProgressBar("counting", 100, "auto") as bar:
            time.sleep(0.05)
            bar.advance()
            raise RuntimeError(cell.shown[-1])

    with pytest.raises(RuntimeError, match="counting"):
        fail()
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
