"""Random-effects means of held-out measures: against a plain twin, and what must hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import norm
from scipy.stats import t as student

from invariance.prediction.new_environments import EnvironmentErrors
from invariance.prediction.pooled_performance import pooled_performance, predictive_interval
from meta_analysis_twins import meta_analysis, restricted_likelihood

QUANTILE = norm.ppf(0.975)
ESTIMATES = np.array([0.62, 0.71, 0.80, 0.66, 0.75, 0.78])
ERRORS = np.array([0.10, 0.15, 0.12, 0.2, 0.11, 0.09])


def site(label: str, measure: str, value: float, ends: tuple[float, float], **more):
    about = {"rows": 200, "events": 50} | more
    return EnvironmentErrors(
        label,
        (),
        None,
        figures={measure: value, "observed": 0.25, "predicted": 0.2},
        intervals={measure: ends},
        **about,
    )


def sites(measure: str, forward, back, estimates=ESTIMATES, **more):
    found = []
    for k, (value, error) in enumerate(zip(estimates, ERRORS, strict=True)):
        centre = forward(value)
        ends = back(centre - QUANTILE * error), back(centre + QUANTILE * error)
        found.append(site(f"s{k}", measure, value, ends, **more))
    return found


@pytest.mark.parametrize(
    ("measure", "forward", "back"),
    [
        ("auc", logit, expit),
        ("concordance", logit, expit),
        ("rmse", np.log, np.exp),
        ("slope", float, float),
        ("intercept", float, float),
    ],
)
def test_measures_are_pooled_on_their_scale(measure, forward, back):
    found = pooled_performance(sites(measure, forward, back), True)
    (one,) = [each for each in found.measures if each.measure == measure]
    twin = meta_analysis(forward(ESTIMATES) if forward is not float else ESTIMATES, ERRORS)
    n = len(ESTIMATES)
    margin = student.ppf(0.975, n - 1) * twin.hartung_knapp
    expected = [twin.mean, twin.mean - margin, twin.mean + margin]
    shown = [one.mean, one.lower, one.upper]
    np.testing.assert_allclose(shown, [back(value) for value in expected], rtol=1e-5)
    assert one.tau == pytest.approx(np.sqrt(twin.tau2), abs=1e-5)
    assert one.sites == n


def test_prediction_intervals_average_over_the_deviation_between_sites():
    low, high = predictive_interval(ESTIMATES, ERRORS)

    def predictive_mass(end: float) -> float:
        def weighted(tau: float, value: float) -> float:
            variances = ERRORS**2 + tau**2
            mean = np.average(ESTIMATES, weights=1.0 / variances)
            error = np.sqrt(tau**2 + 1.0 / np.sum(1.0 / variances))
            likelihood = np.exp(restricted_likelihood(tau**2, ESTIMATES, ERRORS))
            return likelihood * value if value == 1.0 else likelihood * norm.cdf(end, mean, error)

        return quad(weighted, 0.0, 3.0, (0.0,))[0] / quad(weighted, 0.0, 3.0, (1.0,))[0]

    assert predictive_mass(low) == pytest.approx(0.025, abs=0.002)
    assert predictive_mass(high) == pytest.approx(0.975, abs=0.002)


def test_observed_over_expected_of_events():
    found = pooled_performance(sites("auc", logit, expit), True)
    (one,) = [each for each in found.measures if each.measure == "observed/expected"]
    assert one.mean == pytest.approx(1.25)
    assert one.tau == pytest.approx(0.0, abs=1e-9)


def test_sites_with_few_events_and_certain_measures_are_not_pooled():
    few = site("rare", "auc", 0.99, (0.98, 0.995), events=9)
    certain = EnvironmentErrors(
        "perfect",
        (),
        None,
        figures={"auc": 1.0, "observed": 0.2, "predicted": 0.2},
        events=40,
        rows=200,
    )
    plain = sites("auc", logit, expit)
    found = pooled_performance([*plain, few, certain], True)
    assert found.excluded == ("rare",)
    assert found.measures[0] == pooled_performance(plain, True).measures[0]
    assert "rare" in str(found)


def test_three_sites_have_no_prediction_interval():
    found = pooled_performance(sites("auc", logit, expit)[:3], True)
    assert np.isnan(found.measures[0].prediction_lower)
    assert "4 environments" in str(found)
    assert not np.isnan(found.measures[0].lower)


def test_counts_have_no_observed_over_expected_besides_the_intercept():
    measures = [
        one.measure for one in pooled_performance(sites("slope", float, float), False).measures
    ]
    assert measures == ["slope"]


def test_lines_fit_a_terminal():
    text = str(pooled_performance(sites("auc", logit, expit), True))
    assert max(map(len, text.splitlines())) <= 80
