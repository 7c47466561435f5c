"""In a notebook every plot shows by itself, once."""

from __future__ import annotations

import pytest

from notebook_runner import complaints, images, run_cells

pytestmark = pytest.mark.integration

SETUP = """
import sys
sys.modules["ipywidgets"] = None
import warnings
warnings.simplefilter("error")
import numpy as np
import invariance
from decision_cases import made
from invariance.posterior.plots import plot_inclusion
data = made()
model = invariance.BIP().fit(data)
posterior, decision = model.posterior_, model.decision_
"""
CALLS = (
    'posterior.plot("inclusion")',
    'posterior.plot("subsets", top=3)',
    'posterior.plot("coefficients")',
    'posterior.plot("environments")',
    'ax = posterior.plot("frontier")',
    "plot_inclusion(posterior, truth=['a', 'b'])",
    'decision.plot("subsets");',
    'panels = decision.plot("coefficients")',
    'decision.plot("frontier")',
    "model.diagnose().plot()",
    "model.plot()",
    "decision.plot('coefficients')",
    "invariance.compare(data, ['BIP', 'Lasso']).plot()",
)
GIVEN = """
import matplotlib.pyplot as plt
figure, axes = plt.subplots(1, 2, figsize=(14, 4), layout="constrained")
model.plot("inclusion", axes[0])
model.plot("coefficients", axes[1]);
"""
OWN = """
from matplotlib.figure import Figure
model.plot("coefficients", Figure().add_subplot());
"""
SETTINGS = "import matplotlib; print(matplotlib.get_backend())"


@pytest.fixture(scope="module")
def outputs() -> list[list]:
    return run_cells([SETUP, SETTINGS, *CALLS, GIVEN, OWN, SETTINGS])


def test_every_call_shows_one_image(outputs: list[list]) -> None:
    setup, _, *drawn, given, own, _ = outputs
    assert setup == []
    assert {call: images(shown) for call, shown in zip(CALLS, drawn, strict=True)} == dict.fromkeys(CALLS, 1)
    assert images(given) == 1
    assert images(own) == 0


def test_nothing_is_written_beside_them(outputs: list[list]) -> None:
    assert [complaints(shown) for shown in outputs] == [[]] * len(outputs)
    assert outputs[1][0].text == outputs[-1][0].text


def test_an_image_says_that_it_is_one_of_axes(outputs: list[list]) -> None:
    result, picture = outputs[2]
    assert result.output_type == "execute_result"
    assert "Axes" in result.data["text/plain"]
    assert picture.output_type == "display_data"
