"""What engines share: the target, how to run, a memory of scored subsets, the check against the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from .._tools.progress import ProgressMode
from ..data.checks import quoted, warn
from ..exceptions import ApproximationWarning, EngineError
from ..models.base import BoundModel
from ..models.walks import of_all_features
from ..posterior.posterior import Judge, Posterior, verdict_of
from ..priors.base import BoundPrior, PriorTerms


class NothingScoredError(EngineError):
    """No subset in the prior's support can be scored."""


@dataclass(frozen=True, eq=False)
class Target:
    """p(z | D) ∝ p(z)·Λ(z) over subsets of p features, of which the prior leaves f free.

    A mask is over all p features; a draw is over the f free ones, the forced ones being in and the others out.
    """

    model: BoundModel
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
        return of_all_features(draws, self.free, self.forced, self.n_features)

    def expanded(self, values: Floats, forced: float, excluded: float) -> Floats:
        """(p,) of values (f,) of the free features, with the values of the others"""
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
        """(S,) log Λ of masks (S, p), known to engines as `values`: these, unless the model rewards prediction"""
        plain = self.model.untilted
        return values if plain is self.model else plain.log_ratio_many(masks)

    def nothing_scored(self) -> NothingScoredError:
        """The error when not even the features that are forced in can be scored, with the reason."""
        forced = [self.prior.feature_names[j] for j in self.forced]
        reasons = "; ".join(self.model.outside_support(self.start[None])) or "no reason is known"
        way_out = f"All subsets hold {quoted(forced)}: force fewer in." if forced else "Use other features or rows."
        return NothingScoredError(f"no subset in the prior's support can be scored: {reasons}. {way_out}")


@dataclass(frozen=True)
class RunOptions:
    """How to run: none of it changes the result except the random generator."""

    n_jobs: int | None = None
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    progress: ProgressMode = "auto"


class Engine(Protocol):
    """A specification of how to compute: target → posterior, which ends with `judged`."""

    def run(self, target: Target, options: RunOptions) -> Posterior: ...


@dataclass(frozen=True, eq=False)
class Ready:
    """Gives a posterior of the same target that was computed before, for example with many others at once."""

    posterior: Posterior

    def run(self, target: Target, options: RunOptions) -> Posterior:
        return self.posterior


def described(target: Target) -> dict[str, Any]:
    """What every posterior says about the data and the prior, whichever engine computed it."""
    about = target.model.describe()
    return {
        "feature_names": target.prior.feature_names,
        "n_subsets": target.prior.support_size(),
        "prior": target.prior.name,
        "model": about.model,
        "model_reason": target.model.reason,
        "outcome_name": about.outcome_name,
        "environments": about.environments,
        "counts": about.counts,
        "judge": Judge(target.model),
    }


_MOST_REMARKED = 20
AnyPosterior = TypeVar("AnyPosterior", bound=Posterior)


def judged(target: Target, posterior: AnyPosterior) -> AnyPosterior:
    """The posterior with log Λ in its table, and a verdict where its most probable subset is far from invariant."""
    model = target.model.untilted
    log_ratios = target.log_ratios(posterior.masks, posterior.log_ratios)
    remarks = model.remarks(posterior.masks[:_MOST_REMARKED])
    for alarm in remarks.alarms:
        warn(alarm, ApproximationWarning)
    verdict = verdict_of(model, posterior.masks, log_ratios, posterior.n_subsets)
    notes = (*posterior.notes, *remarks.alarms, *remarks.notes)
    return replace(posterior, log_ratios=log_ratios, notes=notes, verdict=verdict)


_EXAMPLES = 64


def smallest(masks: Mask, most: int = _EXAMPLES) -> Mask:
    """(most, p) of masks (S, p), those with the fewest members first"""
    return masks[np.argsort(masks.sum(axis=1), kind="stable")[:most]]


class ScoredSubsets:
    """The values that `score` gives to subsets, rows of `width` flags: (S, width) → (S,), -inf outside the support.

    Each call asks for all unknown ones together. At most `most` are remembered; with more, all are forgotten.
    without_value (k, width): the smallest of those outside the support, at most 64.
    """

    def __init__(self, score: Callable[[Mask], Floats], width: int, most: int = 1 << 20) -> None:
        self._score = score
        self._most = most
        self._known: dict[bytes, float] = {}
        self.without_value = np.zeros((0, width), dtype=bool)

    def values(self, subsets: Mask) -> Floats:
        """(S,) of subsets (S, width)"""
        # A column more, so that there is one where no feature is free.
        packed = np.packbits(np.pad(subsets, ((0, 0), (0, 1))), axis=1)
        keys = packed.view(f"V{packed.shape[1]}")[:, 0]
        values = np.array([self._known.get(key, np.nan) for key in keys.tolist()], dtype=float)
        unknown = np.flatnonzero(np.isnan(values))
        if len(unknown):
            distinct, first, group = np.unique(keys[unknown], return_index=True, return_inverse=True)
            rows = subsets[unknown[first]]
            new = np.array(self._score(rows), dtype=float)
            new[np.isnan(new)] = -np.inf
            outside = new == -np.inf
            if outside.any():
                self.without_value = smallest(np.concatenate([self.without_value, rows[outside]]))
            if len(self._known) + len(new) > self._most:
                self._known.clear()
            self._known.update(zip(distinct.tolist(), new.tolist(), strict=True))
            values[unknown] = new[group]
        return values


AGREEMENT = 1e-6


class Rescoring(NamedTuple):
    """log_ratios (k,), disagreeing values replaced; the largest relative difference; whether a value was replaced."""

    log_ratios: Floats
    difference: float | None
    notes: tuple[str, ...]
    changed: bool


def rescore_leading(model: BoundModel, masks: Mask, log_ratios: Floats, n: int) -> Rescoring:
    """Check the first n subsets against the rows; where they differ by more than 1e-6 the rows win."""
    old, new = log_ratios[:n], model.rescore(masks[:n]) if n else None
    if new is None:
        return Rescoring(log_ratios, None, (), False)
    difference = np.abs(new - old) / np.maximum(1.0, np.abs(new))
    wrong = ~(difference <= AGREEMENT)
    largest = float(np.nan_to_num(difference, nan=np.inf).max())
    if model.walk_error > 0.0:
        wrong &= ~(np.abs(new - old) <= model.walk_error)
        log_ratios = np.concatenate([np.where(wrong, old, new), log_ratios[n:]])
        old = log_ratios[:n]
    if not wrong.any():
        return Rescoring(log_ratios, largest, (), model.walk_error > 0.0)
    what = "second moments were" if model.walk_error == 0.0 else "the walk over all subsets was"
    note = (
        f"{wrong.sum()} of the {len(new)} leading subsets were re-scored from the rows: {what} off by up "
        f"to {largest:.1e} (nearly collinear features, or hardly anything left of the outcome)."
    )
    warn(note, ApproximationWarning)
    repaired = log_ratios.copy()
    repaired[:n] = np.where(wrong, new, old)
    return Rescoring(repaired, largest, (note,), True)
