"""In what environments differ, where the outcome's law has more than an intercept and slopes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import chi2

from decision_cases import breaking_environment
from invariance import BIP, BIPSurvival, MultiEnvironmentData, NegativeBinomial, PiecewiseExponential
from invariance.decisions.environments import RegressionTests
from invariance.decisions.residual_check import residual_check
from invariance.exceptions import DataWarning, SettingError

pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")

ENVIRONMENT = np.repeat(["a", "b", "c"], 200)
IN_C = ENVIRONMENT == "c"
X = np.random.default_rng(9).normal(size=(600, 2))


def counts(shape: np.ndarray, slope: np.ndarray) -> MultiEnvironmentData:
    """With so many degrees of scatter: the smaller the shape, the larger."""
    mean = 2.0 * np.exp(slope * X[:, 0])
    y = np.random.default_rng(1).negative_binomial(shape, shape / (shape + mean))
    return MultiEnvironmentData.from_arrays(X, y, ENVIRONMENT)


def times(power: np.ndarray, slope: np.ndarray) -> MultiEnvironmentData:
    """Weibull times with so steep hazards; all end with the event."""
    passed = -np.log(np.random.default_rng(3).random(600)) / np.exp(slope * X[:, 0])
    return MultiEnvironmentData.from_arrays(X, passed ** (1.0 / power), ENVIRONMENT, event=np.ones(600))


SCATTER, STEEP = np.where(IN_C, 0.4, 5.0), np.where(IN_C, 3.0, 1.0)
SAME, OTHER = np.full(600, 0.5), np.where(IN_C, -0.5, 0.5)


@pytest.mark.parametrize(
    ("data", "specification", "mask", "part"),
    [
        (counts(SCATTER, 0.0 * SAME), NegativeBinomial(), (False, False), "dispersion"),
        (counts(SCATTER, SAME), NegativeBinomial(), (True, True), "dispersion"),
        (counts(5.0 + 0.0 * SCATTER, OTHER), NegativeBinomial(), (True, False), "slopes"),
        (times(STEEP, 0.0 * SAME), PiecewiseExponential(), (False, False), "baseline"),
        (times(STEEP, SAME), PiecewiseExponential(), (True, False), "baseline"),
        (times(1.0 + 0.0 * STEEP, OTHER), PiecewiseExponential(), (True, False), "slopes"),
    ],
)
def test_the_part_that_differs_is_named(
    data: MultiEnvironmentData, specification: NegativeBinomial, mask: tuple[bool, ...], part: str
) -> None:
    model = specification.bind(data)
    broken = breaking_environment(model, np.array(mask))
    assert broken is not None
    assert (broken.environment, broken.part) == ("c", part)
    whole = RegressionTests(model, np.array(mask)).deviation(None)
    assert sum(share.deviance for share in whole.parts.values()) == pytest.approx(whole.deviance)
    if not any(mask):
        assert whole.parts["slopes"].p_value is None


def maximum(mean_columns: list[np.ndarray], alphas: np.ndarray, y: np.ndarray) -> float:
    """The largest log-likelihood of counts with these columns of the log mean; a dispersion for each label."""
    Z, n = np.column_stack(mean_columns), int(alphas.max()) + 1

    def minus(theta: np.ndarray) -> float:
        mu, k = np.exp(Z @ theta[n:]), np.exp(-theta[:n])[alphas]
        terms = gammaln(y + k) - gammaln(k) - gammaln(y + 1.0) + k * np.log(k / (k + mu)) + y * np.log(mu / (k + mu))
        return -float(terms.sum())

    return -float(minimize(minus, np.zeros(n + Z.shape[1]), method="BFGS", options={"gtol": 1e-6}).fun)


def test_parts_of_counts_are_nested_fits() -> None:
    data = counts(SCATTER, OTHER)
    model = NegativeBinomial(pseudo_rows=0.0).bind(data)
    parts = RegressionTests(model, np.array([True, False])).deviation(2).parts
    one, c, x, y = np.ones(600), IN_C.astype(float), X[:, 0], data.y
    common, own = np.zeros(600, int), IN_C.astype(int)
    fits = [
        maximum([one, x], common, y),
        maximum([one, x, c], common, y),
        maximum([one, x, c, c * x], common, y),
        maximum([one, x, c, c * x], own, y),
    ]
    for name, gained in zip(("intercept", "slopes", "dispersion"), 2.0 * np.diff(fits), strict=True):
        assert parts[name].deviance == pytest.approx(gained, abs=1e-3)
        assert parts[name].p_value == pytest.approx(chi2.sf(gained, 1), rel=2e-3, abs=1e-12)


def test_diagnosis_tells_the_dispersion() -> None:
    model = BIP(progress=False).fit(counts(SCATTER, 0.0 * SAME))
    diagnosis = model.diagnose([])
    text = " ".join(str(diagnosis).split())
    assert "environment 'c' is unlike the others: the dispersion differs most" in text
    assert "dispersions" in text
    assert "slopes 0.0 (p –)" in text
    assert diagnosis.parts == ("intercept", "slopes", "dispersion")
    assert [bar.get_label() for bar in diagnosis.plot().containers] == ["intercept", "slopes", "dispersion"]
    assert list(diagnosis.to_dict()["environments"][0]["against_the_rest"]["parts"]) == list(diagnosis.parts)


def test_diagnosis_tells_the_shape_of_hazards() -> None:
    diagnosis = BIPSurvival(progress=False).fit(times(STEEP, SAME)).diagnose(["x0"], leave_out=False)
    assert "the shape of the baseline hazard differs most" in " ".join(str(diagnosis).split())


def test_diagnosis_warns_of_no_groups_that_nobody_made() -> None:
    data = times(1.0 + 0.0 * STEEP, SAME)
    event = np.where(IN_C, 0.0, 1.0)
    with pytest.warns(DataWarning, match="no event occurs in environment 'c'"):
        model = BIPSurvival(progress=False).fit(X, data.y, environments=ENVIRONMENT, event=event)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.diagnose(leave_out=False)
    assert not [str(each.message) for each in heard if "True" in str(each.message) or "False" in str(each.message)]


@pytest.mark.parametrize("role", ["event", "exposure"])
def test_residuals_are_not_checked_without_what_comes_with_the_outcome(role: str) -> None:
    y = np.random.default_rng(0).poisson(2.0, 600) + 1
    model = BIP(progress=False).fit(X, y, environments=ENVIRONMENT, **{role: np.ones(600)})
    with pytest.raises(SettingError, match=role):
        model.residual_check()
    with pytest.raises(SettingError, match="'y'"):
        residual_check(MultiEnvironmentData.from_arrays(X, y, ENVIRONMENT, **{role: np.ones(600)}), ["x0"])
    assert model.diagnose(leave_out=False).parts[0] == "intercept"
