"""The pipeline of a fit: data → bound model × prior → one pass of the engine → findings, from which
a rule selects."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np

from .._tools.names import Baseline
from .._tools.progress import ProgressMode
from ..data.checks import quoted
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import Message, SettingError, use
from ..inference.base import Engine, RunOptions, Target, as_engine, choose_engine
from ..inference.enumeration import Enumeration, enumeration_steps
from ..inference.variational import Variational
from ..models.base import VARIANCE, BoundModel, Family, Level
from ..models.invariance_test import Tolerance
from ..models.registry import as_family, refuse_unused
from ..moments.moments import Moments
from ..posterior.posterior import Judge, Posterior
from ..priors import Prior, as_prior
from .levels import LEFT_FREE
from .predictive import (
    Candidates,
    FoundSource,
    PredictiveScore,
    predictive_posterior,
    search_seconds,
)
from .rules import Rule, as_rule

Data = MultiEnvironmentData | Moments
# Steps of an enumeration that takes about a second; so many seconds may repetitions without each
# environment take.
_CHEAP_STEPS = 250_000_000
_CHEAP_REPETITIONS = 20.0
# Seconds, as they are counted, of a search at a lower level that nobody asked for.
_LONGEST_SEARCH = 300.0

LARGEST_AT_EMPTY = (
    "with free baselines Λ is largest at the empty set by construction: the paper's posterior is "
    "no guide to a "
    "selection."
)


@dataclass(eq=False)
class Findings:
    """The paper's posterior over invariant subsets, and what it was computed from; options : for
    what comes later"""

    target: Target
    posterior: Posterior
    engine: Engine
    options: RunOptions
    candidates: Candidates | None = None

    @property
    def level(self) -> Level:
        """Return the level of invariance at which subsets are tested."""
        return self.target.model.level

    @property
    def holds(self) -> bool:
        """Return whether some subset is compatible with invariance at this level.

        Below the full level baselines, and perhaps the noise, are free, so that the empty set is
        always compatible: the best compatible subset must have a feature.
        """
        if self.predictive is None:
            return False
        return self.level is Level.full or bool(self.predictive.mode_mask.any())

    def at_level(self, level: Level) -> Findings | None:
        """The paper's posterior with what is compatible at a lower level; None where the prior
        forces in a feature that cannot be judged there. What would take much longer than at this
        level is searched, not enumerated."""
        if level is self.level:
            return self
        target = at_level(self.target, level)
        if target is None:
            return None
        engine = self.engine
        if isinstance(engine, Enumeration):
            most = max(_CHEAP_REPETITIONS * _CHEAP_STEPS, enumeration_steps(self.target))
            engine = engine if enumeration_steps(target) <= most else as_engine("tempering")
        return Findings(target, self.posterior, engine, self.options)

    def takes_longer_than(self, other: Findings) -> bool:
        """Return whether the search for compatible subsets takes minutes, and longer than the other
        one."""
        searched = not isinstance(self.engine, Enumeration)
        return searched and search_seconds(self.target) > max(
            _LONGEST_SEARCH, search_seconds(other.target)
        )

    @property
    def tolerance(self) -> Tolerance:
        return self.target.tolerance

    @property
    def judge(self) -> Judge:
        return Judge(self.target.model, self.tolerance)

    @property
    def allowed(self) -> str:
        """Qualifies "no subset" where the prior rules subsets out."""
        prior = self.target.prior
        n_features = self.target.n_features
        limited = len(prior.free) < n_features or prior.max_size < min(
            self.target.model.largest_size, n_features
        )
        return " that the prior allows" if limited else ""

    @cached_property
    def predictive(self) -> Posterior | None:
        """The posterior over compatible subsets by how well they predict; None where no subset is
        compatible."""
        options = self.options  # of which an enumeration draws nothing
        if not isinstance(self.engine, Enumeration):
            options = replace(options, rng=copy.deepcopy(options.rng))
        found = predictive_posterior(
            self.target, self.engine, options, self.posterior.masks, self.candidates
        )
        self.candidates = None
        return None if found is None else found.stating(notes=(*found.notes, *self.posterior.notes))

    def ranking(self, rule: Rule) -> Posterior:
        """Return the posterior by which a rule selects: the predictive one or, where no subset is
        compatible or the rule asks for it, the paper's."""
        return (self.predictive if asks_for_compatible(rule) else None) or self.posterior

    def note(self, told: str) -> None:
        """Add a note to the posteriors that were found."""
        self.posterior = self.posterior.stating(notes=(*self.posterior.notes, told))
        predictive = vars(self).get("predictive")
        if predictive is not None:
            self.predictive = predictive.stating(notes=(*predictive.notes, told))

    def at(self, tolerance: Tolerance) -> Findings:
        """The same posterior, with what is compatible at another tolerance."""
        return Findings(
            replace(self.target, tolerance=tolerance), self.posterior, self.engine, self.options
        )

    @property
    def cheap_again(self) -> bool:
        """Return whether compatible subsets at another tolerance take about a second, by
        operations."""
        return self._takes_seconds(1.0)

    @property
    def cheap_without_each(self) -> bool:
        """Return whether the selection without each environment takes about 20 seconds, by
        operations."""
        return self._takes_seconds(_CHEAP_REPETITIONS / self.target.model.n_environments)

    def _takes_seconds(self, most: float) -> bool:
        if isinstance(self.engine, Enumeration):
            return enumeration_steps(self.target) <= most * _CHEAP_STEPS
        return search_seconds(self.target) <= most

    @property
    def score(self) -> PredictiveScore:
        """Return the score that weights compatible subsets."""
        source = None if self.predictive is None else self.predictive.source
        if isinstance(source, FoundSource):
            return source.score
        return PredictiveScore.with_price(self.target.model.untilted, self.tolerance.weak)


@dataclass(frozen=True, eq=False)
class FitSettings:
    """The members of the families that a fit combines, so that it can be repeated with other rows;
    rng : as before the fit"""

    family: Family
    prior: Prior
    engine: str | Engine
    rule: Rule
    tolerance: Tolerance
    n_jobs: int | None
    rng: np.random.Generator
    baseline: Baseline = "auto"

    @classmethod
    def of(
        cls, estimator: Any, rng: np.random.Generator, family: Family | None = None
    ) -> FitSettings:
        """Return the settings that the parameters of a BIP name; family : in place of its own."""
        tolerance = Tolerance() if estimator.tolerance is None else estimator.tolerance
        if not isinstance(tolerance, Tolerance):
            raise SettingError(
                f"tolerance={tolerance!r} is not known: use a Tolerance(...), Tolerance.strict() "
                "or None."
            )
        prior = as_prior(estimator.prior)
        rule = as_rule(estimator.select)
        family = as_family(estimator.family) if family is None else family
        baseline = as_baseline(estimator.baseline, rule, estimator.engine)
        return cls(
            family, prior, estimator.engine, rule, tolerance, estimator.n_jobs, rng, baseline
        )

    def target(self, data: Data) -> Target:
        """The model, bound to sufficient statistics of the data, and the prior."""
        refuse_unused(self.family, data)
        return self.target_of(self.family.bind(data, self.n_jobs), data)

    def target_of(self, model: BoundModel, data: Data) -> Target:
        """Return the target of a model that is bound to the data."""
        original = None if isinstance(data, Moments) else data.original_features
        prior = self.prior.bind(data.feature_names, model.largest_size, original)
        model.check_max_size(prior.max_size)
        model.check_determined(~prior.forced_out, prior.max_size)
        notes = *data.losses, *data.notes, *moments_notes(data, model)
        return Target(model, prior, self.tolerance, notes)

    def findings(
        self, target: Target, progress: ProgressMode, rng: np.random.Generator | None = None
    ) -> Findings:
        """Return the findings of one pass of the engine, at the strongest level of invariance that
        holds.

        rng : random generator, by default that of the fit
        """
        levels = () if self.shares_baselines else target.model.lower_levels
        if self.baseline == "free":
            if not levels:
                target.model.at_level(Level.effects)  # raises
            first = at_level(target, levels[0])
            if first is None:
                forced = quoted(target.prior.feature_names[j] for j in target.prior.forced)
                what = (
                    f"of {forced}, which the prior forces in, some are constant in every "
                    "environment"
                )
                raise SettingError(
                    f"{what}, and cannot be judged with free baselines", use(baseline="shared")
                )
            notes = (*target.notes, LARGEST_AT_EMPTY)
            target = replace(first, notes=notes)
            levels = levels[1:]
        found = self.of_paper(target, progress, rng)
        for level in () if not levels or found.holds else levels:
            lower = found.at_level(level)
            if lower is not None and lower.takes_longer_than(found):
                alone = (
                    use(baseline="free")
                    if level is Level.effects
                    else use(family="linear_gaussian_mean")
                )
                found.note(
                    Message(
                        f"Fits with {LEFT_FREE[level]} free would take minutes and were not tried",
                        alone,
                    )
                )
            elif lower is not None and lower.holds:
                return lower
        return found

    @property
    def shares_baselines(self) -> bool:
        """Return whether lower levels are not tried.

        They are not if so requested, or with a rule or an engine that uses the paper's posterior.
        """
        engine = as_engine(self.engine) if self.engine != "auto" else None
        return (
            self.baseline == "shared"
            or not asks_for_compatible(self.rule)
            or isinstance(engine, Variational)
        )

    def of_paper(
        self, target: Target, progress: ProgressMode, rng: np.random.Generator | None = None
    ) -> Findings:
        """Return the findings of one pass of the engine, at the level of the target."""
        options = RunOptions(self.n_jobs, copy.deepcopy(self.rng) if rng is None else rng, progress)
        engine = choose_engine(self.engine, target)
        candidates = None
        if isinstance(engine, Enumeration) and asks_for_compatible(self.rule):
            candidates = Candidates(target)
            posterior = engine.run(target, options, candidates)
        else:
            posterior = engine.run(target, options)
        return Findings(
            target, posterior, engine, replace(options, rng=options.rng.spawn(1)[0]), candidates
        )


def at_level(target: Target, level: Level) -> Target | None:
    """The target with a model of this level, without features that cannot be judged there; None
    where the prior forces one of them in."""
    model = target.model.at_level(level)
    unjudged = model.constant_within
    prior = target.prior
    if (prior.forced_in & unjudged).any():
        return None
    if unjudged.any():
        prior = replace(prior, forced_out=prior.forced_out | unjudged)
    return replace(target, model=model, prior=prior)


def asks_for_compatible(rule: Rule) -> bool:
    """Return whether a rule selects among the subsets that are compatible with invariance."""
    return bool(getattr(rule, "by_prediction", False))


def as_baseline(baseline: Any, rule: Rule, engine: str | Engine) -> Baseline:
    """The setting, checked: rules and engines that go by the paper's posterior compare shared
    baselines."""
    if baseline not in get_args(Baseline):
        raise SettingError(
            f"baseline={baseline!r} is not known",
            *(use(baseline=known) for known in get_args(Baseline)),
        )
    if baseline == "free" and not asks_for_compatible(rule):
        what = (
            "with free baselines the empty set is always the most probable subset, so no rule "
            "selects by probability"
        )
        raise SettingError(what, use(select="predictive"), use(baseline="shared"))
    if baseline == "free" and engine != "auto" and isinstance(as_engine(engine), Variational):
        what = (
            "with free baselines the empty set is always the most probable subset, so "
            "engine='vi' finds nothing else"
        )
        raise SettingError(what, use(engine="auto"), use(baseline="shared"))
    known: Baseline = baseline
    return known


def moments_notes(data: Data, model: BoundModel) -> Iterator[str]:
    """Yield notes for the reader of a fit to moments."""
    if not isinstance(data, Moments) or data.all_rows is not None:
        return
    if VARIANCE in model.compares and (data.sample is None or model.n_environments > 2):
        yield (
            "tails are unchecked without rows: heavy ones make p-values of "
            f"{'equal variances' if data.sample is None else 'environments against the rest'} too "
            "small."
        )
    if data.sample is None:
        yield (
            "second moments alone are known: intervals of predictions take errors for normally "
            "distributed."
        )
        return
    n = data.sample.n_rows
    error = f"the standard error of the excess kurtosis of normal noise is {(24 / n) ** 0.5:.3f}"
    yield (
        f"tails, for tests of equal variances, and intervals are those of a random sample of {n:,} "
        f"of {data.n_rows:,} rows: {error}."
    )


def generator(random_state: Any) -> np.random.Generator:
    """A RandomState, which cannot spawn others, seeds one by its next draws."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(1 << 32, size=4, dtype=np.uint32)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise SettingError(
            f"random_state={random_state!r} is no seed: use a whole number from 0 on, a numpy "
            "Generator, or None."
        ) from None
