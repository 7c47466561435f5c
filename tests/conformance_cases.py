"""Models, priors and data on which every engine must agree with brute force."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import statsmodels.api as sm
from numpy.typing import NDArray

from invariance import (
    Additive,
    BayesianLinearGaussian,
    BetaBinomialPrior,
    InclusionPrior,
    LinearGaussian,
    Logistic,
    MultiEnvironmentData,
    Poisson,
    UniformPrior,
)
from invariance.data.features import Features
from invariance.inference.base import Target
from invariance.models.base import BoundModel, Family
from invariance.models.likelihood import ByLikelihood, Maximum
from invariance.priors import Prior
from regression_cases import AtEffects


@dataclass(frozen=True)
class UnitNoise(ByLikelihood):
    """Least squares with noise of known size: a conditional in a dozen lines."""

    scale: float = 1.0
    name = "unit noise"
    kind = "number"
    link = "identity"

    def maximise(self, X: NDArray, y: NDArray) -> Maximum | None:
        design = np.column_stack([np.ones(len(y)), X])
        if len(y) <= design.shape[1]:
            return None
        beta = np.linalg.lstsq(design, y, rcond=None)[0]
        log_likelihood = -0.5 * float(np.sum((y - design @ beta) ** 2)) / self.scale**2
        return Maximum(log_likelihood, beta[1:], float(beta[0]), design.shape[1])


@dataclass(frozen=True)
class StatsmodelsLogistic(ByLikelihood):
    """Logistic regression as statsmodels fits it."""

    name = "logistic"
    kind = "class"
    link = "logit"

    def maximise(self, X: NDArray, y: NDArray) -> Maximum | None:
        design = np.column_stack([np.ones(len(y)), X])
        fit = sm.Logit(y, design).fit(disp=False, method="newton", tol=1e-10)
        return Maximum(float(fit.llf), fit.params[1:], float(fit.params[0]), design.shape[1])


class Plain(BoundModel):
    """A bound model without any of its abilities."""

    def __init__(self, model: BoundModel) -> None:
        super().__init__(model.observed)
        self.hidden = model
        self.log_ratio_many = model.log_ratio_many
        self.gain_many = model.gain_many
        self.null_many = model.null_many
        self.fit = model.fit

    name = property(lambda self: self.hidden.name)

    log_ratio_many = gain_many = null_many = fit = None


@dataclass(frozen=True)
class PlainGaussian:
    """The linear Gaussian model, as a stranger to the engines."""

    def bind(self, data: MultiEnvironmentData, n_jobs: int | None = None) -> Plain:
        return Plain(LinearGaussian().bind(data, n_jobs))


def table(grouped: bool, binary: bool, whole: bool = False) -> MultiEnvironmentData:
    """Three environments; the outcome follows x0, x2 and x3 alike in all of them, and the
    last feature follows the outcome, differently in each."""
    rng = np.random.default_rng(5)
    counts = (60, 70, 80)
    columns = 7
    environment = np.repeat(range(3), counts)
    X = rng.normal(size=(sum(counts), columns)) + 0.7 * rng.normal(size=(3, columns))[environment]
    y = 1.2 * X[:, 0] - X[:, 2] + 0.3 * X[:, 3] + rng.normal(size=len(X))
    X[:, -1] = np.array([1.0, -0.4, 0.3])[environment] * y + rng.normal(size=len(X))
    y = (y > np.quantile(y, 0.45)).astype(float) if binary else y
    y = np.floor(np.exp(0.4 * y)) if whole else y
    data = MultiEnvironmentData.from_arrays(X, y, environment)
    if not grouped:
        return data
    features = Features.of(data.feature_names, {"g": ("x0", "x1", "x2"), "h": ("x4", "x5")})
    return replace(
        data, feature_names=features.names, original_features=features.names, grouping=features
    )


MODELS: dict[str, Family] = {
    "linear gaussian": LinearGaussian(),
    "prediction rewarded": LinearGaussian(prediction=0.1),
    "same mean": LinearGaussian(invariance="mean"),
    "same mean, prediction rewarded": LinearGaussian(invariance="mean", prediction=0.1),
    "without abilities": PlainGaussian(),
    "unit noise": UnitNoise(),
    "logistic": StatsmodelsLogistic(),
    "compiled logistic": Logistic(),
    "poisson": Poisson(),
    "random deviations": LinearGaussian(deviations="random"),
    "bayesian gaussian": BayesianLinearGaussian(),
    "additive": Additive(knots=4),
    "compiled logistic, effects": AtEffects(Logistic()),
    "unit noise, effects": AtEffects(UnitNoise()),
}
PRIORS: dict[str, Prior] = {
    "uniform": UniformPrior(),
    "beta-binomial": BetaBinomialPrior(1.0, 2.0, max_size=3),
    "inclusion": InclusionPrior({"x3": 1.0, "x6": 0.2}, max_size=4),
}


def target_of(family: str, prior: str, grouped: bool) -> Target:
    data = table(grouped, binary="logistic" in family, whole=family == "poisson")
    model = MODELS[family].bind(data)
    return Target(model, PRIORS[prior].bind(model.feature_names, model.largest_size))
