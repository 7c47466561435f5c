"""What a rule that selects features is, and what it may look at."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from itertools import combinations
from typing import Protocol

import numpy as np

from .._tools.arrays import Floats, Mask
from .._tools.registry import Member, Registry
from ..exceptions import SettingError
from ..inference.base import Engine, RunOptions, Target
from ..models.invariance_test import Tolerance
from ..posterior.posterior import Judge, Posterior
from .predictive import predictive_posterior


@dataclass(eq=False)
class Findings:
    """What is known before anything is decided: the paper's posterior over invariant subsets, and what it came from."""

    target: Target
    posterior: Posterior
    engine: Engine
    options: RunOptions
    tolerance: Tolerance

    @property
    def judge(self) -> Judge:
        return Judge(self.target.model, self.tolerance)

    @property
    def allowed(self) -> str:
        """To be said of "subsets" where it is the prior that rules some out."""
        prior, n_features = self.target.prior, len(self.target.prior.feature_names)
        limited = len(prior.free) < n_features or prior.max_size < min(self.target.model.largest_size, n_features)
        return " that the prior allows" if limited else ""

    @cached_property
    def predictive(self) -> Posterior | None:
        """The posterior over compatible subsets by how well they predict; None where no subset is compatible."""
        known = self.posterior.masks
        return predictive_posterior(self.target, self.tolerance, self.engine, self.options, known)


class Rule(Protocol):
    """A specification: parameters only."""

    def select(self, findings: Findings) -> Mask:
        """(p,) the features to use"""
        ...


@dataclass(frozen=True)
class Mode:
    """The features of the most probable invariant subset."""

    def select(self, findings: Findings) -> Mask:
        return findings.posterior.mode_mask


@dataclass(frozen=True)
class Threshold:
    """Every feature whose inclusion probability is at least `threshold`."""

    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.threshold <= 1.0:
            raise SettingError(f"threshold={self.threshold!r} is not a probability: use a number between 0 and 1.")

    def select(self, findings: Findings) -> Mask:
        return findings.posterior.inclusion >= self.threshold


_MOST_LISTED = 4096


def least_risky(findings: Findings) -> Mask:
    """(p,) the subset in the prior's support with the least risk in a new environment by the random-effects rule: of
    all subsets where these are few, else as adding, dropping and exchanging features finds it. The most probable subset
    where the model knows no such risk."""
    target = findings.target
    if target.prior.support_size() <= _MOST_LISTED:
        masks = _all(target)
        risks = _risks(target, masks)
        if risks is None:
            return findings.posterior.mode_mask
        return masks[int(np.argmin(risks))]
    return _climbed(target, findings.posterior.mode_mask)


def _risks(target: Target, masks: Mask) -> Floats | None:
    inside = np.flatnonzero(target.prior.log_prob(masks) > -np.inf)
    values = target.model.random_effects_risk_many(masks[inside])
    if values is None:
        return None
    risks = np.full(len(masks), np.inf)
    risks[inside] = values
    return risks


def _all(target: Target) -> Mask:
    """Every subset in the prior's support, small ones first."""
    sizes = range(min(target.terms.max_size, len(target.free)) + 1)
    chosen = [members for size in sizes for members in combinations(range(len(target.free)), size)]
    draws = np.zeros((len(chosen), len(target.free)), dtype=bool)
    for row, members in enumerate(chosen):
        draws[row, list(members)] = True
    return target.masks(draws)


def _climbed(target: Target, otherwise: Mask) -> Mask:
    """By steepest descent from the forced features: every single flip, then every exchange."""
    free = target.free
    best, risks = target.start, _risks(target, target.start[None])
    if risks is None:
        return otherwise
    least = risks[0]
    while True:
        flips = np.zeros((len(free), target.n_features), dtype=bool)
        flips[np.arange(len(free)), free] = True
        inside, outside = free[best[free]], free[~best[free]]
        exchanges = np.zeros((len(inside) * len(outside), target.n_features), dtype=bool)
        rows = np.arange(len(exchanges))
        exchanges[rows, np.repeat(inside, len(outside))] = True
        exchanges[rows, np.tile(outside, len(inside))] = True
        for moves in (flips, exchanges):
            risks = _risks(target, best ^ moves)
            if risks is not None and len(risks) and risks.min() < least:
                best, least = best ^ moves[int(np.argmin(risks))], float(risks.min())
                break
        else:
            return best


@dataclass(frozen=True)
class Median:
    """Every feature whose inclusion probability in the predictive posterior is at least one half. The features so
    chosen need not be compatible with invariance together; where no subset is, as in `BestCompatible`."""

    def select(self, findings: Findings) -> Mask:
        predictive = findings.predictive
        return least_risky(findings) if predictive is None else predictive.inclusion >= 0.5


@dataclass(frozen=True)
class BestCompatible:
    """The mode of the predictive posterior. Where no subset is compatible, the one of which the random-effects
    rule expects the least error in a new environment: a way to predict, and no claim of invariance."""

    def select(self, findings: Findings) -> Mask:
        predictive = findings.predictive
        return least_risky(findings) if predictive is None else predictive.mode_mask


RULES = Registry(
    {
        "predictive": Member("decisions.rules:BestCompatible", "selects the best predictor that is invariant"),
        "mode": Member("decisions.rules:Mode", "selects the most probable subset"),
        "threshold": Member("decisions.rules:Threshold", "selects every feature that is probable enough"),
        "median": Member("decisions.rules:Median", "selects what most compatible subsets hold, by how they predict"),
    }
)


def as_rule(select: str | Rule, **settings: float) -> Rule:
    """The rule that a name stands for, with those of the settings that it has; or the rule that is given.

    All settings are checked, also those of other rules: a wrong one is a mistake, whether it matters or not.
    """
    made = {name: _made(name, settings) for name in RULES}
    if not isinstance(select, str):
        if isinstance(select, type) or not hasattr(select, "select"):
            raise SettingError(f"select={select!r} is not a rule: use {' or '.join(map(repr, RULES))}, or a rule.")
        return select
    if select not in RULES:
        raise SettingError(f"select={select!r} is not known: use {' or '.join(map(repr, RULES))}.")
    return made[select]


def _made(name: str, settings: dict[str, float]) -> Rule:
    known = {field.name for field in fields(RULES[name])}
    rule: Rule = RULES[name](**{key: value for key, value in settings.items() if key in known})
    return rule
