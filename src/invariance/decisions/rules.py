"""One fit: its settings, what it finds, and the rules that select features from the findings."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from .._tools.arrays import Floats, Mask
from .._tools.progress import ProgressMode
from .._tools.registry import Member, Registry
from ..data.checks import quoted
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import SettingError, use
from ..inference.base import Engine, RunOptions, Target, choose_engine
from ..models.base import VARIANCE, BoundModel, Family
from ..models.invariance_test import Tolerance
from ..models.registry import refuse_unused
from ..moments.moments import Moments
from ..posterior.posterior import Judge, Posterior
from ..priors import Prior
from .predictive import predictive_posterior


@dataclass(eq=False)
class Findings:
    """The paper's posterior over invariant subsets, and what it was computed from."""

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
        """Qualifies "no subset" where the prior rules subsets out."""
        prior, n_features = self.target.prior, len(self.target.prior.feature_names)
        limited = len(prior.free) < n_features or prior.max_size < min(self.target.model.largest_size, n_features)
        return " that the prior allows" if limited else ""

    @cached_property
    def predictive(self) -> Posterior | None:
        """The posterior over compatible subsets by how well they predict; None where no subset is compatible."""
        return predictive_posterior(self.target, self.tolerance, self.engine, self.options, self.posterior.masks)


class Rule(Protocol):
    """A specification: parameters only."""

    def select(self, findings: Findings) -> Mask:
        """(p,) the features to use"""
        ...


@dataclass(frozen=True, eq=False)
class FitSettings:
    """The members of the families that a fit combines, so that it can be repeated with other rows.

    rng : as before the fit
    """

    family: Family
    prior: Prior
    engine: str | Engine
    rule: Rule
    tolerance: Tolerance
    n_jobs: int | None
    rng: np.random.Generator

    def findings(
        self, data: MultiEnvironmentData | Moments, progress: ProgressMode, rng: np.random.Generator | None = None
    ) -> Findings:
        """rng : to draw from, by default the random numbers of the fit"""
        target = self.target(data)
        options = RunOptions(self.n_jobs, copy.deepcopy(self.rng) if rng is None else rng, progress)
        engine = choose_engine(self.engine, target)
        posterior = engine.run(target, options)
        notes = data.losses + data.notes + posterior.notes
        if isinstance(data, Moments):
            notes += tuple(moments_notes(data, target.model))
        posterior = replace(posterior, notes=notes, judge=Judge(target.model, self.tolerance))
        later = replace(options, rng=options.rng.spawn(1)[0])
        return Findings(target, posterior, engine, later, self.tolerance)

    def target(self, data: MultiEnvironmentData | Moments) -> Target:
        """The model and the prior, bound to data."""
        refuse_unused(self.family, data)
        model = self.family.bind(data, self.n_jobs)
        original = None if isinstance(data, Moments) else data.original_features
        prior = self.prior.bind(data.feature_names, model.largest_size, original)
        model.check_max_size(prior.max_size)
        return Target(model, prior)


def moments_notes(moments: Moments, model: BoundModel) -> Iterator[str]:
    """What a reader of a fit to moments should know."""
    second, compares_variances = moments.second, VARIANCE in model.compares
    if second is None or second.fourths is None:
        tails = "p-values of equal variances, which heavy tails make too small, and " if compares_variances else ""
        yield (
            f"second moments alone are known: {tails}intervals of predictions take errors for normally distributed. "
            "Fit with the rows, too, to test that."
        )
        return
    yield f"the rows were read again for what second moments do not tell ({second.n_readings}x)."
    known = set(second.fourths.columns)
    unseen = [name for name in moments.feature_names if not known.issuperset(moments.groups.get(name, (name,)))]
    if unseen and compares_variances:
        yield (
            f"tails were looked at in subsets of {moments.n_features - len(unseen):,} leading features; residuals of "
            f"subsets with others ({quoted(unseen, 4)}) count as normal, so that p-values of equal variances may be "
            "too small there."
        )


def generator(random_state: Any) -> np.random.Generator:
    """A RandomState, which cannot spawn others, seeds one by its next draws."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(1 << 32, size=4, dtype=np.uint32)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise SettingError(
            f"random_state={random_state!r} is no seed: use a whole number from 0 on, a numpy Generator, or None."
        ) from None


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
            raise SettingError(f"threshold={self.threshold!r} is not a probability between 0 and 1.")

    def select(self, findings: Findings) -> Mask:
        return findings.posterior.inclusion >= self.threshold


# Subsets that are all listed; of more, a descent finds the least risky.
_MOST_LISTED = 4096


def least_risky(findings: Findings) -> Mask:
    """(p,) the subset in the prior's support with the least random-effects risk in a new environment: of all subsets
    where these are few, else by steepest descent. The most probable subset where the model has no such risk."""
    target = findings.target
    few = target.prior.support_size() <= _MOST_LISTED
    masks = _all(target) if few else target.start[None]
    risks = _risks(target, masks)
    if risks is None:
        return findings.posterior.mode_mask
    return masks[int(np.argmin(risks))] if few else _descended(target, float(risks[0]))


def _risks(target: Target, masks: Mask) -> Floats | None:
    """(S,) infinite outside the prior's support"""
    inside = np.flatnonzero(target.prior.log_prob(masks) > -np.inf)
    values = target.model.random_effects_risk_many(masks[inside])
    if values is None:
        return None
    risks = np.full(len(masks), np.inf)
    risks[inside] = values
    return risks


def _all(target: Target) -> Mask:
    """Every subset in the prior's support, small ones first."""
    sizes = range(min(target.prior.over_free.max_size, len(target.prior.free)) + 1)
    chosen = [members for size in sizes for members in combinations(range(len(target.prior.free)), size)]
    draws = np.zeros((len(chosen), len(target.prior.free)), dtype=bool)
    for row, members in enumerate(chosen):
        draws[row, list(members)] = True
    return target.masks(draws)


def _descended(target: Target, least: float) -> Mask:
    """From the forced features, whose risk is `least`, by single flips and, where none helps, exchanges."""
    best, unit = target.start, np.eye(target.n_features, dtype=bool)
    while True:
        inside, outside = target.prior.free[best[target.prior.free]], target.prior.free[~best[target.prior.free]]
        exchanges = unit[np.repeat(inside, len(outside))] | unit[np.tile(outside, len(inside))]
        for moves in (unit[target.prior.free], exchanges):
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


def as_rule(select: str | Rule) -> Rule:
    """The rule of this name, with its defaults, or the given one."""
    if isinstance(select, str) and select in RULES:
        rule: Rule = RULES[select]()
        return rule
    if isinstance(select, str | type) or not hasattr(select, "select"):
        raise SettingError(f"select={select!r} is not a rule", *(use(select=name) for name in RULES))
    return select
