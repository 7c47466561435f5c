"""`plot` of a posterior, a decision and a fitted model: the same kinds, on any axes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

import invariance
from decision_cases import broken, decided, made
from invariance import BIP, BIPClassifier, BIPSurvival, Columns, Posterior, UniformPrior
from invariance.decisions.plots import PICTURES, picture_size
from invariance.exceptions import SettingError
from invariance.posterior.plots import PLOT_KINDS

NAMES = ("$\\frac{$", "a_b^c", "höhe\tμ−", "x" * 200)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model() -> BIP:
    return BIP().fit(made())


def axes_of(drawn: Any) -> list[Axes]:
    return list(np.atleast_1d(drawn))


@pytest.mark.parametrize("kind", PLOT_KINDS)
def test_each_kind_opens_one_figure_and_returns_its_axes(model: BIP, kind: str) -> None:
    for drawn_by in (model.posterior_, model.decision_, model, model.predictive_):
        before = plt.get_fignums()
        axes = axes_of(drawn_by.plot(kind))
        (number,) = set(plt.get_fignums()) - set(before)
        assert {ax.figure for ax in axes} == {plt.figure(number)}
        labels = "".join(ax.get_xlabel() + ax.get_ylabel() for ax in axes)
        assert labels or axes[0].figure.get_supxlabel()


@pytest.mark.parametrize("kind", PLOT_KINDS)
def test_given_axes_are_drawn_on_without_pyplot(model: BIP, kind: str) -> None:
    figure = Figure(figsize=(12, 6), layout="constrained")
    left, right = figure.subplots(1, 2)
    axes = axes_of(model.plot(kind, right))
    figure.draw_without_rendering()
    assert not plt.get_fignums()
    assert not left.has_data()
    assert set(figure.axes) == {left, *axes}
    for ax in axes:
        assert ax.get_figure(root=True) is figure
        middle = ax.get_window_extent().x0 / figure.bbox.width
        assert middle > 0.49


def test_axes_that_are_in_no_grid_are_divided_too(model: BIP) -> None:
    figure = Figure(figsize=(10, 6))
    panels = model.plot("coefficients", figure.add_axes((0.5, 0.1, 0.4, 0.5)))
    for ax in panels:
        x0, y0, x1, y1 = (ax.get_window_extent().extents / np.tile(figure.bbox.size, 2)).tolist()
        assert 0.5 <= x0 < x1 <= 0.9
        assert 0.1 <= y0 < y1 <= 0.6


def test_functions_draw_the_same(model: BIP) -> None:
    decision = model.decision_
    assert invariance.plot_inclusion(model.posterior_, top=2).get_ylabel() == "feature (2 of 4)"
    for drawer in (model, model.posterior_):
        assert drawer.plot("inclusion", top=2).get_ylabel() == "feature (2 of 4)"
    assert len(invariance.plot_coefficients(decision, top=1)) == len(model.plot("coefficients", top=1)) == 1
    assert len(invariance.plot_subsets(decision, top=2)[1].patches) == 2
    assert len(model.posterior_.plot("subsets", top=2)[1].patches) == 2
    assert invariance.plot_frontier(decision).get_xlabel() == decision.plot("frontier").get_xlabel()
    by_diagnosis = invariance.plot_environments(model.diagnose())
    widths = [bar.get_width() for bar in by_diagnosis.patches]
    assert widths == [bar.get_width() for bar in model.plot("environments").patches]


def test_the_predictive_posterior_draws_its_own_inclusion(model: BIP) -> None:
    predictive = model.predictive_
    assert predictive is not None
    drawn = sorted((bar.get_width() for bar in predictive.plot().patches), reverse=True)
    np.testing.assert_allclose(drawn, np.sort(predictive.inclusion)[::-1])
    assert not np.allclose(predictive.inclusion, model.posterior_.inclusion)


def test_a_posterior_without_a_fit_says_what_it_can_draw(model: BIP) -> None:
    alone = Posterior.from_json(model.posterior_.to_json())
    assert alone.plot().get_xlabel() == "posterior inclusion probability"
    with pytest.raises(SettingError, match=r"came without a fit.*'inclusion' alone.*\.plot\('subsets'\)"):
        alone.plot("subsets")
    back = pickle.loads(pickle.dumps(model.posterior_))
    assert len(back.plot("coefficients")) == 2


@pytest.mark.parametrize("drawn_by", ["posterior_", "decision_"])
def test_what_cannot_be_drawn(model: BIP, drawn_by: str) -> None:
    drawer = getattr(model, drawn_by)
    known = "'inclusion' or 'subsets' or 'coefficients' or 'environments' or 'frontier'"
    with pytest.raises(ValueError, match=f"there is no picture 'pie': use {known}"):
        drawer.plot("pie")
    for kind in ("environments", "frontier"):
        with pytest.raises(ValueError, match="is not cut to a number: leave out top=3"):
            drawer.plot(kind, top=3)
        plt.close(axes_of(drawer.plot(kind))[0].figure)
    for kind in ("inclusion", "subsets", "coefficients"):
        with pytest.raises(ValueError, match="top must be at least 1, not 0"):
            drawer.plot(kind, top=0)
    assert not plt.get_fignums()


def odd_fits() -> dict[str, Any]:
    data = made(feature_names=NAMES, outcome_name="$y_1$", environments=("$a$", "b_$", "ü", "c" * 90))
    where = {"environments": data.environment_index}
    times, rng = np.exp(-data.y / 2), np.random.default_rng(0)
    grouped = BIP(columns=Columns(groups={"pair": ["x0", "x3"]})).fit(data.X, data.y, **where)
    return {
        "odd names": decided(data),
        "nothing compatible": decided(broken()),
        "nothing selected": replace(decided(made()), mask=np.zeros(4, dtype=bool)),
        "one environment": decided(made(n_environments=1)),
        "two classes": BIPClassifier().fit(data.X, data.y > 0, **where).decision_,
        "counts": BIP().fit(data.X, rng.poisson(np.exp(data.y / 3)), **where).decision_,
        "times": BIPSurvival().fit(data.X, np.minimum(times, 2), event=times < 2, **where).decision_,
        "groups": replace(grouped.decision_, mask=np.ones(3, dtype=bool)),
        "many environments": decided(made(n_environments=45, n=20)),
    }


@pytest.fixture(scope="module")
def odd() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return odd_fits()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", PICTURES)
def test_every_kind_of_fit_is_drawn_without_a_warning(odd: dict[str, Any], kind: str) -> None:
    for decision in odd.values():
        size = picture_size(decision, kind)
        figure = Figure(figsize=size, layout="constrained")
        decision.plot(kind, figure.add_subplot())
        figure.draw_without_rendering()
        assert 1.0 < size[1] < 16.0


@pytest.mark.parametrize("kind", PICTURES)
def test_no_name_is_read_as_a_formula(odd: dict[str, Any], kind: str) -> None:
    figure = Figure(figsize=(9, 6), layout="constrained")
    odd["odd names"].plot(kind, figure.add_subplot())
    figure.draw_without_rendering()
    named = [text for text in figure.findobj(Text) if "$" in text.get_text()]
    assert named
    assert not any(text.get_parse_math() for text in named)
    assert not any("x" * 40 in text.get_text() or "c" * 40 in text.get_text() for text in figure.findobj(Text))


def test_two_hundred_features() -> None:
    decision = decided(made(n_noise=197, n=220), prior=UniformPrior(max_size=1))
    assert len(replace(decision, mask=np.arange(200) < 15).plot("coefficients")) == 12
    assert decision.plot("inclusion").get_ylabel() == "feature (30 of 200)"
    assert len(decision.plot("frontier").get_title(loc="left")) < 120
    assert decision.plot("subsets")[0].figure.get_suptitle()


def test_files_are_drawn_without_pyplot(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from decision_cases import decided, made\n"
        "from invariance.decisions.plots import PICTURES, save_picture\n"
        "decision = decided(made())\n"
        "for kind in PICTURES:\n"
        f"    save_picture(decision, kind, {str(tmp_path)!r} + '/' + kind)\n"
        "assert 'matplotlib.pyplot' not in sys.modules, 'pyplot keeps global state'\n"
    )
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", code], text=True, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    assert {found.name for found in tmp_path.iterdir()} == {f"{kind}.png" for kind in PICTURES}
