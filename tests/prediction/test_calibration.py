"""Figures of predictions beside statsmodels and scikit-learn, and where something is not defined."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.metrics import brier_score_loss, d2_tweedie_score, log_loss, r2_score, roc_auc_score

from invariance.models.base import Predicts
from invariance.prediction.new_environments import FIGURES, figures_of, log_odds


def classes(n: int = 150, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes, and probabilities that are too high and too extreme."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(size=n)
    return (rng.uniform(size=n) < expit(odds)).astype(float), expit(0.7 + 1.8 * odds)


def counts(n: int = 150, seed: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts, rates that are too high and too extreme, and exposures."""
    rng = np.random.default_rng(seed)
    logs, exposure = rng.normal(size=n), rng.uniform(0.5, 8.0, n)
    return rng.poisson(exposure * np.exp(logs)).astype(float), np.exp(0.4 + 1.5 * logs), exposure


def test_probabilities() -> None:
    y, p = classes()
    found = figures_of(Predicts.probability, y, p)
    odds = logit(p)
    slope = sm.GLM(y, sm.add_constant(odds), family=sm.families.Binomial()).fit(tol=1e-12).params[1]
    large = sm.GLM(y, np.ones((len(y), 1)), family=sm.families.Binomial(), offset=odds).fit(tol=1e-12).params[0]
    expected = {
        "observed": y.mean(),
        "predicted": p.mean(),
        "intercept": large,
        "slope": slope,
        "brier": brier_score_loss(y, p),
        "log_loss": log_loss(y, p),
        "auc": roc_auc_score(y, p),
    }
    assert tuple(found) == FIGURES[Predicts.probability]
    np.testing.assert_allclose(list(found.values()), [expected[name] for name in found], rtol=1e-8)
    assert found["slope"] < 0.8
    assert found["intercept"] < -0.2


def test_rates() -> None:
    y, rate, exposure = counts()
    found = figures_of(Predicts.rate, y, rate, exposure)
    poisson = {"family": sm.families.Poisson(), "offset": np.log(exposure)}
    slope = sm.GLM(y, sm.add_constant(np.log(rate)), **poisson).fit(tol=1e-12).params[1]
    large = sm.GLM(y, np.ones((len(y), 1)), family=sm.families.Poisson(), offset=np.log(rate * exposure)).fit(tol=1e-12)
    own = sm.GLM(y, np.ones((len(y), 1)), **poisson).fit(tol=1e-12)
    missed = sm.families.Poisson().deviance(y, rate * exposure)
    expected = {
        "observed": y.sum() / exposure.sum(),
        "predicted": (rate * exposure).sum() / exposure.sum(),
        "intercept": large.params[0],
        "slope": slope,
        "deviance_explained": 1.0 - missed / own.deviance,
    }
    np.testing.assert_allclose(list(found.values()), [expected[name] for name in found], rtol=1e-8)


def test_counts_without_an_exposure_have_one_unit_of_it() -> None:
    y, rate, _ = counts()
    found = figures_of(Predicts.rate, y, rate)
    assert found == figures_of(Predicts.rate, y, rate, np.ones(len(y)))
    np.testing.assert_allclose(found["deviance_explained"], d2_tweedie_score(y, rate, power=1), rtol=1e-9)


def test_numbers() -> None:
    rng = np.random.default_rng(3)
    y, predicted = rng.normal(size=(2, 40))
    found = figures_of(Predicts.number, y, predicted)
    expected = [y.mean(), predicted.mean(), np.sqrt(np.mean((y - predicted) ** 2)), r2_score(y, predicted)]
    np.testing.assert_allclose(list(found.values()), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("y", "p", "unknown"),
    [
        ([0, 0, 0], [0.2, 0.4, 0.3], {"intercept", "slope", "auc"}),  # one class
        ([1, 1, 1], [0.2, 0.4, 0.3], {"intercept", "slope", "auc"}),
        ([0, 0, 1, 1], [0.1, 0.2, 0.6, 0.9], {"slope"}),  # separated
        ([0, 1, 1, 1], [0.1, 0.1, 0.6, 0.9], {"slope"}),  # but for one value
        ([1, 1, 0, 0], [0.1, 0.2, 0.6, 0.9], {"slope"}),  # the wrong way round
        ([0, 1, 1, 0], [0.3, 0.3, 0.3, 0.3], {"slope"}),  # nothing to multiply
        ([0, 1, 1, 0], [0.0, 1.0, 0.3, 0.6], set()),  # certain, and right
        ([0, 1, 0, 1], [1.0, 0.0, 0.3, 0.6], set()),  # certain, and wrong
    ],
)
def test_what_is_not_defined_of_probabilities(y: list[float], p: list[float], unknown: set[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = figures_of(Predicts.probability, np.array(y, float), np.array(p, float))
    assert {name for name, value in found.items() if np.isnan(value)} == unknown
    assert np.isfinite([value for name, value in found.items() if name not in unknown]).all()


@pytest.mark.parametrize(
    ("y", "rate", "unknown"),
    [
        ([0, 0, 0], [0.2, 0.4, 0.3], {"intercept", "slope", "deviance_explained"}),  # no events
        ([0, 0, 3], [0.2, 0.3, 0.4], {"slope"}),  # all at the largest rate
        ([0, 3, 0], [0.2, 0.3, 0.4], set()),
        ([1, 3, 2], [0.3, 0.3, 0.3], {"slope"}),
        ([2, 2, 2], [0.2, 0.3, 0.4], {"deviance_explained"}),  # no scatter
        ([0, 1, 2], [0.2, -0.3, 0.4], {"intercept", "slope", "deviance_explained"}),  # no rate
    ],
)
def test_what_is_not_defined_of_rates(y: list[float], rate: list[float], unknown: set[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = figures_of(Predicts.rate, np.array(y, float), np.array(rate, float))
    assert {name for name, value in found.items() if np.isnan(value)} == unknown


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.floats(-60.0, 60.0)), min_size=2, max_size=30))
def test_a_slope_and_a_shift_are_where_they_should_be(rows: list[tuple[bool, float]]) -> None:
    y, p = np.array([row[0] for row in rows], float), expit(np.array([row[1] for row in rows]))
    found = figures_of(Predicts.probability, y, p)
    if not np.isnan(found["intercept"]):
        np.testing.assert_allclose(expit(log_odds(p) + found["intercept"]).mean(), y.mean(), atol=1e-6)
    # At the maximum of the likelihood nothing is left that log odds explain.
    if not np.isnan(found["slope"]):
        odds = log_odds(p) * found["slope"]
        own = figures_of(Predicts.probability, y, expit(odds))["intercept"]
        assert abs(np.mean((y - expit(odds + own)) * odds)) < 1e-4 * max(1.0, np.abs(odds).max())
