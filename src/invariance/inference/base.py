"""The base of inference engines: the target p(z | D) ∝ p(z) Λ(z), and what engines share.

The target is equation 7 of the paper (Wu et al. 2025, arXiv:2506.22675), over the subsets that the
prior allows. Shared are the options of a run, a memory of scored subsets, a check of scores against
the rows, and the names of engines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Fields, Floats, Integers, Mask, Names, Rng
from .._tools.names import EngineName
from .._tools.progress import ProgressMode
from .._tools.registry import Registry, check_settings, read_call
from .._tools.text import duration
from ..data.checks import quoted, warn
from ..exceptions import (
    ApproximationWarning,
    EngineError,
    InvarianceWarning,
    Message,
    SettingError,
    use,
)
from ..models.base import BoundModel, Memory, of_all_features
from ..models.invariance_test import Tolerance
from ..posterior.posterior import Judge, Posterior
from ..priors import BoundPrior

AGREEMENT = 1e-6
EXAMPLES = 64  # of subsets that cannot be scored
_MOST_REMARKED = 20
RESCORED = 20  # leading subsets that are scored again from the rows
_STEPS_OF_A_QUICK_ENUMERATION = (
    2_000_000_000  # 28 features in five environments: about ten seconds of one core
)
_LONG_STEPS = 4_500_000_000  # half a minute of one core
# About as many as sampling scores, with the search for compatible subsets, if a flip takes as long
# as a score.
_SAMPLED_SUBSETS = 1 << 18
# Of what are engines here
_PAPERS_NAMES = {"bip": ("exact",), "bip-exact": ("exact",), "bip-vi": ("vi-simulation", "vi")}


@dataclass(frozen=True, eq=False)
class Target:
    """Define the target p(z | D) ∝ p(z)·Λ(z) over subsets of p features, f of them free.

    A mask is over all p features. A draw is over the f features that the prior leaves free; forced
    ones are in and the others out. tolerance : for tests of subsets; notes : on the data, the first
    notes of the posterior.
    """

    model: BoundModel
    prior: BoundPrior
    tolerance: Tolerance = field(default_factory=Tolerance)
    notes: Names = ()

    @property
    def n_features(self) -> int:
        return len(self.prior.feature_names)

    @property
    def start(self) -> Mask:
        """Return the subset of the forced features alone, (p,)."""
        return self.prior.forced_in.copy()

    def masks(self, draws: Mask, free: Integers | None = None) -> Mask:
        """Return the subsets (S, p) of draws (S, f); free (f,) : features in another order."""
        return of_all_features(
            draws, self.prior.free if free is None else free, self.prior.forced, self.n_features
        )

    def expanded(self, values: Floats, forced: float, excluded: float) -> Floats:
        """Return values (p,) from values (f,) of the free features and those of the others."""
        full = np.where(self.prior.forced_in, forced, excluded)
        full[self.prior.free] = values
        return full

    def log_joint(self, masks: Mask, log_ratios: Floats | None = None) -> Floats:
        """Return log p(z)Λ(z) (S,) of masks (S, p), whose log Λ may be given; -inf outside the
        support."""
        if log_ratios is None:
            log_ratios = self.model.log_ratio_many(masks)
        return log_ratios + self.prior.log_prob(masks)

    def log_ratios(self, masks: Mask, values: Floats) -> Floats:
        """Return log Λ (S,) of masks (S, p); engines have `values`, which may include a reward."""
        plain = self.model.untilted
        return values if plain is self.model else plain.log_ratio_many(masks)

    def nothing_scored(self) -> EngineError:
        """Not even the features that are forced in can be scored."""
        forced = [self.prior.feature_names[j] for j in self.prior.forced]
        reasons = "; ".join(self.model.outside_support(self.start[None])) or "no reason is known"
        way_out = (
            f"All subsets hold {quoted(forced)}: force fewer in."
            if forced
            else "Use other features or rows."
        )
        return EngineError(f"no subset in the prior's support can be scored: {reasons}. {way_out}")


@dataclass(frozen=True)
class RunOptions:
    """Set how an engine runs; only the random generator changes the result.

    visitor : receives subsets from an engine that scores all of them
    """

    n_jobs: int | None = None
    rng: Rng = field(default_factory=np.random.default_rng)
    progress: ProgressMode = "auto"


Report = Callable[[int, str], object]  # shows progress: so many steps, and a text


class Engine(Protocol):
    """Specify how a posterior is computed, by parameters only.

    An engine has one method, `run(target, options)`, which returns a Posterior; it ends with
    `with_remarks(target, posterior)`. The target has the model and the prior, the options have
    threads, random generator and progress.
    """

    def run(self, target: Target, options: RunOptions) -> Posterior: ...


ENGINES = Registry(
    {
        "exact": "inference.enumeration:Enumeration",
        "tempering": "inference.tempering:Tempering",
        "vi": "inference.variational:Variational",
        "vi-simulation": "inference.variational:Variational.simulation",
        "vi-genes": "inference.variational:Variational.genes",
    }
)


def choose_engine(engine: str | Engine, target: Target) -> Engine:
    """Return the engine that `engine` names.

    "auto" is exact up to about ten seconds of one core, by the number of operations, and if
    sampling would score as many subsets; beyond it is tempering. A warning announces more than half
    a minute if a flip of a feature costs as much as a score.
    """
    from .enumeration import enumeration_steps

    model = target.model
    n_subsets = target.prior.support_size()
    cheap = enumeration_steps(target) <= _STEPS_OF_A_QUICK_ENUMERATION
    slow = not cheap and model.flip_steps(1.0) >= model.n_features * model.steps_per_subset
    if isinstance(engine, str) and engine == "auto":
        engine = "exact" if cheap or (slow and n_subsets <= _SAMPLED_SUBSETS) else "tempering"
    if slow:
        _announce(target, min(n_subsets, _SAMPLED_SUBSETS))
    return as_engine(engine)


def _announce(target: Target, n_scored: int) -> None:
    """Warn of more than half a minute of one core, and of up to how many features a subset may have
    for seconds."""
    from .enumeration import count_subsets

    per_subset = target.model.steps_per_subset
    f = len(target.prior.free)
    listed = target.model.dense_advantage * per_subset
    if n_scored * per_subset <= _LONG_STEPS:
        return
    most = max(
        (m for m in range(1, f) if listed * count_subsets(f, m) <= _STEPS_OF_A_QUICK_ENUMERATION),
        default=1,
    )
    wait = duration(30.0 * n_scored * per_subset / _LONG_STEPS)
    what = f"scoring about {n_scored:,} subsets of {f} features takes about {wait} on one core"
    remedies = (
        use(n_jobs=-1),
        use(" in the prior, for seconds", max_size=most + len(target.prior.forced)),
    )
    warn(Message(f"{what}; to be quicker", *remedies), InvarianceWarning)


def as_engine(engine: str | Engine) -> Engine:
    """Return a given engine, or the one that a text other than "auto" names; see `parse_engine`."""
    if isinstance(engine, str):
        parsed = parse_engine(engine)
        if parsed == "auto":
            raise SettingError(
                "engine='auto' chooses by the data, which are not at hand: name the engine instead."
            )
        named: Engine = ENGINES[parsed]() if isinstance(parsed, str) else parsed
        return named
    if isinstance(engine, type) or not hasattr(engine, "run"):
        raise SettingError(
            f"engine={engine!r} is not an engine: use a name, or an engine such as Tempering()."
        )
    return engine


def parse_engine(text: str) -> EngineName | Engine:
    """ "auto", the name of an engine, or an engine with settings, such as tempering(chains=8,
    steps=20000)."""
    name, settings = read_call(text)
    name = name.lower()
    if name in _PAPERS_NAMES:
        raise SettingError(
            f"engine={text!r} is the paper's name",
            *(use(engine=known) for known in _PAPERS_NAMES[name]),
        )
    if name not in ENGINES and (name != "auto" or settings):
        known = ", ".join(map(repr, ("auto", *ENGINES)))
        raise SettingError(
            f"engine={text!r} is not known: use {known} or an engine such as Enumeration()."
        )
    if not settings:
        return cast(EngineName, name)
    engine: Any = ENGINES[name]
    check_settings(
        name, getattr(engine, "__self__", engine), settings
    )  # of a preset: those of its class
    try:
        built: Engine = engine(
            **{key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()}
        )
    except ValueError as error:
        raise SettingError(f"{text}: {error}") from None
    return built


def common_fields(target: Target) -> Fields:
    """Return the fields of every posterior on data and prior, whichever engine computed it."""
    prior = target.prior
    model = target.model
    about = model.observed
    return {
        "feature_names": prior.feature_names,
        "n_subsets": prior.support_size(),
        "prior": prior.name,
        "model": model.name,
        "model_reason": model.reason,
        "judge": Judge(model, target.tolerance),
        "outcome_name": about.outcome_name,
        "environments": about.environments,
        "counts": about.counts,
    }


def with_remarks(target: Target, posterior: Posterior) -> Posterior:
    """Return the posterior with log Λ in its table, and all notes."""
    model = target.model.untilted
    log_ratios = target.log_ratios(posterior.masks, posterior.log_ratios)
    remarks = model.remarks(posterior.masks[:_MOST_REMARKED])
    for alarm in remarks.alarms:
        warn(alarm, ApproximationWarning)
    notes = (*target.notes, *posterior.notes, *remarks.alarms, *remarks.notes)
    log_ratios.setflags(write=False)
    return posterior.stating(log_ratios=log_ratios, notes=notes)


def drawn(log_weights: Floats, rng: Rng, n: int | None = None) -> NDArray[np.intp]:
    """Return n positions, or one, drawn in proportion to weights."""
    weights = np.exp(log_weights - log_weights.max())
    return rng.choice(len(weights), n, p=weights / weights.sum())


def smallest(masks: Mask) -> Mask:
    """Return those of masks (S, p) with the fewest members, at most 64."""
    return masks[np.argsort(masks.sum(axis=1), kind="stable")[:EXAMPLES]]


def support_notes(target: Target, met: Mask) -> list[str]:
    """Return a sentence if features put subsets outside the support; met (k, p) : some of these."""
    allowed = ~target.prior.forced_out
    alone = np.eye(len(allowed), dtype=bool)[allowed & target.model.nearly_outcome()]
    every = allowed[None] if allowed.sum() <= target.prior.max_size else alone[:0]
    reasons = target.model.outside_support(np.concatenate([alone, met, every]))
    return [f"Some subsets are outside the support: {'; '.join(reasons)}."] if reasons else []


class ScoredSubsets:
    """Remember the values that `score` gives to subsets, (S, width) → (S,).

    They are -inf outside the support. without_value (k, width) : the smallest subsets outside the
    support, at most 64.
    """

    def __init__(self, score: Callable[[Mask], Floats], width: int, most: int = 1 << 20) -> None:
        self._score = score
        self._memory = Memory(most)
        self.without_value = np.zeros((0, width), dtype=bool)

    def values(self, subsets: Mask) -> Floats:
        """Return the values (S,) of subsets (S, width)."""
        return np.array(self._memory.of(subsets, self._computed), dtype=float)

    def _computed(self, subsets: Mask) -> list[float]:
        values = np.nan_to_num(self._score(subsets), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        self.without_value = smallest(
            np.concatenate([self.without_value, subsets[values == -np.inf]])
        )
        return list(values.tolist())


class Rescoring(NamedTuple):
    """Hold log_ratios (k,) after a check, their largest relative difference, and whether any
    changed."""

    log_ratios: Floats
    difference: float | None = None
    notes: Names = ()
    changed: bool = False


def rescore_leading(model: BoundModel, masks: Mask, log_ratios: Floats, n: int) -> Rescoring:
    """Check the first n subsets against the rows, which replace values that differ by more than
    1e-6.

    A walk of known error is always corrected; only a larger difference is reported.
    """
    old = log_ratios[:n]
    new = None if model.walk_has_all_digits or not n else model.rescore(masks[:n])
    if new is None:
        return Rescoring(log_ratios)
    inexact = model.walk_error > 0.0
    difference = np.abs(new - old) / np.maximum(1.0, np.abs(new))
    wrong = ~(difference <= AGREEMENT) & ~(inexact & (np.abs(new - old) <= model.walk_error))
    largest = float(np.nan_to_num(difference, nan=np.inf).max())
    changed = wrong | inexact
    notes: Names = ()
    if wrong.any():
        n_wrong = f"{wrong.sum()} of the {len(new)} leading subsets"
        notes = (
            f"{n_wrong} were re-scored from the rows: sums were off by up to {largest:.1e} (near "
            "collinearity).",
        )
        warn(notes[0], ApproximationWarning)
    repaired = np.concatenate([np.where(changed, new, old), log_ratios[n:]])
    return Rescoring(repaired, largest, notes, bool(changed.any()))
