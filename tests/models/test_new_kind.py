"""A kind of outcome that the package does not have is one file: a score from 0 to 4, whose mean is
4 times a probability. Nothing else is edited."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import betaln, expit, gammaln

from invariance import BIP, MultiEnvironmentData
from invariance.exceptions import DataError, SettingError
from invariance.kinds import OutcomeKind
from invariance.kinds.base import CALIBRATION
from invariance.kinds.figures import Figure, around
from invariance.models.likelihood import ByLikelihood, Maximum

HIGHEST = 4
SITES = np.repeat(["a", "b", "c", "d"], 80)


class Score(OutcomeKind):
    name = "score"
    predicts = "expected score"
    ratio = "ratio of means"
    error_name = "mean absolute error"
    price_figure = "mean_absolute_error"
    price_name = "mean absolute error"
    choice_error = "mean absolute error"
    figures = (*CALIBRATION, "mean_absolute_error")
    measure = "mean_absolute_error"
    measure_does = "are off by"
    measure_is = "Mean absolute error, in points of the score."
    scale = "predictions"
    group_mean = "score"
    mean_name = "mean score"
    coding = "whole numbers from 0 to 4"

    def inverse_link(self, linear):
        return HIGHEST * expit(linear)

    def error(self, observed, predicted, exposure=None, event=None):
        return float(np.mean(np.abs(observed - predicted)))

    def measured(self, observed, predicted, exposure=None, event=None, hazard=None):
        errors = observed - predicted
        variance = predicted.var(ddof=1)
        slope = np.cov(observed, predicted)[0, 1] / variance if variance else np.nan
        return {
            "observed": Figure(observed.mean()),
            "predicted": Figure(predicted.mean()),
            "intercept": around(errors.mean(), errors.std(ddof=1) / np.sqrt(len(errors))),
            "slope": Figure(slope),
            "mean_absolute_error": Figure(self.error(observed, predicted)),
        }

    def fits(self, y):
        return np.isin(y, np.arange(HIGHEST + 1))


@dataclass(frozen=True)
class BinomialScore(ByLikelihood):
    name = "score"
    kind = Score()
    link = "log odds of a point"

    def mean(self, predictor):
        return self.kind.inverse_link(predictor)

    def maximise(self, X, y):
        design = np.column_stack([np.ones(len(y)), X])
        share = y.mean() / HIGHEST
        if not 0.0 < share < 1.0:
            return None
        start = np.append(np.log(share / (1.0 - share)), np.zeros(X.shape[1]))

        def cost(beta):
            eta = design @ beta
            value = HIGHEST * np.logaddexp(0.0, eta).sum() - y @ eta
            return value, design.T @ (HIGHEST * expit(eta) - y)

        found = minimize(cost, start, jac=True, method="BFGS", options={"gtol": 1e-6})
        combinations = -betaln(HIGHEST - y + 1.0, y + 1.0) - np.log(HIGHEST + 1.0)
        return Maximum(combinations.sum() - found.fun, found.x[1:], found.x[0], len(start))


def scores(seed: int = 0) -> MultiEnvironmentData:
    """Return scores of which x0 is a cause, in every environment the same, and x1 an effect that is
    moved."""
    rng = np.random.default_rng(seed)
    moved = rng.normal(size=(4, 2)).repeat(80, axis=0)
    cause = rng.normal(size=len(SITES)) + moved[:, 0]
    y = rng.binomial(HIGHEST, expit(0.9 * cause - 0.3)).astype(float)
    effect = moved[:, 1] * y + rng.normal(size=len(SITES)) + 2.0 * moved[:, 0]
    X = np.column_stack([cause, effect, rng.normal(size=len(SITES))])
    return MultiEnvironmentData.from_arrays(X, y, SITES)


@pytest.fixture(scope="module")
def model() -> BIP:
    data = scores()
    settings = {"progress": False, "predict_with": "selected"}
    return BIP(BinomialScore(), **settings).fit(data.X, data.y, SITES)


def test_the_binomial_likelihood_is_normalised() -> None:
    points = np.arange(HIGHEST + 1.0)
    log_chances = gammaln(HIGHEST + 1.0) - gammaln(points + 1.0) - gammaln(HIGHEST - points + 1.0)
    combinations = -betaln(HIGHEST - points + 1.0, points + 1.0) - np.log(HIGHEST + 1.0)
    np.testing.assert_allclose(combinations, log_chances, rtol=1e-12)


def test_a_kind_of_ones_own_is_fitted_and_predicts_in_its_range(model: BIP) -> None:
    assert model.selected_features_ == ("x0",)
    data = scores()
    expected = HIGHEST * expit(model.intercept_ + data.X @ model.coef_)
    np.testing.assert_allclose(model.predict(data.X), expected, rtol=1e-9)


def test_held_out_environments_have_its_measures(model: BIP) -> None:
    found = model.new_environments()
    assert "mean_absolute_error" in found.to_frame().columns
    data = scores()
    own = SITES == "a"
    other = BIP(BinomialScore(), progress=False, predict_with="selected")
    other.fit(data.X[~own], data.y[~own], SITES[~own])
    expected = np.abs(data.y[own] - other.predict(data.X[own])).mean()
    assert found.left_out[0].figures["mean_absolute_error"] == pytest.approx(expected, rel=1e-9)
    assert "score" in str(found)


def test_what_it_does_not_declare_is_refused_by_name(model: BIP) -> None:
    with pytest.raises(SettingError, match="no intervals"):
        model.predict_interval(scores().X)
    with pytest.raises(SettingError, match="log odds of a point"):
        model.decision_.effects()
    data = scores()
    with pytest.raises(DataError, match="whole numbers from 0 to 4"):
        BIP(BinomialScore(), progress=False).fit(data.X, data.y + 2.0, SITES)


def test_the_report_has_its_measure(model: BIP, tmp_path: Path) -> None:
    text = model.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "are off by" in text
    assert "Mean absolute error, in points of the score." in text
