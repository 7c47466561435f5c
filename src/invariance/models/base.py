"""What a conditional model is: a specification, bound to data, that engines and decisions can ask.

A member of the family is a frozen dataclass of few parameters with `bind(data)`; what `bind` returns is a
`BoundModel`. Four methods are required of it. The abilities after them have answers of their own here, slow or
none; a model that overrides one makes an engine faster and changes no result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincc

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import n_workers, ordered_map
from ..data.features import Features, Subset, as_lists, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError
from ..moments.moments import Moments
from .gaussian_fit import StandardErrors, Unsupported, without_value
from .invariance_test import InvarianceTest, Tolerance, deviance_test

if TYPE_CHECKING:
    from ..kernels.active_set import Scoring
    from .gaussian_shared import GaussianModel

INTERCEPT, SLOPES = IN_MEAN = "intercept", "slopes"
VARIANCE, DISPERSION, BASELINE = "variance", "dispersion", "baseline"


class Predicts(StrEnum):
    """number : the outcome itself; probability : of the second of two classes; rate : events per unit of exposure;
    time : until an event that may be censored"""

    number = "number"
    probability = "probability"
    rate = "rate"
    time = "time"


def predicts_of(family: Any) -> Predicts:
    """What a specification declares as `predicts`; without that it is a number."""
    return Predicts(getattr(family, "predicts", Predicts.number))


@dataclass(frozen=True, eq=False)
class Description:
    """What a posterior says about the data of a model. environments: E labels; counts (E,): rows of each."""

    model: str
    outcome_name: str
    environments: tuple[Hashable, ...]
    counts: Integers

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    @property
    def n_environments(self) -> int:
        return len(self.environments)


class Family(Protocol):
    """A specification: parameters only. It may be cloned, compared and searched over before there are data."""

    def bind(self, data: MultiEnvironmentData | Moments, n_jobs: int | None = None) -> BoundModel: ...


class Prediction(NamedTuple):
    """gain (S,): pooled log-likelihood above that of the empty subset, -inf outside the support; parameters (S,): of
    the pooled fit, all of them."""

    gain: Floats
    parameters: Floats


class Null(NamedTuple):
    """The law of log Λ of invariant subsets: its mean and variance (S,), and the degrees of freedom (S,) of −2 log Λ.

    Where nothing can be said (one environment, no degree of freedom left in one of several): -inf and 0.
    """

    expected: Floats
    variance: Floats
    degrees: Floats


class Tails(NamedTuple):
    """expected (S,): mean of log Λ if the subset is invariant; probability (S,): that it is then as low or lower.

    Where nothing can be said: -inf and 1.
    """

    expected: Floats
    probability: Floats


class Remarks(NamedTuple):
    """Sentences on the rows and on leading subsets: notes to be read, and alarms to be heard."""

    notes: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()


class FlipGuess(NamedTuple):
    """(S, p) each, of S subsets with each of p features flipped: log Λ, -inf outside the support; the gain of the
    pooled fit, as in `Prediction`; the mean and the variance of log Λ, as in `Null`."""

    log_ratio: Floats
    gain: Floats
    expected: Floats
    variance: Floats


class Fit(Protocol):
    """One subset fitted to all rows, and to those of each environment, by maximum likelihood.

    columns: k names, the columns of the subset's features; coefficients (k,) and intercept: of the pooled fit;
    local_coefficients (E, k), local_intercepts (E,): of each environment's own, E = 0 where they were not asked for.
    NaN where a column does not vary.
    """

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def coefficients(self) -> Floats: ...

    @property
    def intercept(self) -> float: ...

    @property
    def local_coefficients(self) -> Floats: ...

    @property
    def local_intercepts(self) -> Floats: ...

    def mean(self, predictor: Floats) -> Floats:
        """(N,) expected outcome at intercept + coefficients · columns (N,)"""
        ...

    def predict(self, X: Floats) -> Floats:
        """(N,) expected outcome for rows X (N, k) of these columns, by the pooled fit"""
        ...


class SubsetWalk(Protocol):
    """All subsets of f features in compiled code, each joined by some that are always in.

    n_low: how many features a dense block should range over. sizes (f + 1,): which numbers of features count, so that
    nobody works on the others. Log Λ is NaN where undecidable.
    """

    @property
    def n_features(self) -> int: ...

    @property
    def n_low(self) -> int: ...

    def dense(self, high: Integers, sizes: Mask) -> Floats:
        """(2**n_low,) of the features `high` joined by each subset of the first n_low (bit j = feature j)"""
        ...

    def listed(self, prefix: Integers, max_size: int, sizes: Mask, members: NDArray32) -> Floats:
        """(n,) of `prefix` (ascending) and of every subset that extends it by features after its last one, up to
        max_size; members (n, k): filled with their features, -1 beyond the last"""
        ...


NDArray32 = np.ndarray[tuple[int, int], np.dtype[np.int32]]
# Gain (S,) of pooled fits and their number of parameters (S,), as in `Prediction` → weights (S,).
Weigh = Callable[[Floats, Integers], Floats]


class ScreeningWalk(SubsetWalk, Protocol):
    """A walk whose values are weights of subsets, NaN where `invariance_test` cannot accept them."""

    def list_members(self, prefix: Integers, max_size: int, members: NDArray32) -> None:
        """Only fill `members`, as `listed` does."""
        ...


class BoundModel(ABC):
    """A model of the outcome given a subset of features, tied to data: how invariant the subset is (log Λ, -inf outside
    the support), and how well it predicts. Masks are over features, which may be several columns.

    log Λ is a ratio of maximised likelihoods, at most 0, or a Bayes factor, which may be of either sign.

    reason : why this model, where the outcome chose it; empty where a person did
    """

    reason: str = ""

    @property
    @abstractmethod
    def features(self) -> Features: ...

    @abstractmethod
    def describe(self) -> Description: ...

    @abstractmethod
    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        """(S,) log Λ of the subsets in masks (S, p); -inf outside the support."""

    @abstractmethod
    def prediction_many(self, masks: ArrayLike) -> Prediction:
        """What each of the subsets in masks (S, p) predicts, and with how many parameters."""

    @abstractmethod
    def null_many(self, masks: ArrayLike) -> Null:
        """The law of log Λ that each of the subsets in masks (S, p) would have if it were invariant."""

    @abstractmethod
    def fit(self, subset: Subset, local: bool = True) -> Fit:
        """The model of one subset, given by names or as a mask (p,); with the fits of each environment if `local`."""

    # ---------------------------------------------------------------- what follows from these

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.features.names

    @property
    def n_features(self) -> int:
        return self.features.n_features

    @property
    def free_columns(self) -> Integers:
        """(p,) how many coefficients each feature adds to the pooled fit."""
        return self.features.widths

    @cached_property
    def n_rows(self) -> int:
        return self.describe().n_rows

    def log_ratio(self, subset: Subset) -> float:
        """log Λ of one subset, given by names or as a mask."""
        return float(self.log_ratio_many(as_mask(subset, self.feature_names)[None])[0])

    def invariance_tails(self, masks: ArrayLike, log_ratios: ArrayLike) -> Tails:
        """What log Λ (S,) of the subsets in masks (S, p) says against their invariance: by a gamma law for how far it
        lies below its ceiling, with the mean and the variance of `null_many`."""
        expected, variance, _ = self.null_many(masks)
        known = variance > 0.0
        ceiling = self.ceiling_many(masks)
        deviance = 2.0 * (ceiling - np.asarray(log_ratios, dtype=float))
        mean, spread = 2.0 * (ceiling - expected)[known], 4.0 * variance[known]
        probability = np.ones(len(expected))
        probability[known] = gammaincc(mean**2 / spread, deviance[known] * mean / spread)
        return Tails(np.where(known, expected, -np.inf), probability)

    # ---------------------------------------------------------------- abilities, with what there is without them

    def r2_many(self, masks: ArrayLike) -> Floats:
        """(S,) share of the outcome's variance that the pooled fits explain, from their gain in log-likelihood; NaN
        outside the support."""
        gain = self.prediction_many(masks).gain
        return -np.expm1(-2.0 * np.where(gain > -np.inf, gain, np.nan) / self.n_rows)

    def invariance_test(self, masks: ArrayLike, tolerance: Tolerance) -> InvarianceTest:
        """Whether the subsets in masks (S, p) are invariant up to the tolerance; with one environment all are."""
        chosen = as_masks(masks, self.n_features)
        log_ratios, null = self.log_ratio_many(chosen), self.null_many(chosen)
        supported, known = log_ratios > -np.inf, null.variance > 0.0
        joint, tested = supported.astype(float), supported & known
        ceiling = self.ceiling_many(chosen)[tested]
        deviance, expected = 2.0 * (ceiling - log_ratios[tested]), 2.0 * (ceiling - null.expected[tested])
        joint[tested] = deviance_test(deviance, expected, null.degrees[tested], self.tolerated(tolerance))
        unknown = np.full(len(chosen), np.nan)
        return InvarianceTest(unknown, unknown, joint)

    def left_out_r2_many(self, masks: ArrayLike) -> Floats:
        """(S,) share of the outcome's variance explained when each environment is predicted by the fit to the others;
        NaN where that is not known."""
        return np.full(len(as_masks(masks, self.n_features)), np.nan)

    def random_effects_risk_many(self, masks: ArrayLike) -> Floats | None:
        """(S,) expected squared error in a new environment if coefficients go on to scatter between environments as
        they do; None where the model does not know."""
        return None

    def standard_errors(self, subset: Subset) -> StandardErrors | None:
        """Of the coefficients of `fit(subset)`; None where the model does not know them."""
        return None

    def ceiling_many(self, masks: ArrayLike) -> Floats:
        """(S,) the largest log Λ that the subsets in masks (S, p) could have with other outcomes."""
        return np.zeros(len(as_masks(masks, self.n_features)))

    @property
    def untilted(self) -> BoundModel:
        """The same without a reward for prediction: what engines call log Λ is log Λ here."""
        return self

    # What engines score by it, in the words of a progress bar.
    subsets_scored = "subsets"

    # Whether it fits curves of its own making in the place of the data's columns.
    makes_curves = False

    @property
    def by_least_squares(self) -> GaussianModel | None:
        """The linear Gaussian model of the same data, where environments can be compared by its fits."""
        return None

    def compared_by(self, mask: Mask) -> tuple[GaussianModel, Mask] | None:
        """The linear Gaussian model by whose fits environments are compared for one subset (p,), and the subset there;
        None where there is no such model."""
        return None if self.by_least_squares is None else (self.by_least_squares, mask)

    @property
    def compares(self) -> tuple[str, ...]:
        """What must be the same in all environments."""
        return *IN_MEAN, VARIANCE

    def tolerated(self, tolerance: Tolerance) -> float:
        """The noncentrality of −2 log Λ that is no reason against a subset, where it is judged as a whole."""
        return self.n_rows * (tolerance.delta + tolerance.tau**2 / 2.0)

    def judged_by(self, tolerance: Tolerance) -> str:
        """The tolerance in words."""
        return str(tolerance)

    @property
    def largest_size(self) -> int:
        """Most features of a subset that the rows can fit."""
        return self.n_features

    def check_max_size(self, max_size: int) -> None:
        """Raise DataError where some environment has too few rows for subsets of max_size features."""
        return

    def unsupported(self, masks: ArrayLike) -> Unsupported:
        """Which of the subsets are outside the support, and why."""
        chosen = as_masks(masks, self.n_features)
        return without_value(chosen, ~(self.log_ratio_many(chosen) > -np.inf), self.feature_names)

    def nearly_outcome(self) -> Mask:
        """(p,) features that alone may determine the outcome and so put subsets outside the support."""
        return np.zeros(self.n_features, dtype=bool)

    def remarks(self, masks: ArrayLike) -> Remarks:
        """What a reader of results has to know of the rows and of the subsets in masks (S, p), the leading ones."""
        return Remarks()

    @property
    def rows(self) -> MultiEnvironmentData | None:
        """The rows themselves, where they are at hand."""
        return None

    @property
    def steps_per_subset(self) -> int:
        """What scoring a subset costs, counted in subsets × groups of rows of the linear Gaussian's dense walk."""
        return 30_000

    @property
    def dense_advantage(self) -> int:
        """How many times cheaper a subset is when all are walked than when it is one of a list; 1 without a walk."""
        return 1

    def walk_order(self, free: Integers) -> Integers:
        """(f,) in which order the features of a walk are best given to it."""
        return np.arange(len(free))

    def subset_walk(self, free: Integers, forced: Integers) -> SubsetWalk | None:
        """All subsets of the `free` features, each joined by the `forced` ones, in compiled code."""
        return None

    def screening_walk(
        self, free: Integers, forced: Integers, tolerance: Tolerance, weigh: Weigh
    ) -> ScreeningWalk | None:
        """As `subset_walk`, with the weights of those subsets that may be invariant up to the tolerance."""
        return None

    def scoring(self) -> Scoring | None:
        """What compiled samplers score with, column by column; only where every feature is one column."""
        return None

    @property
    def search_penalty(self) -> float:
        """What compiled samplers do, while searching, with columns that others in a subset nearly give: they leave them
        out, each at a cost of this share of log Λ. NaN: the subset has no value, as otherwise."""
        return np.nan

    def search_ratio_many(self, masks: ArrayLike) -> Floats:
        """As log_ratio_many, for searching: subsets outside the support may have values that lead out of there."""
        return self.log_ratio_many(masks)

    def flip_neighbours(self, mask: Mask) -> Floats:
        """(p,) change of log Λ when each single feature is added or removed; -inf where that leaves the support."""
        neighbours = mask ^ np.eye(self.n_features, dtype=bool)
        now, *values = self.log_ratio_many(np.vstack([mask, neighbours]))
        if now == -np.inf:
            raise DataError(f"the subset to start from is not supported: {self.unsupported(mask)}.")
        return np.array(values) - now

    @property
    def guesses_flips(self) -> bool:
        """Whether `guessed_flips` has an answer."""
        return False

    def guessed_flips(self, masks: ArrayLike) -> FlipGuess:
        """Of the subsets in masks (S, p) with each feature added or removed, from a fit of each subset alone: good
        enough to look for subsets, not to judge them."""
        raise NotImplementedError

    def flip_steps(self, size: float) -> float:
        """What `flip_neighbours` costs at a subset of so many features, counted in multiplications."""
        return float(self.n_features * self.steps_per_subset)

    def alike(self, feature: int, most: int) -> NDArray[np.intp]:
        """At most so many features that say most about one of them."""
        return np.empty(0, np.intp)

    def rescore(self, masks: ArrayLike) -> Floats | None:
        """(S,) log Λ by another, safer way; None where there is none."""
        return None

    @property
    def walk_error(self) -> float:
        """By how much log Λ of a walk over all subsets may be off where all is well; `rescore` then has the digits."""
        return 0.0


_FEWEST_PER_THREAD = 256


def in_pieces(chosen: Mask, n_jobs: int | None, work: Callable[[slice, Integers, Integers], None]) -> None:
    """Have threads work on pieces of the subsets (S, q): which of them, and the members of each (see `as_lists`)."""
    pieces = min(n_workers(n_jobs), max(1, len(chosen) // _FEWEST_PER_THREAD))
    bounds = np.linspace(0, len(chosen), pieces + 1).astype(int)

    def one(piece: int) -> None:
        rows = slice(bounds[piece], bounds[piece + 1])
        work(rows, *as_lists(chosen[rows]))

    for _ in ordered_map(one, range(pieces), pieces):
        pass


# A squared pivot, or an eigenvalue, of columns scaled to unit length: what is solved with a
# smaller one from second moments has fewer than six digits.
PIVOT_TOLERANCE = 1e-9
