"""Pictures that must not say anything else than the numbers do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from numba.core import event

import invariance
from decision_cases import broken, decided, made
from invariance import BIP
from invariance._tools.plotting import EMPTY, INK, WARN, text_width, wrapped
from invariance._tools.progress import ProgressBar, compilation_explained
from invariance.baselines.comparison import comparison_size
from invariance.decisions.decision import Decision
from invariance.decisions.environments import ComparedEnvironments, Deviation, EnvironmentTest, Part
from invariance.decisions.plots import (
    PICTURES,
    _headline_text,
    plot_coefficients,
    plot_environments,
    plot_frontier,
    plot_subsets,
)
from invariance.exceptions import WrongTypeError


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model() -> BIP:
    return BIP().fit(made())


def environment(label: str, p_value: float | None, *parts: float) -> EnvironmentTest:
    if p_value is None:
        return EnvironmentTest(label, 9, None)
    found = {name: Part(1.0, p) for name, p in zip(("intercept", "slopes"), parts, strict=True)}
    return EnvironmentTest(label, 9, Deviation(1.0, 1.0, 1.0, p_value, p_value, found))


def test_the_alarm_is_that_of_the_environment_and_not_of_a_part() -> None:
    tests = (
        environment("part only", 0.03, 0.001, 0.9),
        environment("alarm", 0.001, 0.02, 0.02),
        environment("unknown", None),
    )
    compared = ComparedEnvironments(("a",), "y", (*tests, environment("quiet", 0.5, 0.5, 0.5)), ("intercept", "slopes"))
    ax = plot_environments(compared)
    quiet, alarms, line = ax.get_lines()
    assert line.get_xdata()[0] == pytest.approx(-np.log10(0.05 / 4))
    assert "0.05/4" in line.get_label()
    assert "diamonds" in line.get_label()
    np.testing.assert_allclose(quiet.get_xdata(), -np.log10([0.03, np.nan, 0.5]))
    np.testing.assert_allclose(alarms.get_xdata(), [3.0])
    assert alarms.get_ydata().tolist() == [1]
    assert (to_hex(alarms.get_color()), to_hex(quiet.get_color())) == (WARN, INK)
    assert [label.get_color() == WARN for label in ax.get_yticklabels()] == [False, True, False, False]
    assert [(text.get_text(), text.get_position()[1]) for text in ax.texts] == [("cannot be judged", 2)]


def test_environments_that_cannot_be_judged_go_first_where_there_are_too_many() -> None:
    tests = tuple(environment(f"e{n}", None if n < 5 else 0.5, 0.5, 0.5) for n in range(45))
    ax = plot_environments(ComparedEnvironments(("a",), "y", tests, ("intercept", "slopes")))
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [f"e{n}" for n in range(5, 45)]


def dependent(**settings: Any) -> Decision:
    """b is 2a at site 1."""
    data = made()
    X = data.X.copy()
    there = data.environment_index == 1
    X[there, 1] = 2.0 * X[there, 0]
    return replace(decided(replace(data, X=X), **settings), mask=np.array([True, True, False, True]))


def test_a_combination_of_others_is_not_constant_and_who_stands_for_it_is_told() -> None:
    decision = dependent()
    notes = decision.coefficients().set_index(["environment", "column"])["note"]
    assert notes.loc[("site 1", "a")] == "stands for b too"
    assert notes.loc[("site 1", "b")] == "not identified"
    assert (notes != "").sum() == 2
    a, b, noise = plot_coefficients(decision)
    assert [(text.get_text(), text.get_position()[1]) for text in b.texts] == [("not identified", 1)]
    assert "hollow" in a.figure.get_suptitle()
    for panel, hollow in ((a, [1]), (b, []), (noise, [])):
        assert panel.containers[1].lines[0].get_ydata().tolist() == hollow


def test_a_site_with_too_few_rows_is_not_called_constant() -> None:
    data = made(n_environments=3)
    kept = np.flatnonzero((data.environment_index < 2) | (np.arange(data.n_rows) >= data.n_rows - 4))
    small = replace(data, X=data.X[kept], y=data.y[kept], environment_index=data.environment_index[kept])
    decision = replace(decided(small), mask=np.ones(4, dtype=bool))
    notes = decision.coefficients().set_index("environment")["note"]
    assert set(notes.loc["site 2"]) == {"too few rows"}


def test_no_interval_is_promised_where_there_is_none() -> None:
    decision = dependent(family="bayesian_linear_gaussian")
    panels = plot_coefficients(decision)
    assert panels[0].figure.get_supxlabel() == "coefficient (line: all rows together)"
    assert set(decision.coefficients()["note"]) == {""}


def test_coefficients_of_many_environments_are_those_of_the_first() -> None:
    many = replace(decided(made(n_environments=43, n=20)), mask=np.array([True, True, False, False]))
    table = many.coefficients().set_index("column")["estimate"]
    for panel in plot_coefficients(many):
        expected = table.loc[panel.get_title()].to_numpy()[1:41]
        np.testing.assert_allclose(panel.containers[0].lines[0].get_xdata(), expected)


def test_the_frontier_steps_where_better_subsets_begin(model: BIP) -> None:
    step = plot_frontier(model).get_lines()[0]
    assert step.get_drawstyle() == "steps-post"
    assert (np.diff(step.get_xdata()) <= 0).all()


def test_a_mode_without_any_invariance_is_on_the_picture() -> None:
    decision = decided(made())
    far = replace(decision.mode_evidence, p_invariant=1e-30)
    decision.__dict__["mode_evidence"] = far
    assert plot_frontier(decision).get_lines()[2].get_xdata()[0] == 1e-4


def test_the_level_of_compatible_subsets_is_the_one_that_counted(model: BIP) -> None:
    decision = replace(model.decision_)
    weak = replace(decision.compatible, accepted=replace(decision.accepted, level=0.07))
    decision.__dict__["compatible"] = weak
    assert plot_subsets(decision)[-1].get_lines()[0].get_xdata()[0] == 0.07


def test_features_of_subsets_are_in_the_order_of_their_probability(model: BIP) -> None:
    predictive = model.predictive_
    assert predictive is not None
    names = [tick.get_text() for tick in plot_subsets(model)[0].get_xticklabels()]
    shown = [predictive.inclusion[predictive.feature_names.index(name)] for name in names]
    assert shown == sorted(shown, reverse=True)
    assert len(set(shown)) > 1


def test_headlines_of_odd_cases(model: BIP) -> None:
    assert _headline_text(decided(made(n_environments=1))).endswith("one environment cannot show invariance")
    unjudged = replace(model.decision_)
    unjudged.__dict__["evidence"] = replace(unjudged.evidence, deviance=np.nan)
    assert _headline_text(unjudged).endswith("which the rows cannot judge")
    assert _headline_text(decided(broken())).endswith("NOT compatible with invariance")


def test_text_is_measured_and_wrapped() -> None:
    drawn = Figure().text(0, 0, "Wide words")
    assert text_width("Wide words") == pytest.approx(drawn.get_window_extent().width / 100, rel=0.05)
    lines = wrapped(" ".join(["WWWW"] * 20), 2.0).split("\n")
    assert len(lines) > 4
    assert all(text_width(line) <= 2.0 for line in lines)


@pytest.mark.parametrize("kind", PICTURES)
@pytest.mark.parametrize("layout", ["constrained", None])
def test_nothing_leaves_the_figure(kind: str, layout: str | None) -> None:
    names = tuple(f"{letter * 12}" for letter in "WMQG")
    decision = decided(made(feature_names=names, outcome_name="W" * 30))
    size = PICTURES[kind].size(decision) if layout else (6.4, 4.8)
    figure = Figure(figsize=size, layout=layout)
    decision.plot(kind, figure.add_subplot())
    figure.draw_without_rendering()
    headlines = [text for text in figure.findobj(Text) if text.get_text().startswith("Outcome")]
    assert headlines
    for text in headlines:
        assert text.get_window_extent().x1 <= figure.bbox.width + 1
        assert text.get_window_extent().y1 <= figure.bbox.height + 1


def test_on_plain_axes_legends_and_numbers_have_room(model: BIP) -> None:
    figure, ax = plt.subplots()
    legend = model.plot("frontier", ax).get_legend()
    figure.draw_without_rendering()
    assert ax.get_window_extent().containsy(legend.get_window_extent().y0)
    figure, ax = plt.subplots()
    panels = model.plot("subsets", ax)
    figure.draw_without_rendering()
    for panel, following in pairwise(panels[1:]):
        assert all(text.get_window_extent().x1 <= following.get_window_extent().x0 for text in panel.texts)
    assert all(text.get_window_extent().x1 <= figure.bbox.width for text in panels[-1].texts)


def test_a_comparison_with_long_names_keeps_its_squares() -> None:
    methods = [SimpleNamespace(name="BIP", status=np.array(["selected"] * 5), verdict=None)]
    short, wide = (
        SimpleNamespace(methods=methods, feature_names=tuple(f"{n}{name}" for n in range(5))) for name in ("", "W" * 30)
    )
    assert comparison_size(wide)[1] > comparison_size(short)[1] + 1.5


def test_what_may_be_handed_to_the_functions(model: BIP) -> None:
    for given in (model, model.posterior_):
        assert invariance.plot_inclusion(given).patches
    for given in (model, model.decision_, model.diagnose(leave_out=False)):
        assert len(invariance.plot_environments(given).patches) == 12
    for draw in (invariance.plot_subsets, invariance.plot_coefficients, invariance.plot_frontier):
        assert np.size(draw(model))
        with pytest.raises(
            WrongTypeError, match=rf"{draw.__name__} draws a decision, not Posterior: .* model\.decision_"
        ):
            draw(model.posterior_)
    with pytest.raises(WrongTypeError, match=r"draws a Posterior, not Decision: .* model\.posterior_"):
        invariance.plot_inclusion(model.decision_)
    with pytest.raises(WrongTypeError, match=r"draws a diagnosis, not int: pass model\.diagnose\(\)"):
        invariance.plot_environments(3)


@pytest.mark.parametrize("kind", PICTURES)
def test_only_axes_are_drawn_on(model: BIP, kind: str) -> None:
    for ax in (Figure(), np.array([Figure().add_subplot()]), "a.png"):
        with pytest.raises(WrongTypeError, match=f"ax is one Axes of matplotlib, not {type(ax).__name__}"):
            model.plot(kind, ax)


def test_numbers_that_are_none(model: BIP) -> None:
    for kind in ("inclusion", "subsets", "coefficients"):
        for top in ("3", 2.5, float("nan")):
            with pytest.raises(WrongTypeError, match="top must be a whole number of at least 1"):
                model.plot(kind, top=top)
    with pytest.raises(ValueError, match="coverage='a' is not possible"):
        plot_coefficients(model, coverage="a")
    assert not plt.get_fignums()


def test_a_dark_style_stays_dark(model: BIP) -> None:
    with plt.style.context("dark_background"):
        ax = model.plot("frontier")
        dots = model.plot("subsets")[0]
    assert ax.get_xgridlines()[0].get_color() == "0.2"
    assert INK in [to_hex(colour) for colour in dots.collections[0].get_facecolors()]
    assert dots.lines[-1].get_color() == EMPTY


def test_stages_have_names_of_their_own_and_are_told_by_one_thread() -> None:
    heard: list[str] = []
    BIP(progress=lambda done, what: heard.append(what)).fit(made())
    assert list(dict.fromkeys(heard)) == ["scoring subsets", "scoring compatible subsets"]


def test_a_function_is_called_by_the_thread_that_waits() -> None:
    callers: list[str] = []

    def compiles() -> None:
        with event.trigger_event("numba:compile"):
            pass

    def elsewhere() -> None:
        worker = threading.Thread(target=compiles)
        worker.start()
        worker.join()

    def hear(done: float, what: str) -> None:
        callers.append(threading.current_thread().name)

    with compilation_explained(hear):
        elsewhere()
        with ProgressBar("counting", 2, hear):
            elsewhere()
    assert set(callers) == {threading.current_thread().name}
    assert len(callers) == 2
