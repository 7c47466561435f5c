"""The methods of the gene study: one fit for all settings of a method where one can serve them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np

from .. import exceptions
from .._tools.arrays import Floats, Mask
from .._tools.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, YELLOW
from ..baselines.eills import EILLS
from ..baselines.hidden_icp import HiddenICP
from ..baselines.icp import ICP
from ..baselines.regression import MarginalSelection
from ..baselines.screened import Screened
from ..data.multi_environment import MultiEnvironmentData
from ..estimators.bip import BIP
from ..estimators.selector import EnvironmentSelector
from ..exceptions import EngineError
from ..inference.base import Engine
from ..inference.variational.engine import Variational
from ..models.base import Family
from ..models.gaussian import LinearGaussian
from ..priors.base import Prior
from ..priors.priors import BetaBinomialPrior, UniformPrior
from ..screening import LassoFit, cross_validated_lasso, screening_of

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
LEVELS = (0.001, 0.005, 0.01, 0.05, 0.1)
PENALTIES = (1.0, 25.0, 50.0, 75.0, 100.0)
# How much higher the odds of a gene are after the data than before.
RATIOS = (3.0, 10.0, 30.0, 100.0)
REWARD = 0.1
# The published limit is 200 genes where the smaller environment has 262 samples: fewer samples, fewer genes.
PUBLISHED_LIMIT, PUBLISHED_SAMPLES = 200, 262
_SCREENED, _FOLDS = 10, 5
_FEW = 20
GREY, BROWN = "#808080", "#8c564b"

FAILED = "failed"
EMPTY_MODE = "the most probable subset is the empty one"
INCOMPATIBLE = "no subset is compatible with invariance"
REJECTED = "no subset is accepted"

T = TypeVar("T")


class Timed(NamedTuple, Generic[T]):
    """warned : the kinds of this package's warnings that the work gave, each once"""

    value: T
    seconds: float
    warned: tuple[str, ...] = ()

    @classmethod
    def of(cls, work: Callable[[], T]) -> Timed[T]:
        started = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = work()
        kinds = {one.category.__name__ for one in caught if one.category.__module__ == exceptions.__name__}
        return cls(value, time.perf_counter() - started, tuple(sorted(kinds)))


@dataclass(frozen=True, eq=False)
class Training:
    """What the methods are given: the data, a seed, the iterations of BIP-VI, and fits that several of them share."""

    data: MultiEnvironmentData
    seed: int
    iterations: int

    @cached_property
    def lasso(self) -> Timed[LassoFit]:
        return Timed.of(lambda: cross_validated_lasso(self.data, _FOLDS, random_state=self.seed))

    @cached_property
    def sparse(self) -> Timed[BIP]:
        """The paper's posterior with a prior that favours few genes."""
        return Timed.of(lambda: self.bip("tempering", self.favouring_few))

    @property
    def favouring_few(self) -> Prior:
        return BetaBinomialPrior(max_size=min(_FEW, published_max_size(self.data)))

    def bip(self, engine: str | Engine, prior: Prior, family: str | Family = "linear_gaussian") -> BIP:
        model = BIP(family, prior, engine, "mode", random_state=self.seed, progress=False)
        return model.fit_data(self.data)

    def behind_screen(self, method: EnvironmentSelector) -> Screened:
        return Screened(method).fit_screened(self.data, screening_of(self.data, self.lasso.value, _SCREENED))


@dataclass(frozen=True, eq=False)
class Predicted:
    """What a method says about p genes.

    selected : (settings, p); score : (p,) what the genes are ranked by, None where there is no ranking
    note : what was out of the ordinary
    """

    selected: Mask
    score: Floats | None = None
    note: str = ""


@dataclass(frozen=True)
class GeneMethod:
    """settings : the hyper-parameters, in words; shares : the fit that it has in common with other methods
    paper : its seconds in the paper's table, with those of the screen
    """

    name: str
    settings: tuple[str, ...]
    predict: Callable[[Training], Predicted]
    color: str
    shares: Literal["lasso", "sparse"] | None = None
    paper: float = float("nan")

    def answer(self, training: Training) -> Timed[Predicted]:
        """The prediction, of nothing where the method fails, and its seconds and warnings, with those of the fit that
        it shares.
        """
        shared: Timed[object] = Timed(None, 0.0)
        started = time.perf_counter()
        try:
            if self.shares is not None:
                shared = getattr(training, self.shares)
                started = time.perf_counter()
            found = Timed.of(lambda: self.predict(training))
        except (ValueError, EngineError, np.linalg.LinAlgError) as error:
            nothing = np.zeros((len(self.settings), training.data.n_features), dtype=bool)
            found = Timed(Predicted(nothing, note=f"{FAILED}: {error}"), time.perf_counter() - started)
        warned = tuple(sorted({*shared.warned, *found.warned}))
        return Timed(found.value, shared.seconds + found.seconds, warned)


def published_max_size(data: MultiEnvironmentData) -> int:
    """BIP-VI's limit, in the published proportion to the samples of the smaller environment."""
    return min(PUBLISHED_LIMIT, max(1, int(data.counts.min()) * PUBLISHED_LIMIT // PUBLISHED_SAMPLES))


def _above(score: Floats, thresholds: tuple[float, ...]) -> Predicted:
    return Predicted(score[None] >= np.array(thresholds)[:, None], score)


def _variational(training: Training) -> Predicted:
    prior = UniformPrior(max_size=published_max_size(training.data))
    model = training.bip(Variational.genes(iterations=training.iterations), prior)
    return _above(model.inclusion_probabilities_, THRESHOLDS)


def _exact_on_screened(training: Training) -> Predicted:
    model = training.behind_screen(BIP(engine="exact", select="mode", progress=False))
    return _above(np.nan_to_num(model.inclusion_probabilities_), THRESHOLDS)


def _rewarded(training: Training) -> Predicted:
    model = training.bip("tempering", training.favouring_few, LinearGaussian(prediction=REWARD))
    return _above(model.inclusion_probabilities_, THRESHOLDS)


def _predictive(training: Training) -> Predicted:
    """The best predictor among the compatible subsets; where there is none, nothing is claimed."""
    predictive = training.sparse.value.predictive_
    if predictive is None:
        return Predicted(np.zeros((1, training.data.n_features), dtype=bool), note=INCOMPATIBLE)
    return Predicted(predictive.mode_mask[None], predictive.inclusion)


def _against_prior(training: Training) -> Predicted:
    """Odds of a gene in the paper's posterior over those in its prior."""
    model = training.sparse.value
    prior = training.favouring_few.bind(training.data.feature_names).inclusion_probabilities()
    found = _above(_odds(model.inclusion_probabilities_) / _odds(prior), RATIOS)
    return replace(found, note="" if model.posterior_.mode_mask.any() else EMPTY_MODE)


def _odds(probability: Floats) -> Floats:
    bounded = np.minimum(probability, 1.0 - 1e-12)
    return bounded / (1.0 - bounded)


def _icp(training: Training) -> Predicted:
    """A gene is selected at a level where some subset is accepted and none of those lacks the gene."""
    model = training.behind_screen(ICP(alpha=min(LEVELS), progress=False))
    largest = float(np.nanmax(model.estimator_.subset_p_values_))
    selected = np.array([(model.p_values_ <= alpha) & (largest > alpha) for alpha in LEVELS])
    return Predicted(selected, note="" if largest > min(LEVELS) else REJECTED)


def _hidden_icp(training: Training) -> Predicted:
    p_values = training.behind_screen(HiddenICP()).p_values_
    return Predicted(np.array([p_values <= alpha for alpha in LEVELS]))


def _eills(training: Training) -> Predicted:
    return Predicted(
        np.array([training.behind_screen(EILLS(gamma=gamma, progress=False)).support_ for gamma in PENALTIES])
    )


def _lasso(training: Training) -> Predicted:
    size = np.abs(training.lasso.value.coefficients)
    return Predicted(size[None] > 0.0, size)


def _marginal(training: Training) -> Predicted:
    model = MarginalSelection().fit_data(training.data)
    return Predicted(model.support_[None], np.abs(model.correlations_))


def _named(symbol: str, values: tuple[float, ...]) -> tuple[str, ...]:
    return tuple(f"{symbol}={value:g}" for value in values)


GENE_METHODS = {
    method.name: method
    for method in (
        GeneMethod("BIP-VI", _named("t", THRESHOLDS), _variational, SKY, paper=348.7),
        GeneMethod("BIP-screen", _named("t", THRESHOLDS), _exact_on_screened, BLUE, "lasso", 9.2),
        GeneMethod("ICP-screen", _named("α", LEVELS), _icp, VERMILION, "lasso", 11.0),
        GeneMethod("Hidden-ICP-screen", _named("α", LEVELS), _hidden_icp, PURPLE, "lasso", 8.7),
        GeneMethod("EILLS-screen", _named("γ", PENALTIES), _eills, GREEN, "lasso", 9.0),
        GeneMethod("Marginal", ("p<0.05",), _marginal, YELLOW, paper=0.13),
        GeneMethod("Lasso", ("5 folds",), _lasso, ORANGE, "lasso"),
        GeneMethod("BIP-predictive", ("best compatible",), _predictive, BLACK, "sparse"),
        GeneMethod("BIP λ=0.1", _named("t", THRESHOLDS), _rewarded, GREY),
        GeneMethod("BIP-ratio", _named("ratio", RATIOS), _against_prior, BROWN, "sparse"),
    )
}
