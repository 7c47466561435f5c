"""What is said of the rows of a regression: events, environments without them, subsets that separate the outcome."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from count_twins import counted
from invariance import Logistic, Poisson
from invariance.models.counts import overdispersion
from invariance.models.regression import separates
from regression_cases import all_in_one, none_in_one, plain_table, regression_data, separated
from twins import all_masks


def test_events_are_told() -> None:
    X, y, environment = plain_table(False)
    notes, alarms = Logistic().bind(regression_data(X, y, environment)).remarks(all_masks(5))
    assert f"{y.sum():,.0f} events in 180 rows" in notes[0]
    fewest = int(np.argmin(np.bincount(environment, y)))
    assert f"first: {fewest} {np.bincount(environment, y).min():.0f} in 60" in notes[0]
    assert "Cox and Snell" in notes[1]
    assert alarms == ()


def test_environments_without_events_are_told() -> None:
    X, y, environment = plain_table(False)
    none = Logistic().bind(regression_data(*none_in_one(X, y, environment))).remarks(all_masks(5)[:1])
    assert "environment 1 (60 rows)" in none.alarms[0]
    every = Logistic().bind(regression_data(*all_in_one(X, y, environment))).remarks(all_masks(5)[:1])
    assert "environment 1 (60 rows)" in every.alarms[0]
    X, y, environment = plain_table(True)
    counted = Poisson().bind(regression_data(*all_in_one(X, y, environment))).remarks(all_masks(5)[:1])
    assert counted.alarms == ()


def test_separating_subsets_are_told() -> None:
    model = Logistic().bind(regression_data(*separated(*plain_table(False))))
    masks = all_masks(5)
    found = [bool(separates(model, mask)) for mask in masks]
    assert found == [bool(mask[0] and mask[1]) for mask in masks]
    (alarm,) = model.remarks(masks[[0, 3, 7]]).alarms
    assert alarm.startswith("{x0, x1} (and 1 more of the 3 leading subsets) separates the two values of 'y'")
    assert model.remarks(masks[:3]).alarms == ()


def test_a_plane_that_no_fit_shows() -> None:
    """One row far away turns the fit, and a plane between the values is still there."""
    rng = np.random.default_rng(4)
    environment = np.repeat([0, 1], 30)
    X = np.column_stack([rng.normal(size=60), rng.normal(size=60)])
    y = (X[:, 0] > 0.0).astype(float)
    X[:, 0] += np.where(y == 1.0, 0.02, -0.02)
    X[0] = 0.03 if y[0] else -0.03, 40.0
    model = Logistic(pseudo_rows=5.0).bind(regression_data(X, y, environment))
    assert separates(model, np.array([True, True]))
    assert not separates(model, np.array([False, True]))


def test_large_counts_beside_pseudo_data_are_told() -> None:
    X, y, environment = plain_table(True)
    large = y + np.ceil(180.0 - y.mean())
    advice = "poisson(pseudo_rows=0)"
    for outcome, pseudo_rows, told in ((large, 1.0, True), (large, 0.0, False), (large - 2.0, 1.0, False)):
        notes = Poisson(pseudo_rows).bind(regression_data(X, outcome, environment)).remarks(all_masks(5)[:0]).notes
        assert any(advice in note for note in notes) == told


# ---------------------------------------------------------------- counts that scatter more than a Poisson law has it


@pytest.mark.parametrize("exposed", [False, True])
def test_it_is_pearsons_statistic_with_own_intercepts(exposed: bool) -> None:
    data = counted(exposed=exposed)
    design = np.column_stack([np.repeat(np.eye(3), data.counts, axis=0), data.X[:, [0, 2]]])
    exposure = data.exposure if exposed else None
    fit = sm.GLM(data.y, design, family=sm.families.Poisson(), exposure=exposure).fit(tol=1e-12)
    found = overdispersion(Poisson(0.0).bind(data), ["x0", "x2"])
    assert found == pytest.approx(fit.pearson_chi2 / fit.df_resid, rel=1e-6)


def test_it_is_about_one_for_poisson_counts_only() -> None:
    for alpha, least, most in ((0.0, 0.9, 1.1), (1.0, 2.0, np.inf)):
        model = Poisson().bind(counted(alpha=alpha, counts=(400, 400)))
        assert least < overdispersion(model, ["x0", "x1"]) < most
        notes = model.remarks(np.array([[True, True, False, False]])).notes
        advised = [remedy.settings for note in notes for remedy in getattr(note, "remedies", ())]
        assert advised == ([(("family", "negative_binomial"),)] if alpha else [])
