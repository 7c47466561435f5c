"""In a notebook the progress of a fit is one display, and nothing stays of it."""

from __future__ import annotations

from typing import Any

import pytest

from notebook_runner import complaints, run_cells

pytestmark = pytest.mark.integration

SETUP = """
import sys
sys.modules["ipywidgets"] = None
import warnings
warnings.simplefilter("error")
import time
import invariance
from invariance._tools import progress
from invariance._tools.progress import ProgressBar
progress._WORTH_SHOWING, progress._FIRST_LOOK = 0.2, 0.02
shown = []
show = progress._show_in_cell
def kept(html):
    shown.append(html)
    show(html)
progress._show_in_cell = kept

def work(steps=5, then=None):
    for stage in ("first stage", "second stage"):
        with ProgressBar(stage, steps) as bar:
            time.sleep(0.05)
            for _ in range(steps):
                bar.advance()
                time.sleep(0.1)
            if then is not None:
                raise then
"""
SAID = "print(len(shown) > 5, 'first stage' in shown[0], 'second stage' in shown[-1]); shown.clear()"
CELLS = {
    "setup": SETUP,
    "alone": "work()",
    "said": SAID,
    "an answer after it": "work()\n'the answer'",
    "raises": "work(then=ValueError('no'))",
    "interrupted": "work(then=KeyboardInterrupt())",
    "text before it": "print('before')\nwork()\nprint('after')",
    "a display before it": "from IPython.display import HTML, display\ndisplay(HTML('<b>mine</b>'))\nwork()",
    "a warning during it": """
warnings.simplefilter("always")
with ProgressBar("only stage", 4) as bar:
    time.sleep(0.05)
    bar.advance()
    warnings.warn("look here")
    bar.advance()
""",
    "compiles": """
import numba
shown.clear()
@numba.njit
def kernel(x):
    return x + 1
with progress.compilation_explained("auto"):
    progress._WORTH_SHOWING = 0.01
    time.sleep(0.02)
    kernel(1), kernel(1.0), kernel(1j)
print(any("compiling, once after an installation" in html for html in shown))
""",
}


@pytest.fixture(scope="module")
def outputs() -> dict[str, list[Any]]:
    return dict(zip(CELLS, run_cells(list(CELLS.values()), allow_errors=True), strict=True))


def test_nothing_stays(outputs: dict[str, list[Any]]) -> None:
    assert outputs["setup"] == []
    assert outputs["said"][0].text.split() == ["True"] * 3
    (emptied,) = outputs["alone"]
    assert emptied.data == {}
    emptied, answer = outputs["an answer after it"]
    assert emptied.data == {}
    assert answer.output_type == "execute_result"


@pytest.mark.parametrize(("cell", "name"), [("raises", "ValueError"), ("interrupted", "KeyboardInterrupt")])
def test_nothing_stays_of_work_that_stops(outputs: dict[str, list[Any]], cell: str, name: str) -> None:
    emptied, error = outputs[cell]
    assert emptied.data == {}
    assert error.ename == name


def test_what_others_show_stays(outputs: dict[str, list[Any]]) -> None:
    before, emptied, after = outputs["text before it"]
    assert (before.text, after.text) == ("before\n", "after\n")
    assert emptied.data == {}
    mine, emptied = outputs["a display before it"]
    assert mine.data["text/html"] == "<b>mine</b>"
    assert emptied.data == {}
    emptied, warning = outputs["a warning during it"]
    assert emptied.data == {}
    assert "look here" in warning.text


def test_kernels_that_compile_are_announced(outputs: dict[str, list[Any]]) -> None:
    assert outputs["compiles"][-1].text == "True\n"


def test_no_complaints(outputs: dict[str, list[Any]]) -> None:
    assert [cell for cell, shown in outputs.items() if complaints(shown)] == ["a warning during it"]


def test_a_fit_shows_its_stages_and_leaves_its_answer() -> None:
    """With an interval that every fit passes."""
    fit = """
from decision_cases import made
model = invariance.BIP(engine="tempering", random_state=0).fit(made())
"""
    impatient = "progress._WORTH_SHOWING, progress._FIRST_LOOK = 0.0, 0.0"
    _, fitted, said = run_cells([SETUP + impatient, fit, "print(len(shown) > 0, any('sampling' in s for s in shown))"])
    assert [shown.data for shown in fitted] == [{}]
    assert said[0].text.split() == ["True", "True"]
