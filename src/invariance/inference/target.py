"""What an engine computes with: a conditional model and a prior over the same features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from ..conditionals.base import BoundConditional
from ..data.checks import quoted
from ..exceptions import NothingScoredError
from ..priors.bound import BoundPrior, PriorTerms


@dataclass(frozen=True, eq=False)
class Target:
    """p(z | D) ∝ p(z)·Λ(z) over subsets of p features, of which the prior leaves f free.

    A mask is over all p features; a draw is over the f free ones, the forced ones being in and the others out.
    """

    model: BoundConditional
    prior: BoundPrior

    @property
    def n_features(self) -> int:
        return len(self.prior.feature_names)

    @property
    def free(self) -> NDArray[np.intp]:
        """(f,) features that are open"""
        return self.prior.free

    @property
    def forced(self) -> NDArray[np.intp]:
        """(k,) features that every subset holds"""
        return self.prior.forced

    @property
    def terms(self) -> PriorTerms:
        """The prior over draws."""
        return self.prior.terms

    @cached_property
    def start(self) -> Mask:
        """(p,) the subset of the forced features alone"""
        return self.prior.forced_in.copy()

    def masks(self, draws: Mask) -> Mask:
        """(S, p) the subsets that draws (S, f) stand for"""
        if len(self.free) == self.n_features:
            return np.array(draws, dtype=bool)
        masks = np.zeros((len(draws), self.n_features), dtype=bool)
        masks[:, self.forced] = True
        masks[:, self.free] = draws
        return masks

    def expanded(self, values: Floats, forced: float, excluded: float) -> Floats:
        """(p,) of values (f,) of the free features, with what the others have"""
        full = np.full(self.n_features, excluded)
        full[self.forced] = forced
        full[self.free] = values
        return full

    def log_joint(self, masks: Mask, log_ratios: Floats | None = None) -> Floats:
        """(S,) log p(z)Λ(z) of masks (S, p), whose log Λ may be known; -inf outside the support"""
        if log_ratios is None:
            log_ratios = self.model.log_ratio_many(masks)
        return log_ratios + self.prior.log_prob(masks)

    def log_ratios(self, masks: Mask, values: Floats) -> Floats:
        """(S,) log Λ of masks (S, p), which engines know as `values`: these, unless the model rewards prediction"""
        plain = self.model.untilted
        return values if plain is self.model else plain.log_ratio_many(masks)

    def nothing_scored(self) -> NothingScoredError:
        """The error when not even the features that are forced in can be scored, with the reason."""
        forced = [name for name, flag in zip(self.prior.feature_names, self.start, strict=True) if flag]
        reasons = "; ".join(self.model.unsupported(self.start[None]).reasons)
        way_out = "Use other features or rows."
        if forced:
            way_out = f"All subsets hold {quoted(forced)}: force fewer features in."
        return NothingScoredError(
            f"no subset in the prior's support can be scored{': ' if reasons else ''}{reasons}. {way_out}"
        )
