"""The predictive posterior: model averaging over the subsets that the data do not reject as invariant.

p₂(z | D) ∝ p(z) · exp(−½ cost(z)) · [p_inv(z) ≥ level], cost(z) = −2 · gain of the pooled fit over the empty one
+ columns of z · max(log N + 2 log p, floor · N).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Floats, Integers, Mask
from ..conditionals.base import BoundConditional, Fit, Null, Prediction
from ..conditionals.description import Description
from ..conditionals.tolerance import Tolerance
from ..data.features import Features
from ..data.subsets import Subset, as_masks
from ..exceptions import NothingScoredError
from ..inference.base import Engine, RunOptions
from ..inference.enumeration import Enumeration
from ..inference.subset_blocks import subset_blocks
from ..inference.target import Target
from ..posterior.judge import Judge
from ..posterior.posterior import Posterior, SubsetSource, SubsetTable
from ..priors.bound import BoundPrior
from .compatible_walk import CompatibleWalk, compatible_walk

# What a feature has to explain of the outcome's residual variance to be worth a risk, however many rows there are;
# chosen on the light tunnel.
FLOOR = 0.008


class PredictiveModel(BoundConditional):
    """A model whose log Λ is replaced by how well a subset predicts, −inf where it is not compatible with invariance.

    Engines that can compute with the model can compute with this. prior: of the target, where it is known: then a walk
    need not decide about subsets that weigh nothing, and says so (all_decided).
    """

    subsets_scored = "compatible subsets"

    def __init__(
        self,
        model: BoundConditional,
        tolerance: Tolerance,
        floor: float = FLOOR,
        prior: BoundPrior | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.model, self.tolerance, self.floor = model, tolerance, floor
        self.prior, self.n_jobs, self.all_decided = prior, n_jobs, True
        n, p = model.n_rows, model.n_features
        self.price = max(np.log(n) + 2.0 * np.log(p), floor * n)

    def log_weights(self, masks: ArrayLike) -> Floats:
        """(S,) −½ cost, whether compatible or not"""
        chosen = as_masks(masks, self.n_features)
        return self._weigh(self.model.prediction_many(chosen).gain, chosen @ self.model.free_columns)

    def _weigh(self, gain: Floats, columns: Integers) -> Floats:
        return gain - 0.5 * self.price * columns

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        chosen = as_masks(masks, self.n_features)
        weights = self.log_weights(chosen)
        joint = self.model.invariance_test(chosen, self.tolerance).joint
        return np.where(joint >= self.tolerance.level, weights, -np.inf)

    @property
    def features(self) -> Features:
        return self.model.features

    def describe(self) -> Description:
        return self.model.describe()

    def prediction_many(self, masks: ArrayLike) -> Prediction:
        return self.model.prediction_many(masks)

    def null_many(self, masks: ArrayLike) -> Null:
        n = len(as_masks(masks, self.n_features))
        return Null(np.full(n, -np.inf), np.zeros(n), np.zeros(n))

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        return self.model.fit(subset, local)

    @property
    def largest_size(self) -> int:
        return self.model.largest_size

    @property
    def steps_per_subset(self) -> int:
        return self.model.steps_per_subset

    @property
    def dense_advantage(self) -> int:
        return self.model.dense_advantage

    def walk_order(self, free: Integers) -> Integers:
        return self.model.walk_order(free)

    def subset_walk(self, free: Integers, forced: Integers) -> CompatibleWalk | None:
        screen = self.model.screening_walk(free, forced, self.tolerance, self._weigh)
        if screen is None or self.prior is None:
            return None
        terms = self.prior.terms
        terms = replace(terms, log_odds=terms.log_odds[np.searchsorted(self.prior.free, free)])
        blocks = subset_blocks(screen, terms, self.dense_advantage)
        walk = compatible_walk(self, screen, blocks, free, forced, self.n_jobs)
        self.all_decided = walk.all_decided
        return walk


@dataclass(frozen=True, eq=False)
class PredictiveSource:
    """The source of a predictive posterior, with log Λ of the model in its tables."""

    source: SubsetSource
    model: BoundConditional

    def log_probability(self, masks: Mask) -> Floats:
        return self.source.log_probability(masks)

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        return self.source.sample(n, rng)

    def leading(self, mass: float) -> SubsetTable | None:
        table = self.source.leading(mass)
        return None if table is None else (table[0], self.model.log_ratio_many(table[0]), table[2])


def predictive_posterior(
    target: Target, tolerance: Tolerance, engine: Engine, options: RunOptions, known: Mask | None = None
) -> Posterior | None:
    """Over the subsets that reach the tolerance's level or, where none does, its weak level; None where none does.

    Exact where the engine is. Other engines estimate how often a chain is where, which the gate would stop at once:
    there a search takes their place. known (k, p): subsets that are worth a look.
    """
    for accepted in dict.fromkeys((tolerance, tolerance.weak)):
        model = PredictiveModel(target.model.untilted, accepted, prior=target.prior, n_jobs=options.n_jobs)
        found = _over_compatible(target, model, engine, options, known)
        if found is not None:
            return found
    return None


def _over_compatible(
    target: Target, model: PredictiveModel, engine: Engine, options: RunOptions, known: Mask | None
) -> Posterior | None:
    if not isinstance(engine, Enumeration):
        from .predictive_search import searched_posterior

        return searched_posterior(target, model, options, known)
    try:
        return _described(engine.run(Target(model, target.prior), options), model)
    except NothingScoredError:
        return None


def _described(posterior: Posterior, model: PredictiveModel) -> Posterior:
    """With log Λ of the model in its table, and with what only this kind of posterior can tell."""
    diagnostics: dict[str, Any] = dict(posterior.diagnostics)
    undecidable = diagnostics.pop("subsets_undecidable", None)
    if undecidable is not None:
        diagnostics["subsets_compatible"] = posterior.n_subsets - undecidable
        diagnostics["compatible_counted"] = model.all_decided
    source = None if posterior.source is None else PredictiveSource(posterior.source, model.model)
    return replace(
        posterior,
        log_ratios=model.model.log_ratio_many(posterior.masks),
        judge=Judge(model.model, model.tolerance),
        diagnostics=diagnostics,
        notes=(),
        model_reason=model.model.reason,
        kind="predictive",
        source=source,
    )
