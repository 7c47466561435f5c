"""One environment has no p-value of invariance: no picture and no line shows one."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text

from decision_cases import decided, made
from invariance.decisions.decision import Decision, header
from invariance.decisions.plots import PICTURES, plot_subsets
from invariance.report.pictures import coefficients_picture, inclusion_picture


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def one() -> Decision:
    return decided(made(n_environments=1))


@pytest.fixture(scope="module")
def two() -> Decision:
    return decided(made(n_environments=2))


def words(drawn: object) -> str:
    axes = np.ravel(drawn)[0]
    assert isinstance(axes, Axes)
    axes.figure.draw_without_rendering()
    return " | ".join(text.get_text() for text in axes.figure.findobj(Text))


@pytest.mark.parametrize("kind", PICTURES)
def test_every_picture_says_that_one_environment_cannot_show_invariance(one: Decision, kind: str) -> None:
    said = words(one.plot(kind))
    assert "cannot show invariance" in said.replace("\n", " ")
    assert "p_inv" not in said
    assert "level" not in said
    assert "compatible" not in said


def test_what_is_left_of_the_subsets_is_how_well_they_predict(one: Decision, two: Decision) -> None:
    assert [panel.get_xlabel() for panel in plot_subsets(one)] == ["feature", "probability", "R²"]
    assert [panel.get_xlabel() for panel in plot_subsets(two)] == ["feature", "probability", "R²", "p_inv"]
    np.testing.assert_allclose(
        [bar.get_width() for bar in plot_subsets(one)[2].patches], one.findings.predictive.leading_evidence(15).r2
    )


def test_inclusion_is_that_of_the_prior(one: Decision, two: Decision) -> None:
    assert "the prior's probabilities" in words(one.plot("inclusion")).replace("\n", " ")
    assert "the prior's" not in words(two.plot("inclusion"))
    assert "by the prior" in inclusion_picture(one).caption
    assert "as in the paper" in inclusion_picture(two).caption


def test_captions_claim_no_comparison(one: Decision, two: Decision) -> None:
    assert "nothing to compare with" in coefficients_picture(one, True).caption
    assert "speak against it" in coefficients_picture(two, True).caption


def test_no_subset_is_called_most_probable(one: Decision, two: Decision) -> None:
    assert [label for label, _ in header(one)] == ["verdict", "selected", "rule"]
    assert [label for label, _ in header(two)] == ["verdict", "selected", "compatible", "mode", "rule"]
