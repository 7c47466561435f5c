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
    """masks (k, p): those that are listed, the best predictor first; n: how many there are, at least; all_scored:
    whether every subset was tested, so that n is exact; accepted: the tolerance with the level that they reach;
    exhaustive: whether none was overlooked where none is known; others (m, p): compatible ones that need not be
    listed."""

    masks: Mask
    n: int
    all_scored: bool
    accepted: Tolerance
    exhaustive: bool
    others: Mask

    @property
    def complete(self) -> bool:
        """Whether all of them are listed."""
        return self.all_scored and len(self.masks) == self.n

    def in_all(self) -> Mask:
        """(p,) features that every compatible subset at hand holds; none where no subset is listed"""
        return np.asarray(self.masks.all(axis=0) & self.others.all(axis=0) & (len(self.masks) > 0))


def compatible_subsets(findings: Findings) -> CompatibleSubsets:
    """As the predictive posterior lists them; exact engines too may stop before the worst predictors are tested."""
    posterior, predictive = findings.posterior, findings.predictive
    exhaustive = isinstance(findings.engine, Enumeration)
    if predictive is None:
        none = np.empty((0, findings.target.n_features), dtype=bool)
        return CompatibleSubsets(none, 0, exhaustive, findings.tolerance.weak, exhaustive, none)
    masks = predictive.masks[predictive.log_probabilities > -np.inf]
    n = int(predictive.diagnostics.get("subsets_compatible", len(masks)))
    all_scored = predictive.diagnostics.get("compatible_counted", False) or n == posterior.n_subsets
    judge = findings.judge if predictive.judge is None else predictive.judge
    probable = posterior.masks[:_FEWEST_SURVEYED]
    others = probable[judge.compatible(probable)]
    return CompatibleSubsets(masks, n, all_scored, judge.tolerance, exhaustive, others)


@dataclass(frozen=True, eq=False)
class Survey:
    """p_invariant (k,) and r2 (k,), NaN where it is not known, of k subsets, masks (k, p), out of n_subsets."""

    masks: Mask
    p_invariant: Floats
    r2: Floats
    n_subsets: int

    @property
    def complete(self) -> bool:
        """Whether all subsets are among them; a chosen one may be outside the prior's support."""
        return len(self.masks) >= self.n_subsets

    @property
    def closest(self) -> int | None:
        """The one that is nearest to invariant; None where all are too far for their p-values to tell."""
        best = int(np.argmax(self.p_invariant))
        return best if self.p_invariant[best] > 0.0 else None


def survey(findings: Findings, chosen: Mask) -> Survey:
    """Of the chosen subset (p,) and those that the posteriors list: all subsets while these are few."""
    model, posterior, predictive = findings.target.model, findings.posterior, findings.predictive
    most = max(_FEWEST_SURVEYED, min(_MOST_SURVEYED, _MOST_RESIDUALS // model.n_rows))
    listed = [chosen[None], posterior.masks[: most // 2]]
    if predictive is not None:
        listed.append(predictive.masks[: most // 2])
    masks = np.vstack(listed)
    masks = masks[np.sort(distinct(masks)[0])]
    gain = model.prediction_many(masks).gain
    r2 = -np.expm1(-2.0 * np.where(gain > -np.inf, gain, np.nan) / model.n_rows)
    return Survey(masks, model.invariance_test(masks, findings.tolerance).joint, r2, posterior.n_subsets)
