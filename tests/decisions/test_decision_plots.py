"""Pictures of a decision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from decision_cases import broken, decided, made
from invariance._tools.plotting import CHOSEN, EMPTY
from invariance.decisions.decision import Decision
from invariance.decisions.environments import compared_environments
from invariance.decisions.plots import (
    PICTURES,
    plot_coefficients,
    plot_environments,
    plot_frontier,
    plot_subsets,
    save_picture,
)
from posteriors import run_without_package_init


@pytest.fixture(scope="module")
def plain() -> Decision:
    return decided(made())


def ticks(ax: Any, axis: str) -> list[str]:
    return [tick.get_text() for tick in getattr(ax, f"get_{axis}ticklabels")()]


def title(panels: Any) -> str:
    return panels[0].figure.get_suptitle()


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """What pyplot would keep open."""
    yield
    plt.close("all")


def test_coefficients_have_a_panel_each_with_the_pooled_band(plain: Decision) -> None:
    panels = plot_coefficients(plain)
    figure = panels[0].figure
    assert list(panels) == figure.axes
    assert [ax.get_title() for ax in panels] == ["a", "b"]
    assert ticks(panels[0], "y") == ["site 0", "site 1", "site 2", "site 3"]
    assert "95% interval" in figure.get_supxlabel()
    assert figure.get_supylabel() == "environment"
    table = plain.coefficients().set_index(["column", "environment"])
    for ax in panels:
        own = table.loc[ax.get_title()]
        band = ax.patches[0]
        assert [band.get_x(), band.get_x() + band.get_width()] == pytest.approx(
            [own.loc["pooled", "lower"], own.loc["pooled", "upper"]]
        )
        points = ax.containers[0].lines[0]
        np.testing.assert_allclose(points.get_xdata(), own["estimate"].to_numpy()[1:])
        (bars,) = ax.containers[0].lines[2]
        ends = np.array([segment[:, 0] for segment in bars.get_segments()])
        np.testing.assert_allclose(ends, own[["lower", "upper"]].to_numpy()[1:])


def test_a_column_that_is_constant_somewhere_is_said_to_be() -> None:
    data = made()
    X = data.X.copy()
    X[data.environment_index == 1, 1] = 2.0
    decision = replace(decided(replace(data, X=X)), mask=np.array([True, True, False, False]))
    _, b = plot_coefficients(decision)
    assert [(text.get_text(), text.get_position()[1]) for text in b.texts] == [("constant", 1)]


def test_many_columns_and_environments_are_cut_and_that_is_said(plain: Decision) -> None:
    decision = replace(plain, mask=np.ones(4, dtype=bool))
    assert title(plot_coefficients(decision)).endswith("NOT compatible with invariance")
    many = decided(made(n_environments=45, n=30, n_noise=12), select="threshold", threshold=0.0)
    panels = plot_coefficients(many)
    assert len(panels) == len(panels[0].figure.axes) == 12
    assert title(panels).endswith("\n12 of 15 columns\n40 of 45 environments")
    few = plot_coefficients(many, top=5)
    assert [ax.get_title() for ax in few] == list(many.columns[:5])
    assert title(few).endswith("\n5 of 15 columns\n40 of 45 environments")
    ax = plot_environments(compared_environments(many.findings.target.model, many.mask))
    assert ax.get_ylabel() == "environment (40 of 45)"
    tests = compared_environments(many.findings.target.model, many.mask).tests
    worst = min(tests, key=lambda test: test.deviation.p_value)
    assert worst.environment in ticks(ax, "y")
    assert ticks(ax, "y") == sorted(ticks(ax, "y"), key=lambda label: int(label.split()[1]))


def test_subsets_are_rows_of_dots_in_the_order_of_prediction(plain: Decision) -> None:
    predictive = plain.findings.predictive
    assert predictive is not None
    panels = plot_subsets(plain)
    dots, probability, r2, p_invariant = panels
    held = [predictive.feature_names.index(name) for name in ticks(dots, "x")]
    colours = np.array([to_hex(c) for c in dots.collections[0].get_facecolors()]).reshape(len(predictive.masks), -1)
    np.testing.assert_array_equal(colours != EMPTY, predictive.masks[:, held])
    assert (colours[0] == CHOSEN).sum() == 2
    assert not (colours[1:] == CHOSEN).any()
    evidence = predictive.leading_evidence(len(predictive.masks))
    drawn = (probability, np.exp(predictive.log_probabilities)), (r2, evidence.r2), (p_invariant, evidence.p_invariant)
    for ax, values in drawn:
        np.testing.assert_allclose([bar.get_width() for bar in ax.patches], values)
    assert [ax.get_xlabel() for ax in panels] == ["feature", "probability", "R²", "p_inv"]
    assert [line.get_xdata()[0] for line in p_invariant.get_lines()] == [0.2]
    assert title(plot_subsets(plain, top=1)).endswith(f"\n1 of {len(predictive.masks)} compatible subsets")
    with pytest.raises(ValueError, match="top must be at least 1"):
        plot_subsets(plain, top=0)


def test_frontier_is_the_best_r2_at_each_p_value(plain: Decision) -> None:
    survey = plain.survey
    assert len(survey.masks) == survey.n_subsets == 16
    ax = plot_frontier(plain)
    x, y = ax.collections[0].get_offsets().T
    np.testing.assert_allclose(x, np.maximum(survey.p_invariant, 1e-4))
    np.testing.assert_allclose(y, survey.r2)
    step, level, mode, chosen = ax.get_lines()
    assert sorted(step.get_xdata()) == sorted(x)
    for p_value, best in zip(*step.get_data(), strict=True):
        assert best == pytest.approx(max(survey.r2[np.maximum(survey.p_invariant, 1e-4) >= p_value]), abs=1e-9)
    assert level.get_xdata()[0] == 0.2
    assert mode.get_xdata()[0] == pytest.approx(plain.mode_evidence.p_invariant)
    assert chosen.get_ydata()[0] == pytest.approx(plain.evidence.r2)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("p_inv: p-value of invariance", "R² of the pooled fit")
    assert ax.get_title(loc="left") == "Outcome y: 2 features selected, compatible with invariance"


@pytest.mark.parametrize("kind", PICTURES)
def test_every_picture_survives_odd_names_and_empty_answers(plain: Decision, tmp_path: Path, kind: str) -> None:
    names = ("$\\frac{$", "a_b^c", "tab\tname", "x" * 200)
    odd = decided(made(feature_names=names, outcome_name="$y"))
    empty = replace(plain, mask=np.zeros(4, dtype=bool))
    one = decided(made(n_environments=1))
    for number, decision in enumerate((odd, decided(broken()), empty, one)):
        path = save_picture(decision, kind, tmp_path / f"{number}")
        assert path == tmp_path / f"{number}.png"
        assert path.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn(plain: Decision, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no picture 'pie': use 'inclusion' or 'subsets' or "):
        save_picture(plain, "pie", tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"cannot write a picture as '\.docx'"):
        save_picture(plain, "frontier", tmp_path / "a.docx")


def test_matplotlib_is_not_loaded_before_it_is_used() -> None:
    code = "import invariance.decisions.plots\nassert 'matplotlib' not in sys.modules, 'imported too early'\n"
    run_without_package_init(code)
