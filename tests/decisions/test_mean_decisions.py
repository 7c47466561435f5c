"""Decisions and diagnoses where only the mean must be the same: nothing is said against unequal variances."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import chi2

from decision_cases import breaking_environment
from invariance import BIP, LinearGaussian, Moments, MultiEnvironmentData, Tolerance
from invariance.decisions.environments import Compared, MeanTests

TRUTH = np.array([True, True, False, False])


def simulated(shifted: float = 0.0, n: int = 150) -> MultiEnvironmentData:
    """The outcome follows x0 and x1, with a noise of its own in each of four environments; x2 follows it, differently;
    in the last environment it is shifted. x3 has nothing to do with it."""
    rng = np.random.default_rng(0)
    place = np.repeat(range(4), n)
    X = rng.normal(size=(4 * n, 4)) + rng.normal(size=(4, 4))[place]
    y = 1.5 * X[:, 0] - X[:, 1] + np.array([0.4, 1.0, 1.5, 3.0])[place] * rng.normal(size=4 * n)
    y += shifted * (place == 3)
    X[:, 2] = np.array([1.0, 0.3, -0.5, 0.8])[place] * y + rng.normal(size=4 * n)
    return MultiEnvironmentData.from_arrays(X, y, [f"site {e}" for e in place])


@cache
def fitted(shifted: float = 0.0) -> BIP:
    return BIP(LinearGaussian(invariance="mean"), progress=False).fit(simulated(shifted))


def test_it_finds_what_variances_hide() -> None:
    model = fitted()
    assert model.selected_features_ == ("x0", "x1")
    np.testing.assert_allclose(model.coef_[:2], model.decision_.coefficients().estimate[:2])
    text = " ".join(str(model.summary()).split())
    assert "2 features predict y alike in all 4 environments" in text
    assert "by invariance of the mean up to delta 0.02 at level 0.2" in text
    assert "linear Gaussian, same mean" in text
    assert "tau" not in text
    assert "variance" not in text.replace("invariance", "")
    assert "invariance='mean'" not in text


def test_a_feature_that_is_kept_though_r2_rises_without_it() -> None:
    """Rows of quiet environments weigh more in the likelihood, and as much as others in R²."""
    rng = np.random.default_rng(4)
    X, place = rng.normal(size=(160, 3)), np.repeat(range(4), 40)
    y = X[:, 0] + 0.3 * X[:, 1] + np.array([0.1, 1.0, 3.0, 0.1])[place] * rng.normal(size=160)
    model = BIP("linear_gaussian_mean", progress=False).fit(X, y, environments=place)
    text = " ".join(str(model.decision_).split())
    assert {feature.name: feature.r2_change > 0.0 for feature in model.decision_.features[:2]} == {
        "x0": False,
        "x1": True,
    }
    assert "x0 kept for prediction: R² -0.210 without it" in text
    assert "x1 kept for prediction: a lower likelihood without it, though R² +0.001" in text


def test_what_breaks_is_never_a_variance() -> None:
    linear = fitted().decision_.findings.target.model
    for mask in (TRUTH, np.array([True, True, True, False]), np.array([True, False, False, False])):
        broken = breaking_environment(linear, mask)
        assert broken is not None
        assert broken.part in ("intercept", "slopes")
    diagnosis = fitted().diagnose()
    assert not diagnosis.alarm
    text = " ".join(str(diagnosis).split())
    assert "variance" not in text.replace("invariance", "")
    assert "tau" not in text
    assert list(diagnosis.to_dict()["environments"][0]["against_the_rest"]["parts"]) == ["intercept", "slopes"]
    assert [bar.get_label() for bar in diagnosis.plot().containers] == ["intercept", "slopes"]


def test_a_shifted_environment_is_named() -> None:
    diagnosis = fitted(3.0).diagnose(["x0", "x1"])
    assert diagnosis.named == "site 3"
    assert diagnosis.worst is not None
    assert diagnosis.worst.environment == "site 3"
    assert diagnosis.worst.part == "intercept"


def test_parts_add_up_and_follow_their_law() -> None:
    data = simulated()
    model = LinearGaussian(invariance="mean").bind(data)
    tests = Compared.of(model).tests(TRUTH)
    assert isinstance(tests, MeanTests)
    whole = tests.deviation(None)
    assert whole is not None
    assert whole.deviance == pytest.approx(-2.0 * model.log_ratio(TRUTH), rel=1e-6)
    assert whole.deviance == pytest.approx(sum(part.deviance for part in whole.parts.values()), rel=1e-9)
    assert whole.expected_deviance == pytest.approx(-2.0 * model.null_many(TRUTH).expected[0])
    for e, test in enumerate(tests.each()):
        rest = LinearGaussian(invariance="mean").bind(data.choosing([f"site {k}" for k in range(4) if k != e]))
        added = -2.0 * (model.log_ratio(TRUTH) - rest.log_ratio(TRUTH))
        assert test.deviation is not None
        assert test.deviation.deviance == pytest.approx(added, rel=1e-5)
        unit = test.deviation.expected_deviance / 3.0
        assert test.deviation.p_value == pytest.approx(chi2.sf(added / unit, 3), rel=1e-4)
        assert test.deviation.worst_part in ("intercept", "slopes")


def test_own_intercepts_from_the_rows() -> None:
    """Slopes alone: as if each environment's outcome and features had been centred."""
    data = simulated(3.0)
    means = np.array([data.y[data.rows(e)].mean() for e in range(4)])
    places = np.array([data.X[data.rows(e)].mean(axis=0) for e in range(4)])
    index = data.environment_index
    centred = replace(data, X=data.X - places[index], y=data.y - means[index])
    whole = Compared.of(LinearGaussian(invariance="mean").bind(data)).tests(TRUTH).deviation(None)
    alone = -2.0 * LinearGaussian(invariance="mean").bind(centred).log_ratio(TRUTH)
    assert whole is not None
    assert whole.parts["slopes"].deviance == pytest.approx(alone, rel=1e-5)
    assert whole.parts["intercept"].p_value < 1e-6


def test_rows_and_moments_agree_and_rows_decide() -> None:
    data = simulated()
    X = data.X.copy()
    X[:, 3] = X[:, 1] + 1e-7 * np.random.default_rng(1).normal(size=len(X))
    for changed, mask in ((data, TRUTH), (replace(data, X=X), np.array([True, True, False, True]))):
        by_rows = Compared.of(LinearGaussian(invariance="mean").bind(changed)).tests(mask).deviation(2)
        of_moments = LinearGaussian(invariance="mean").bind(Moments.from_data(changed))
        by_moments = Compared.of(of_moments).tests(mask).deviation(2)
        assert by_rows is not None
        if changed is data:
            assert by_moments == by_rows
        else:
            assert by_moments is None


def test_empty_subset_and_two_environments() -> None:
    data = simulated().choosing(["site 0", "site 3"])
    diagnosis = BIP("linear_gaussian_mean", progress=False).fit(data).diagnose([])
    assert diagnosis.whole is not None
    assert diagnosis.whole.parts["slopes"].p_value is None
    assert diagnosis.worst is not None
    assert diagnosis.worst.environment is None


def test_tolerance_in_words() -> None:
    assert str(Tolerance()) == "invariance up to delta 0.02, tau 0.1 at level 0.2"
    assert Tolerance(0.0, 0.1, 0.05).told_without_tau("invariance of the mean") == (
        "exact invariance of the mean at level 0.05"
    )
    assert str(Tolerance.strict()) == "exact invariance at level 0.05"
