"""Pictures of a decision: the numbers that they show, on any axes, for every kind of fit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from decision_cases import Fixed, broken, decided, made
from invariance import BIP, MultiEnvironmentData, Posterior, UniformPrior
from invariance._tools.plotting import CHOSEN, EMPTY, INK, WARN, new_figure
from invariance.decisions.decision import Decision
from invariance.decisions.environments import (
    ComparedEnvironments,
    DeviancePart,
    Deviation,
    EnvironmentTest,
    compared_environments,
)
from invariance.decisions.forests import forests
from invariance.decisions.plots import Panels, picture_size, plot_environments, save_picture
from invariance.decisions.rules import Threshold
from invariance.exceptions import SettingError, WrongTypeError
from invariance.posterior.plots import PLOT_KINDS
from invariance.posterior.summary import format_p_value
from shifted_sites import own_baselines

pytestmark = pytest.mark.usefixtures("brief")
NAMES = ("$\\frac{$", "a_b^c", "höhe\tμ−", "x" * 200)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model() -> BIP:
    return BIP().fit(made())


@pytest.fixture(scope="module")
def plain(model: BIP) -> Decision:
    return model.decision_


def ticks(ax: Any, axis: str) -> list[str]:
    return [tick.get_text() for tick in getattr(ax, f"get_{axis}ticklabels")()]


def axes_of(drawn: Any) -> list[Axes]:
    return list(drawn.values()) if isinstance(drawn, Panels) else [drawn]


def words(drawn: Any) -> str:
    figure = axes_of(drawn)[0].figure
    figure.draw_without_rendering()
    return " ".join(" | ".join(text.get_text() for text in figure.findobj(Text)).split())


# ---------------------------------------------------------------- coefficients


def test_coefficients_have_a_panel_each_with_the_pooled_band(plain: Decision) -> None:
    panels = plain.plot("coefficients")
    assert (list(panels), repr(panels)) == (["a", "b"], "Panels('a', 'b')")
    assert panels.figure is panels["a"].figure
    assert [ax.get_title() for ax in panels.values()] == ["a", "b"]
    assert ticks(panels["a"], "y") == ["site 0", "site 1", "site 2", "site 3"]
    table = plain.coefficients().set_index(["column", "environment"])
    for ax in panels.values():
        own = table.loc[ax.get_title()]
        band = ax.patches[0]
        assert [band.get_x(), band.get_x() + band.get_width()] == pytest.approx(
            [own.loc["pooled", "lower"], own.loc["pooled", "upper"]]
        )
        np.testing.assert_allclose(
            ax.containers[0].lines[0].get_xdata(), own["estimate"].to_numpy()[1:]
        )
        (bars,) = ax.containers[0].lines[2]
        ends = np.array([segment[:, 0] for segment in bars.get_segments()])
        np.testing.assert_allclose(ends, own[["lower", "upper"]].to_numpy()[1:])


def test_many_columns_and_environments_are_cut() -> None:
    many = decided(
        made(n_environments=41, n=20, n_noise=10),
        prior=UniformPrior(max_size=1),
        select=Threshold(0.0),
    )
    panels = many.plot("coefficients")
    assert len(panels) == len(panels.figure.axes) == 12
    told = words(panels)
    assert "12 of 13 columns" in told
    assert "40 of 41 environments" in told
    assert list(many.plot("coefficients", top=5)) == list(many.columns[:5])
    table = many.coefficients().set_index(["column", "environment"])["estimate"]
    shown = ticks(next(iter(panels.values())), "y")
    assert len(shown) == 40
    for panel in panels.values():
        expected = [table[panel.get_title(), label] for label in shown]
        np.testing.assert_allclose(panel.containers[0].lines[0].get_xdata(), expected)
    compared = compared_environments(many.findings.target.model, many.mask)
    ax = plot_environments(compared)
    worst = min(compared.tests, key=lambda test: test.deviation.p_value)
    assert worst.environment in ticks(ax, "y")
    assert len(ticks(ax, "y")) == 40
    assert ticks(ax, "y") == sorted(ticks(ax, "y"), key=lambda label: int(label.split()[1]))


# ---------------------------------------------------------------- effects and environments left out


def test_effects_are_drawn_per_unit_and_ratios_on_a_logarithmic_axis(plain: Decision) -> None:
    for decision in (plain, decided(replace(made(), y=(made().y > 0).astype(float)))):
        found = decision.effects(by_environment=True).set_index("column")
        panels = decision.plot("effects")
        assert list(panels) == list(decision.columns)
        for name, ax in panels.items():
            own = found.loc[[name]]
            np.testing.assert_allclose(
                ax.containers[0].lines[0].get_xdata(), own["estimate"].to_numpy()[1:]
            )
            assert ax.get_title().splitlines()[1] == own["unit"].iloc[0]
            assert ax.get_xscale() == ("linear" if decision is plain else "log")
            assert 1 < len(ax.get_xticks()) < 9


def test_a_forest_ends_in_a_diamond_and_a_bar(plain: Decision) -> None:
    for decision in (plain, decided(replace(made(), y=(made().y > 0).astype(float)))):
        effects = decision.effects().set_index("column")
        panels = decision.plot("effects")
        assert ticks(next(iter(panels.values())), "y")[-2:] == ["all together", "a new one"]
        for name, ax in panels.items():
            own, (diamond,) = effects.loc[name], ax.patches
            corners = diamond.get_xy()
            assert (corners[:, 0].min(), corners[:, 0].max()) == pytest.approx(
                (own["lower"], own["upper"])
            )
            assert corners[np.argmax(corners[:, 1]), 0] == pytest.approx(own["estimate"])
            assert corners[:, 1].mean() == pytest.approx(4.0, abs=0.1)
            bars = [
                line.get_xdata().tolist() for line in ax.lines if list(line.get_ydata()) == [5, 5]
            ]
            assert bars == [[own["prediction_lower"], own["prediction_upper"]]]
            figures = f"{own['i2']:.0%}", f"{own['tau']:.2g}", format_p_value(own["p_interaction"])
            assert ax.get_xlabel() == "I² {}, τ {}, p {}".format(*figures)


def test_an_infinite_effect_is_an_arrow_that_stretches_no_axis() -> None:
    """Of b at site 1, which separates the classes there; at site 2 there are no events."""
    data = made()
    X = data.X.copy()
    where = data.environment_index
    X[:, 1] = X[:, 1] > 0.8
    chance = 1.0 / (1.0 + np.exp(-X[:, 0] - 0.5 * X[:, 1]))
    y = (np.random.default_rng(0).random(len(X)) < chance).astype(float)
    y[(where == 1) & (X[:, 1] == 1.0)] = 1.0
    y[where == 2] = 0.0
    decision = decided(replace(data, X=X, y=y), select=Fixed((True, True, False, False)))
    infinite = (
        decision.coefficients().query("infinite")[["column", "environment"]].to_numpy().tolist()
    )
    assert infinite == [["b", "site 1"], ["a", "site 2"], ["b", "site 2"]]
    for kind in ("effects", "coefficients"):
        panels = decision.plot(kind)
        assert "arrow: infinite" in panels.figure.get_supxlabel()
        arrows = {
            name: [line for line in ax.lines if line.get_marker() in "<>"]
            for name, ax in panels.items()
        }
        assert not arrows["a"]
        assert [(line.get_marker(), *line.get_ydata()) for line in arrows["b"]] == [(">", 1)]
        table = (
            decision.effects(by_environment=True) if kind == "effects" else decision.coefficients()
        )
        for name, ax in panels.items():
            own = table[(table["column"] == name) & ~table["infinite"]]
            low, high = ax.get_xlim()
            if kind == "effects":
                assert (
                    np.log(high / low) < 2.0 * np.log(own["upper"].max() / own["lower"].min()) + 1.0
                )
            else:
                assert high - low < 2.0 * (own["upper"].max() - own["lower"].min())
            assert "no events" in words(panels)
            drawn = ax.containers[0].lines[0].get_xdata()
            np.testing.assert_array_equal(drawn, own["estimate"].iloc[1:])


def test_intervals_far_beyond_the_others_are_cut() -> None:
    values = [("x", "pooled", 1.0, 0.9, 1.1)]
    values += [("x", f"site {e}", 1.0 + 0.01 * e, 0.9, 1.1) for e in range(8)] + [
        ("x", "small", 1.0, -300.0, 400.0)
    ]
    table = pd.DataFrame(
        values, columns=["column", "environment", "estimate", "lower", "upper"]
    ).assign(note="")
    figure = new_figure(4.0, 4.0)
    (ax,) = forests([figure.add_subplot()], table, {"x": "x"}, {}).values()
    low, high = ax.get_xlim()
    assert -1.0 < low < 0.9
    assert 1.1 < high < 3.0
    assert sorted(line.get_marker() for line in ax.lines if line.get_marker() in "<>") == ["<", ">"]


def test_levels_of_a_feature_are_drawn_under_its_name() -> None:
    rng = np.random.default_rng(0)
    level = rng.choice(["a", "b", "c"], 300)
    y = (level == "b") + 3.0 * (level == "c") + rng.normal(size=300)
    table = pd.DataFrame({"level": level, "y": y, "site": np.repeat(["p", "q", "r"], 100)})
    panels = BIP().fit(MultiEnvironmentData.from_table(table, "y", "site")).plot("effects")
    assert [ax.get_title() for ax in panels.values()] == [
        "level\nb against a",
        "level\nc against a",
    ]


def test_environments_left_out_and_their_calibration_are_drawn(model: BIP) -> None:
    found = model.new_environments()
    panels = model.plot("left_out")
    assert list(panels) == ["intercept", "slope", "rmse"]
    for name, ax in panels.items():
        drawn = ax.containers[0]
        np.testing.assert_allclose(
            drawn.lines[0].get_xdata(), [left.figures[name] for left in found.left_out]
        )
        ends = np.array([segment[:, 0] for segment in drawn.lines[2][0].get_segments()])
        np.testing.assert_allclose(ends, [left.intervals[name] for left in found.left_out])
        guides = [line.get_xdata()[0] for line in ax.get_lines() if len(set(line.get_xdata())) == 1]
        assert found.on_average(name) in guides
    for label, ax in model.plot("calibration").items():
        left = next(left for left in found.left_out if left.environment == label)
        np.testing.assert_allclose(
            np.transpose(ax.containers[0].lines[0].get_data()), left.calibration[:, :2]
        )


@pytest.mark.parametrize("case", ["one row each", "one class each"])
def test_environments_without_intervals_are_drawn(
    case: str, without_pictures: None, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(48, 2))
    sites = np.arange(48) // (1 if case == "one row each" else 12)
    y = X[:, 0] + rng.normal(size=48) if case == "one row each" else (sites > 1).astype(float)
    family = "linear_gaussian" if case == "one row each" else "logistic"
    model = BIP(family).fit(X, y, environments=sites)
    found = model.new_environments()
    assert not any(left.intervals for left in found.left_out)
    panels = model.plot("left_out", top=48)
    for name, ax in panels.items():
        drawn = sum(len(container.lines[0].get_xdata()) for container in ax.containers)
        assert drawn == sum(np.isfinite(left.figures[name]) for left in found.left_out)
    assert "Environments left out" in model.report(tmp_path / "page.html").read_text(
        encoding="utf-8"
    )


# ---------------------------------------------------------------- subsets and frontier


def test_subsets_are_rows_of_dots_in_the_order_of_prediction(plain: Decision) -> None:
    predictive = plain.findings.predictive
    assert predictive is not None
    dots, probability, r2, p_invariant = plain.plot("subsets").values()
    held = [predictive.feature_names.index(name) for name in ticks(dots, "x")]
    assert (np.diff(predictive.inclusion[held]) <= 0).all()
    colours = np.array([to_hex(c) for c in dots.collections[0].get_facecolors()]).reshape(
        len(predictive.masks), -1
    )
    np.testing.assert_array_equal(colours != EMPTY, predictive.masks[:, held])
    assert (colours[0] == CHOSEN).sum() == 2
    assert not (colours[1:] == CHOSEN).any()
    evidence = predictive.leading_evidence(len(predictive.masks))
    drawn = (
        (probability, np.exp(predictive.log_probabilities)),
        (r2, evidence.r2),
        (p_invariant, evidence.p_invariant),
    )
    for ax, values in drawn:
        np.testing.assert_allclose([bar.get_width() for bar in ax.patches], values)
    assert len(plain.plot("subsets", top=2)["probability"].patches) == 2
    assert r2.get_xlim()[1] == pytest.approx(np.nanmax(evidence.r2))
    assert [line.get_xdata()[0] for line in p_invariant.get_lines()] == [0.2]


def test_the_frontier_of_effects_is_within_environments() -> None:
    """The paper's mode, which compares baselines, is drawn with its own difference of effects."""
    decision = decided(own_baselines())
    assert decision.level == "effects"
    ax = decision.plot("frontier")
    assert ax.get_ylabel().endswith("within environments")
    mode = decision.findings.posterior.mode_mask
    drawn = next(each for each in ax.containers if each.get_label() == "the paper's mode")
    (difference,), (r2,) = drawn[0].get_data()
    assert r2 == pytest.approx(decision.findings.target.model.r2_many(mode[None])[0])
    assert difference == pytest.approx(
        max(decision.findings.target.model.difference(mode[None]).estimate[0], 0.005)
    )
    low, high = ax.get_ylim()
    assert low < r2 < high
    assert decision.in_short in " ".join(ax.get_title(loc="left").split())


def test_frontier_is_the_best_r2_up_to_each_difference(plain: Decision) -> None:
    survey = plain.survey
    known = ~np.isnan(survey.difference)
    assert (len(survey.masks), known.sum()) == (16, 15)  # the empty subset has no coefficients
    ax = plain.plot("frontier")
    for points, compatible in zip(ax.collections, (False, True), strict=False):
        x, y = points.get_offsets().T
        which = known & ((survey.p_invariant >= 0.2) == compatible)
        np.testing.assert_allclose(x, np.maximum(survey.difference[which], 5e-3))
        np.testing.assert_allclose(y, survey.r2[which])
    step, tolerated = ax.get_lines()[:2]
    assert tolerated.get_xdata()[0] == 0.1
    for difference, best in zip(*step.get_data(), strict=True):
        assert best == pytest.approx(
            max(survey.r2[known & (survey.difference <= max(difference, 5.1e-3))]), abs=1e-9
        )
    _, chosen = ax.containers
    found = plain.evidence
    assert chosen.lines[0].get_xdata()[0] == pytest.approx(max(found.difference, 5e-3))
    (interval,) = chosen.lines[2][0].get_segments()
    np.testing.assert_allclose(
        interval[:, 0], np.maximum([found.difference_low, found.difference_high], 5e-3)
    )
    assert chosen.lines[0].get_ydata()[0] == pytest.approx(found.r2)


# ---------------------------------------------------------------- environments


def environment(label: str, p_value: float | None, *parts: float) -> EnvironmentTest:
    if p_value is None:
        return EnvironmentTest(label, 9, None)
    found = {
        name: DeviancePart(1.0, p) for name, p in zip(("intercept", "slopes"), parts, strict=True)
    }
    return EnvironmentTest(label, 9, Deviation(1.0, 1.0, 1.0, p_value, p_value, found))


def test_the_alarm_is_that_of_the_environment_and_not_of_a_part() -> None:
    tests = (
        environment("part only", 0.03, 0.001, 0.9),
        environment("alarm", 0.001, 0.02, 0.02),
        environment("unknown", None),
        environment("quiet", 0.5, 0.5, 0.5),
    )
    ax = plot_environments(ComparedEnvironments(("a",), "y", tests, ("intercept", "slopes")))
    quiet, alarms, line = ax.get_lines()
    assert line.get_xdata()[0] == pytest.approx(-np.log10(0.05 / 4))
    np.testing.assert_allclose(quiet.get_xdata(), -np.log10([0.03, np.nan, 0.5]))
    np.testing.assert_allclose(alarms.get_xdata(), [3.0])
    assert alarms.get_ydata().tolist() == [1]
    assert (to_hex(alarms.get_color()), to_hex(quiet.get_color())) == (WARN, INK)
    assert [label.get_color() == WARN for label in ax.get_yticklabels()] == [
        False,
        True,
        False,
        False,
    ]
    assert [text.get_position()[1] for text in ax.texts] == [2]
    first = [bar.get_width() for bar in ax.patches[:4]]
    np.testing.assert_allclose(first, -np.log10([0.001, 0.02, 1.0, 0.5]))


# ---------------------------------------------------------------- where they are drawn


@pytest.mark.parametrize("kind", ["inclusion", "subsets", "environments"])
def test_given_axes_are_drawn_on_without_pyplot(model: BIP, kind: str) -> None:
    figure = Figure(figsize=(12, 6), layout="constrained")
    left, right = figure.subplots(1, 2)
    axes = axes_of(model.plot(kind, right))
    figure.draw_without_rendering()
    assert not plt.get_fignums()
    assert not left.has_data()
    assert set(figure.axes) == {left, *axes}
    assert all(ax.get_window_extent().x0 / figure.bbox.width > 0.49 for ax in axes)
    for wrong in (Figure(), np.array([Figure().add_subplot()]), "a.png"):
        with pytest.raises(WrongTypeError, match=type(wrong).__name__):
            model.plot(kind, wrong)


def test_posteriors_draw_their_own_inclusion(model: BIP) -> None:
    predictive = model.predictive_
    assert predictive is not None
    for posterior in (predictive, model.posterior_):
        drawn = sorted((bar.get_width() for bar in posterior.plot().patches), reverse=True)
        np.testing.assert_allclose(drawn, np.sort(posterior.inclusion)[::-1])
    alone = Posterior.from_json(model.posterior_.to_json())
    assert alone.plot().patches
    with pytest.raises(SettingError, match="subsets"):
        alone.plot("subsets")


def test_what_cannot_be_drawn(model: BIP, tmp_path: Path) -> None:
    drawn_by_both = {"trace", "inclusion"}
    for drawer in (model.posterior_, model.decision_):
        with pytest.raises(SettingError, match="pie"):
            drawer.plot("pie")
        for kind in ("environments", "frontier", "trace"):
            told = "top=3" if drawer is model.decision_ or kind in drawn_by_both else kind
            with pytest.raises(SettingError, match=told):
                drawer.plot(kind, top=3)
    for top, error in ((0, ValueError), ("3", WrongTypeError), (2.5, WrongTypeError)):
        with pytest.raises(error, match="top"):
            model.posterior_.plot("inclusion", top=top)
        for kind in ("inclusion", "subsets", "coefficients"):
            with pytest.raises(error, match="top"):
                model.decision_.plot(kind, top=top)
    with pytest.raises(ValueError, match="docx"):
        save_picture(model.decision_, "frontier", tmp_path / "a.docx")
    assert not plt.get_fignums()


# ---------------------------------------------------------------- every kind of fit


@pytest.fixture(scope="module")
def odd() -> dict[str, Decision]:
    data = made(
        n=60, feature_names=NAMES, outcome_name="$y_1$", environments=("$a$", "b_$", "ü", "c" * 90)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "odd names": decided(data),
            "nothing compatible": decided(broken()),
            "nothing selected": replace(decided(made()), mask=np.zeros(4, dtype=bool)),
            "one environment": decided(made(n_environments=1)),
        }


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", PLOT_KINDS)
def test_every_kind_of_fit_is_drawn(odd: dict[str, Decision], kind: str, tmp_path: Path) -> None:
    """Without a warning; no name is read as a formula; headlines fit."""
    for name, decision in odd.items():
        size = picture_size(decision, kind)
        assert 1.0 < size[1] < 16.0
        figure = Figure(figsize=size, layout="constrained")
        decision.plot(kind, figure.add_subplot())
        figure.draw_without_rendering()
        texts = figure.findobj(Text)
        assert not any(text.get_parse_math() for text in texts if "$" in text.get_text()), name
        assert not any("x" * 40 in text.get_text() or "c" * 40 in text.get_text() for text in texts)
        for text in texts:
            if text.get_text().startswith("Outcome"):
                assert text.get_window_extent().x1 <= figure.bbox.width + 1
    path = save_picture(odd["odd names"], kind, tmp_path / "picture")
    assert path == tmp_path / "picture.png"
    assert path.read_bytes().startswith(b"\x89PNG")
