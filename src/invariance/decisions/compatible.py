"""The subsets that are compatible with invariance, and what is known of those that were scored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._tools.arrays import Floats, Mask
from ..conditionals.tolerance import Tolerance
from ..data.subsets import distinct
from ..inference.enumeration import Enumeration
from .base import Findings

# Residuals that a survey may compute, to see how heavy their tails are.
_MOST_RESIDUALS = 1_000_000_000
_MOST_SURVEYED, _FEWEST_SURVEYED = 8192, 200


@dataclass(frozen=True, eq=False)
class CompatibleSubsets:
    """masks (k, p): those that are known, the best predictor first; n: how many there are, at least; all_scored:
    whether every subset was tested, so that n is exact; accepted: the tolerance with the level that they reach."""

    masks: Mask
    n: int
    all_scored: bool
    accepted: Tolerance

    @property
    def complete(self) -> bool:
        """Whether all of them are listed."""
        return self.all_scored and len(self.masks) == self.n

    def in_all(self) -> Mask:
        """(p,) features that every listed subset holds; none where no subset is listed"""
        return np.asarray(self.masks.all(axis=0) & (len(self.masks) > 0))


def compatible_subsets(findings: Findings) -> CompatibleSubsets:
    """As the predictive posterior lists them."""
    predictive, exact = findings.predictive, isinstance(findings.engine, Enumeration)
    if predictive is None:
        none = np.empty((0, findings.target.n_features), dtype=bool)
        return CompatibleSubsets(none, 0, exact, findings.tolerance.weak)
    masks = predictive.masks[predictive.log_probabilities > -np.inf]
    counted = predictive.diagnostics.get("subsets_compatible")
    accepted = findings.tolerance if predictive.judge is None else predictive.judge.tolerance
    return CompatibleSubsets(masks, len(masks) if counted is None else int(counted), counted is not None, accepted)


@dataclass(frozen=True, eq=False)
class Survey:
    """p_invariant (k,) and r2 (k,) of k subsets, masks (k, p), out of n_subsets."""

    masks: Mask
    p_invariant: Floats
    r2: Floats
    n_subsets: int

    @property
    def complete(self) -> bool:
        """Whether all subsets are among them; a chosen one may be outside the prior's support."""
        return len(self.masks) >= self.n_subsets

    @property
    def closest(self) -> int:
        """The one that is nearest to invariant."""
        return int(np.argmax(self.p_invariant))


def survey(findings: Findings, chosen: Mask) -> Survey:
    """Of the chosen subset (p,) and those that the posteriors list: all subsets while these are few."""
    model, posterior, predictive = findings.target.model, findings.posterior, findings.predictive
    most = max(_FEWEST_SURVEYED, min(_MOST_SURVEYED, _MOST_RESIDUALS // model.n_rows))
    listed = [chosen[None], posterior.masks[: most // 2]]
    if predictive is not None:
        listed.append(predictive.masks[: most // 2])
    masks = np.vstack(listed)
    masks = masks[np.sort(distinct(masks)[0])]
    r2 = -np.expm1(-2.0 * model.prediction_many(masks).gain / model.n_rows)
    return Survey(masks, model.invariance_test(masks, findings.tolerance).joint, r2, posterior.n_subsets)
