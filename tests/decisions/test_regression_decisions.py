"""Decisions and diagnoses under the logistic and the Poisson model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from decision_cases import breaking_environment
from invariance import BIP, InclusionPrior, Logistic, Poisson, Tempering
from invariance.decisions.environments import RegressionTests
from invariance.decisions.predictive import PlainNeighbours, PredictiveModel, SoftGate, neighbours_of
from invariance.decisions.rules import Findings
from invariance.exceptions import ApproximationWarning
from invariance.inference.base import RunOptions, Target
from invariance.inference.enumeration import Enumeration
from invariance.models.invariance_test import Tolerance
from regression_cases import all_in_one, grouped_log_likelihood, plain_table, regression_data, separated

pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")


def shifted(counts: bool) -> tuple[np.ndarray, ...]:
    """The outcome of environment 2 is larger than its causes say."""
    rng = np.random.default_rng(3)
    environment = np.repeat(np.arange(4), 150)
    X = rng.normal(size=(600, 4)) + 0.5 * rng.normal(size=(4, 4))[environment]
    predictor = X[:, 0] - X[:, 1] + 1.5 * (environment == 2)
    y = rng.poisson(np.exp(0.5 * predictor)) if counts else rng.random(600) < 1.0 / (1.0 + np.exp(-predictor))
    return X, y.astype(float), environment


@pytest.mark.parametrize("counts", [False, True], ids=["logistic", "poisson"])
def test_parts_of_the_deviance(counts: bool) -> None:
    X, y, environment = shifted(counts)
    specification = Poisson() if counts else Logistic()
    model = specification.bind(regression_data(X, y, environment))
    mask = np.array([True, True, False, False])
    tests = RegressionTests(model, mask)
    whole = tests.deviation(None)
    assert whole.deviance == pytest.approx(-2.0 * model.log_ratio(mask), abs=1e-8)
    assert whole.expected_deviance == 9.0
    assert whole.deviance_sd == pytest.approx(np.sqrt(18.0))
    assert whole.p_gaussian == pytest.approx(chi2.sf(whole.deviance, 9))
    assert sum(part.deviance for part in whole.parts.values()) == pytest.approx(whole.deviance)
    assert set(whole.parts) == {"intercept", "slopes"}
    pooled = grouped_log_likelihood(counts, X[:, :2], y, environment, common_level=True)
    within = grouped_log_likelihood(counts, X[:, :2], y, environment, common_level=False)
    assert whole.parts["intercept"].deviance == pytest.approx(2.0 * (within - pooled), abs=1e-5)
    assert whole.parts["intercept"].p_value == pytest.approx(chi2.sf(2.0 * (within - pooled), 3), rel=1e-4)
    assert whole.parts["slopes"].p_value == pytest.approx(chi2.sf(whole.parts["slopes"].deviance, 6))
    fisher = -2.0 * np.log([whole.parts["intercept"].p_value, whole.parts["slopes"].p_value]).sum()
    assert whole.p_value == pytest.approx(chi2.sf(fisher, 4))
    assert breaking_environment(model, mask)[::2] == (2, "intercept")
    empty = RegressionTests(model, np.zeros(4, dtype=bool)).each()[2]
    assert (empty.environment, empty.rows, empty.deviation.parts["slopes"].p_value) == (2, 150, None)


def test_diagnosis_names_the_environment() -> None:
    X, y, environment = shifted(False)
    model = BIP(Logistic(), progress=False).fit(X, y, environments=environment)
    diagnosis = model.diagnose(["x0", "x1"])
    assert diagnosis.named == 2
    assert "environment 2 is unlike the others: the intercept differs most" in " ".join(str(diagnosis).split())
    assert [left.environment for left in diagnosis.left_out] == [0, 1, 2, 3]
    assert diagnosis.left_out[2].p_invariant > 0.5 > diagnosis.left_out[0].p_invariant
    assert diagnosis.to_dict()["subset"] == ["x0", "x1"]


def test_exact_predictive_posterior_is_brute_force() -> None:
    model = Logistic().bind(regression_data(*plain_table(False, n=150, p=6)))
    prior = InclusionPrior({"x2": 1.0}).bind(model.feature_names, model.largest_size)
    target = Target(model, prior)
    options = RunOptions(1, np.random.default_rng(0), progress=False)
    tolerance = Tolerance.strict(0.05)
    findings = Findings(target, Enumeration().run(target, options), Enumeration(), options, tolerance)
    masks = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(bool)
    joint = PredictiveModel(model, tolerance).log_ratio_many(masks) + prior.log_prob(masks)
    weights = np.exp(joint - joint.max())
    assert 0 < (weights > 0.0).sum() < 32
    predictive = findings.predictive
    np.testing.assert_allclose(predictive.inclusion, weights @ masks / weights.sum(), atol=1e-8)
    np.testing.assert_array_equal(predictive.mode_mask, masks[joint.argmax()])


def test_guessed_neighbours_are_near_the_plain_ones() -> None:
    model = Logistic().bind(regression_data(*plain_table(False, n=200)))
    target = Target(model, InclusionPrior(0.5).bind(model.feature_names, model.largest_size))
    gate = SoftGate.of(8.0, Tolerance(), model.n_rows, 0.0, 5.0)
    mask = np.array([True, False, False, False, False])
    guessed, plain = neighbours_of(target, gate).flipped(mask), PlainNeighbours(model, gate).flipped(mask)
    assert not isinstance(neighbours_of(target, gate), PlainNeighbours)
    np.testing.assert_allclose(guessed, plain, atol=1.0 + 0.2 * np.ptp(plain))
    assert guessed.argmax() == plain.argmax()


def test_separation_and_missing_events_are_heard() -> None:
    X, y, environment = separated(*plain_table(False))
    with pytest.warns(ApproximationWarning, match="separates the two values of 'y' in all rows"):
        model = BIP(Logistic(), select="mode", progress=False).fit(X, y, environments=environment)
    assert "separates the two values" in " ".join(model.posterior_.notes)
    assert "caution" in str(model.decision_)
    assert any("events in 180 rows" in note for note in model.posterior_.notes)
    data = regression_data(*all_in_one(*plain_table(False)))
    target = Target(Logistic().bind(data), InclusionPrior(0.5).bind(data.feature_names, 5))
    with pytest.warns(ApproximationWarning, match="every row is an event in environment 1"):
        Enumeration().run(target, RunOptions(1, np.random.default_rng(0), progress=False))


@pytest.mark.filterwarnings("ignore::invariance.exceptions.ApproximationWarning")
def test_many_features_are_searched_by_guesses() -> None:
    """More features than a sweep flips: the causes are found, and little is scored on the way."""
    rng = np.random.default_rng(7)
    environment = np.repeat(np.arange(3), 150)
    X = rng.normal(size=(450, 80)) + 0.6 * rng.normal(size=(3, 80))[environment]
    y = rng.random(450) < 1.0 / (1.0 + np.exp(-1.4 * X[:, 3] + 1.4 * X[:, 50]))
    X[:, 10] += np.array([2.0, -2.0, 0.0])[environment] * y
    model = Logistic().bind(regression_data(X, y.astype(float), environment))
    target = Target(model, InclusionPrior(0.02, max_size=5).bind(model.feature_names, model.largest_size))
    posterior = Tempering(chains=2, searches=2, steps=50).run(
        target, RunOptions(1, np.random.default_rng(0), progress=False)
    )
    best = np.zeros(80, dtype=bool)
    best[[3, 50]] = True
    assert target.log_joint(posterior.mode_mask[None])[0] >= target.log_joint(best[None])[0] - 1e-6
    assert posterior.inclusion.shape == (80,)
    assert not np.isnan(posterior.inclusion).any()
    assert posterior.inclusion[10] < 0.5
