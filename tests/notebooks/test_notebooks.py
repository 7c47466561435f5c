"""In a notebook every plot shows by itself, once; the progress of a fit is one display, and nothing
stays of it."""

from __future__ import annotations

import pytest

from notebook_runner import complaints, images, run_cells

pytestmark = pytest.mark.integration

PLOTS = (
    "posterior.plot(top=3)",
    'model.plot("subsets", top=3)',
    'ax = model.plot("environments")',
    'decision.plot("subsets");',
    'panels = decision.plot("coefficients")',
    "model.diagnose().plot()",
    "model.plot()",
    "invariance.compare(data, ['BIP', 'Lasso']).plot()",
)
BACKEND = "import matplotlib; print(matplotlib.get_backend())"
CELLS = {
    "setup": """
import sys
sys.modules["ipywidgets"] = None
import warnings
warnings.simplefilter("error")
import time
import invariance
from decision_cases import made
data = made()
model = invariance.BIP().fit(data)
posterior, decision = model.posterior_, model.decision_
""",
    "backend": BACKEND,
    **{call: call for call in PLOTS},
    "given axes": """
import matplotlib.pyplot as plt
figure, axes = plt.subplots(1, 2, figsize=(14, 4), layout="constrained")
model.plot("inclusion", axes[0])
model.plot("coefficients", axes[1]);
""",
    "axes of no screen": """
from matplotlib.figure import Figure
model.plot("coefficients", Figure().add_subplot());
""",
    "backend again": BACKEND,
    "a bar": """
from invariance._tools import progress
from invariance._tools.progress import ProgressBar
progress._WORTH_SHOWING, progress._BETWEEN_UPDATES = 0.02, 0.0
shown = []
show = progress._show_in_cell
def kept(bar):
    shown.append(bar._repr_mimebundle_([], [])["text/plain"])
    show(bar)
progress._show_in_cell = kept

def await_bar(bar):
    while bar._display is None:
        time.sleep(0.01)

def work(steps=5, then=None):
    for stage in ("first stage", "second stage"):
        with ProgressBar(stage, steps) as bar:
            await_bar(bar)
            for _ in range(steps):
                bar.advance()
            if then is not None:
                raise then
""",
    "alone": "work()",
    "said": "print(len(shown) > 2, 'first stage' in shown[0], 'second stage' in shown[-1]); "
    "shown.clear()",
    "an answer after it": "work()\n'the answer'",
    "raises": "work(then=KeyboardInterrupt())",
    "text before it": "print('before')\nwork()\nprint('after')",
    "a warning during it": """
warnings.simplefilter("always")
with ProgressBar("only stage", 4) as bar:
    await_bar(bar)
    bar.advance()
    warnings.warn("look here")
    bar.advance()
""",
    "a fit": """
shown.clear()
progress._WORTH_SHOWING = 0.0
model = invariance.BIP(engine="tempering", random_state=0).fit(data)
""",
    "its stages": "print(any('sampling' in text for text in shown))",
}


def test_what_a_notebook_shows() -> None:
    """One test, because every process that runs some of them starts a kernel."""
    outputs = dict(zip(CELLS, run_cells(list(CELLS.values()), allow_errors=True), strict=True))
    assert outputs["setup"] == []
    assert {call: images(outputs[call]) for call in PLOTS} == dict.fromkeys(PLOTS, 1)
    assert images(outputs["given axes"]) == 1
    assert images(outputs["axes of no screen"]) == 0
    assert outputs["backend"][0].text == outputs["backend again"][0].text
    result, picture = outputs[PLOTS[1]]
    assert (result.output_type, picture.output_type) == ("execute_result", "display_data")
    assert result.data["text/plain"].startswith("Panels(")  # no array of axes

    assert outputs["said"][0].text.split() == ["True"] * 3
    for cell in ("alone", "a fit"):
        assert [shown.data for shown in outputs[cell]] == [{}]
    assert outputs["its stages"][0].text == "True\n"
    emptied, answer = outputs["an answer after it"]
    assert (emptied.data, answer.output_type) == ({}, "execute_result")
    emptied, error = outputs["raises"]
    assert (emptied.data, error.ename) == ({}, "KeyboardInterrupt")
    before, emptied, after = outputs["text before it"]
    assert (before.text, emptied.data, after.text) == ("before\n", {}, "after\n")
    emptied, warning = outputs["a warning during it"]
    assert emptied.data == {}
    assert "look here" in warning.text
    assert [cell for cell, shown in outputs.items() if complaints(shown)] == ["a warning during it"]
