"""Rules: from the findings of a fit to the features to use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from .._tools.arrays import Floats, Mask
from .._tools.time_limit import out_of_time
from ..exceptions import SettingError, use
from ..inference.base import Target

if TYPE_CHECKING:
    from .pipeline import Findings

# Subsets that are all listed; of more, a descent finds the least risky.
_MOST_LISTED = 4096


class Rule(Protocol):
    """Specify how features are selected, by parameters only.

    A rule that selects by the predictive posterior has `by_prediction = True`.
    """

    def select(self, findings: Findings) -> Mask:
        """Return the features to use, (p,)."""
        ...


@dataclass(frozen=True)
class BestCompatible:
    """Select the best predictor among the subsets compatible with invariance.

    It is the mode of the predictive posterior. If no subset is compatible, it is the subset with
    the least expected error in a new environment under a random-effects model, among subsets in
    which each feature improves the fit sufficiently: a way to predict, which does not claim
    invariance.

    Examples
    --------
    >>> from invariance import BIP
    >>> from invariance.datasets import make_example
    >>> from invariance.decisions import BestCompatible
    >>> BIP(select=BestCompatible()).fit(make_example()).selected_features_
    ('age', 'exercise', 'smoking')
    """

    by_prediction: ClassVar[bool] = True

    def select(self, findings: Findings) -> Mask:
        predictive = findings.predictive
        return least_risky(findings) if predictive is None else predictive.mode_mask


@dataclass(frozen=True)
class Mode:
    """Select the most probable invariant subset, like the paper's synthetic study.

    References
    ----------
    Wu, L., Yin, M., Wang, Y., Cunningham, J. P. and Blei, D. M. (2025), Bayesian invariance
    modeling of multi-environment data, arXiv:2506.22675.
    """

    def select(self, findings: Findings) -> Mask:
        return findings.posterior.mode_mask


@dataclass(frozen=True)
class Threshold:
    """Select every feature with a sufficient posterior inclusion probability.

    Parameters
    ----------
    threshold : float, default=0.5
        Smallest inclusion probability of a selected feature, from 0 to 1.

    Raises
    ------
    SettingError
        If the threshold is not between 0 and 1.

    Examples
    --------
    >>> from invariance import BIP
    >>> from invariance.datasets import make_example
    >>> from invariance.decisions import Threshold
    >>> BIP(select=Threshold(0.9)).fit(make_example()).selected_features_
    ('age', 'exercise', 'smoking')
    """

    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold <= 1.0:
            raise SettingError(
                f"threshold={self.threshold!r} is not a probability between 0 and 1."
            )

    def select(self, findings: Findings) -> Mask:
        return findings.posterior.inclusion >= self.threshold


@dataclass(frozen=True)
class Median:
    """Select every feature with a predictive inclusion probability of at least one half.

    This is the median probability model of the predictive posterior. The selected features need not
    be compatible with invariance together. If no subset is compatible, the selection is that of
    `BestCompatible`.

    References
    ----------
    Barbieri, M. M. and Berger, J. O. (2004), Optimal predictive model selection, Annals of
    Statistics 32, 870-897, doi:10.1214/009053604000000238.
    """

    by_prediction: ClassVar[bool] = True

    def select(self, findings: Findings) -> Mask:
        predictive = findings.predictive
        return least_risky(findings) if predictive is None else predictive.inclusion >= 0.5


RULES: dict[str, type[Rule]] = {
    "predictive": BestCompatible,
    "mode": Mode,
    "threshold": Threshold,
    "median": Median,
}
RULES_IN_WORDS = {
    "predictive": "selects the best predictor that is invariant",
    "mode": "selects the most probable subset",
    "threshold": "selects every feature that is probable enough",
    "median": "selects what most compatible subsets hold, by how they predict",
}


# Its setting with or without the name
_THRESHOLD = re.compile(r"threshold\s*\((?:\s*threshold\s*=)?\s*(\d*\.?\d+)\s*\)")


def as_rule(select: str | Rule) -> Rule:
    """Return the rule of this name, with its defaults, that of a text such as "threshold(0.9)", or
    the given one."""
    if isinstance(select, str) and select in RULES:
        return RULES[select]()
    call = _THRESHOLD.fullmatch(select.strip().lower()) if isinstance(select, str) else None
    if call is not None:
        return Threshold(float(call[1]))
    if isinstance(select, str | type) or not hasattr(select, "select"):
        known = (use(select=name) for name in (*RULES, "threshold(0.9)"))
        raise SettingError(f"select={select!r} is not a rule", *known)
    return select


def falls_back(rule: Rule, findings: Findings) -> bool:
    """Return whether a rule selects the subset of least risk, since no subset is compatible."""
    return isinstance(rule, BestCompatible | Median) and findings.predictive is None


def least_risky(findings: Findings) -> Mask:
    """Return the subset (p,) with the least random-effects risk in a new environment of those in
    which every feature is worth its price: of all subsets if these are few, else by steepest
    descent.

    The risk alone lets noise in: differences between baselines are few, and any column whose mean
    moves explains some of them. So each feature that is not forced in must gain, beyond the others
    and with a baseline in each environment, the price of its columns.
    """
    target = findings.target
    price = findings.score.price
    if target.prior.support_size() > _MOST_LISTED:
        return _descended(target, price)
    found = _least_risky_of(target, price, all_subsets(target))
    return target.start if found is None else found[0]


def all_subsets(target: Target) -> Mask:
    """Return all subsets (S, p) of the sizes that the prior allows, with the forced features."""
    free = target.prior.free
    sizes = range(min(target.prior.over_free.max_size, len(free)) + 1)
    chosen = [list(members) for size in sizes for members in combinations(free, size)]
    masks = np.tile(target.start, (len(chosen), 1))
    for mask, members in zip(masks, chosen, strict=True):
        mask[members] = True
    return masks


def _risks(target: Target, masks: Mask) -> Floats:
    """Return the risks (S,), infinite outside the prior's support."""
    inside = np.flatnonzero(target.prior.log_prob(masks) > -np.inf)
    risks = np.full(len(masks), np.inf)
    risks[inside] = target.model.random_effects_risk_many(masks[inside])
    return risks


def _least_risky_of(
    target: Target, price: float, masks: Mask, below: float = np.inf
) -> tuple[Mask, float] | None:
    """The first (p,) of subsets (S, p) by risk, and its risk, in which each feature is worth its
    price; None if no such subset has less risk than `below`."""
    risks = _risks(target, masks)
    free = ~target.prior.forced_in
    prices = price * target.model.free_columns[free]
    for place in np.argsort(risks, kind="stable"):
        if not risks[place] < below:
            return None
        gains = target.model.separate_gains_many(masks[place])[0, free]
        if not (gains < prices).any():
            return masks[place], float(risks[place])
    return None


def _descended(target: Target, price: float) -> Mask:
    """Return the end of steepest descent of the risk from the forced features.

    Steps are single flips and, if none helps, exchanges. A limit on the time ends it.
    """
    free = target.prior.free
    best = target.start
    unit = np.eye(target.n_features, dtype=bool)
    least = float(_risks(target, best[None])[0])
    while True:
        inside = free[best[free]]
        outside = free[~best[free]]
        exchanges = unit[np.repeat(inside, len(outside))] | unit[np.tile(outside, len(inside))]
        for moves in (unit[free], exchanges):
            if moves is exchanges and out_of_time(
                "exchanges of features in the search for the subset of least risk"
            ):
                return best
            found = _least_risky_of(target, price, best ^ moves, least)
            if found is not None:
                best, least = found
                break
        else:
            return best
