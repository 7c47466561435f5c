"""The base of outcome models: a family (parameters only) is bound to data and then scores subsets.

The score of a subset z is the log likelihood ratio of equation 7 of the paper (Wu et al. 2025,
arXiv:2506.22675)::

    log Λ(z) = Σ_e Σ_i log g(y_ei | x_ei^z) − log p_e(y_ei | x_ei^z)

with g fitted to the pool and p_e to environment e. `BoundModel` has the methods of a bound family.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import n_workers, ordered_map
from .._tools.text import in_quotes
from ..data.checks import check_environments
from ..data.features import Features, Subset, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..data.site_level import SiteLevel
from ..exceptions import DataError, SettingError, use
from ..kinds import KINDS, NUMBER, OutcomeKind
from ..moments.moments import Moments
from .invariance_test import (
    Difference,
    InvarianceTest,
    Tolerance,
    deviance_difference,
    deviance_tails,
    deviance_test,
    sidak,
    with_each,
    without_spread,
)

if TYPE_CHECKING:
    from ..kernels.active_set import Scoring
    from .gaussian import GaussianModel

INTERCEPT, SLOPES = IN_MEAN = "intercept", "slopes"
VARIANCE = "variance"
DISPERSION = "dispersion"
BASELINE = "baseline"
# A squared pivot, or an eigenvalue, of columns scaled to unit length: below it second moments have
# under six digits.
PIVOT_TOLERANCE = 1e-9


# {link that a family declares: the expected outcome at intercept + coefficients · columns}
INVERSE_LINKS: Mapping[str, Callable[[Floats], Floats]] = {
    "identity": np.asarray,
    "log": np.exp,
    "logit": expit,
}


def kind_of(family: Any) -> OutcomeKind:
    """Return the kind of outcome that a family declares, by name or as an object; None is least
    squares."""
    if family is None:
        return NUMBER
    if isinstance(getattr(family, "kind", None), OutcomeKind):
        return family.kind
    name = _declared(family, "kind", KINDS)
    if name not in KINDS:
        raise SettingError(
            f"{type(family).__name__} declares the unknown kind {name!r}: use {_either(KINDS)}."
        )
    return KINDS[name]


def link_of(family: Any) -> str:
    """The link that a family declares, one of INVERSE_LINKS or another name; None is least
    squares."""
    return "identity" if family is None else _declared(family, "link", INVERSE_LINKS)


def _declared(family: Any, what: str, known: Iterable[str]) -> str:
    value = getattr(family, what, None)
    if not isinstance(value, str):
        name = type(family).__name__
        raise SettingError(
            f"{name} does not declare the {what} of its outcome: add {what} = {_either(known)} to "
            "it."
        )
    return value


def _either(known: Iterable[str]) -> str:
    return " or ".join(map(repr, known))


class Level(StrEnum):
    """List what is the same in every environment, the strongest statement first."""

    full = "full"  # baseline, effects and noise: the paper's
    effects = "effects"  # effects and noise; each environment has its own baseline
    effects_noise_free = (
        "effects, noise free"  # effects; each environment has its own baseline and noise
    )


class EnvironmentData(Protocol):
    """Rows (`MultiEnvironmentData`) or second moments (`Moments`)."""

    @property
    def environments(self) -> tuple[Hashable, ...]: ...

    @property
    def counts(self) -> Integers: ...

    @property
    def features(self) -> Features: ...

    @property
    def outcome_name(self) -> str: ...

    @property
    def site_level(self) -> SiteLevel: ...


def rows_of(data: EnvironmentData) -> MultiEnvironmentData | None:
    return data if isinstance(data, MultiEnvironmentData) else None


def moments_of(data: EnvironmentData) -> Moments:
    return data if isinstance(data, Moments) else Moments.from_data(data.by_labels)  # type: ignore[attr-defined]


def varying_columns(data: EnvironmentData, chosen: Mask) -> Mask:
    """Return which of the chosen columns (q,) of the features, k of them, vary in each environment
    (E, k)."""
    rows = rows_of(data)
    if rows is None:
        moments = moments_of(data)
        return np.asarray(moments.varies[:-1, moments.feature_columns[chosen]])
    X = rows.X[:, chosen]
    return np.array([np.ptp(X[rows.rows(e)], axis=0) > 0.0 for e in range(rows.n_environments)])


def rows_for(model: str, data: EnvironmentData) -> MultiEnvironmentData:
    """The rows, which this model cannot do without."""
    if not isinstance(data, MultiEnvironmentData):
        raise DataError(
            f"the {model} model needs the rows, and only moments are at hand: pass the data."
        )
    check_environments(
        data.environments, data.counts, *data.outcome_range, data.outcome_name, flat_allowed=True
    )
    return data


def check_choice(family: Any, name: str, known: Sequence[str]) -> None:
    """Raise where a parameter of a specification has none of the known values."""
    value = getattr(family, name)
    if value not in known:
        raise SettingError(
            f"{name}={value!r} is not known", *(use(**{name: option}) for option in known)
        )


def check_number(family: Any, name: str, what: str, positive: bool = False) -> None:
    """Raise where a parameter of a specification is no finite number from 0 on, or above 0 if
    `positive`."""
    value = getattr(family, name)
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0.0 <= value < np.inf or (positive and value == 0.0):
        raise SettingError(
            f"{name}={value!r} is no {what}: use a number {'above 0' if positive else 'from 0 on'}."
        )


def check_whole_number(family: Any, name: str, least: int, usual: int | str) -> None:
    """Raise where a parameter of a specification is no whole number from `least` on."""
    value = getattr(family, name)
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise SettingError(
            f"{name}={value!r} is no whole number from {least} on", use(**{name: usual})
        )


class Family(Protocol):
    """Specify a model of the outcome by parameters only, before there are data.

    A family can be cloned, compared and tuned. Its class attributes declare the `kind` of the
    outcome, one of OUTCOME_KINDS, and the `link`, one of INVERSE_LINKS or another name; only
    "auto", which depends on the data, does not have them. Its one method, `bind(data, n_jobs)`,
    returns a `BoundModel`, which scores subsets.
    """

    def bind(self, data: EnvironmentData, n_jobs: int | None = None) -> BoundModel: ...


class Null(NamedTuple):
    """Law of log Λ of invariant subsets (S,): its mean and variance, and the degrees of freedom of
    −2 log Λ; -inf and 0 where unknown. ceiling: the largest log Λ that other outcomes could
    have."""

    expected: Floats
    variance: Floats
    degrees: Floats
    ceiling: Floats | float = 0.0

    @classmethod
    def of_deviance(cls, mean: Floats, variance: Floats, degrees: Floats) -> Null:
        """Return the distribution from mean and variance (S,) of −2 log Λ, 0 if unknown."""
        known = variance > 0.0
        return cls(
            np.where(known, -0.5 * mean, -np.inf), 0.25 * variance, np.where(known, degrees, 0.0)
        )


class Remarks(NamedTuple):
    """Sentences on the rows and on leading subsets: notes, and alarms that become warnings."""

    notes: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()


class FlipGuess(NamedTuple):
    """Hold guesses (S, p) for S subsets with each of p features flipped, as in `gain_many` and
    `Null`."""

    log_ratio: Floats
    gain: Floats
    expected: Floats
    variance: Floats


class StandardErrors(NamedTuple):
    """values (E + 1, k): of k columns in each environment and the pool, NaN where a column is
    constant or given by the others; freedom (E + 1,): degrees of freedom that the fits leave."""

    values: Floats
    freedom: Floats


class Estimates(NamedTuple):
    """Coefficients of k columns as they are printed, in each environment and, last, the pool: by
    maximum likelihood.

    values, errors (E + 1, k) : NaN if a column is constant or given by the others, errors also if
    there are none; freedom (E + 1,) : degrees of freedom that the fits leave; infinite (E + 1, k) :
    maximum likelihood has no finite value, and the penalised estimate, if there is one, stands
    here; one_value (E + 1,) : no row, or every one, is an event, so that all slopes are infinite
    """

    values: Floats
    errors: Floats
    freedom: Floats
    infinite: Mask
    one_value: Mask


@dataclass(frozen=True, eq=False)
class Fit:
    """One subset fitted to all rows (0 for a column that adds nothing to those before it) and to
    those of each environment (NaN where a column is constant; E = 0 where not asked for). columns:
    k names; coefficients (k,); local_coefficients (E, k), local_intercepts (E,); specification:
    whose `mean` the outcome has, if not linear"""

    columns: tuple[str, ...]
    coefficients: Floats
    intercept: float
    local_coefficients: Floats
    local_intercepts: Floats
    specification: Any = None

    def mean(self, predictor: Floats) -> Floats:
        """Return the expected outcome (N,) at intercept + coefficients · columns (N,)."""
        return predictor if self.specification is None else self.specification.mean(predictor)

    def predict(self, X: Floats) -> Floats:
        """Return the expected outcome (N,) of rows X (N, k) by the pooled fit."""
        return self.mean(X @ self.coefficients + self.intercept)


def too_few_rows_for(place: str, n_rows: int, room: int) -> str:
    return (
        f"the {n_rows} rows of {place} are too few to fit more than {max(room, 0)} columns "
        "that vary there"
    )


LOW_FEATURES = 10
NDArray32 = np.ndarray[tuple[int, int], np.dtype[np.int32]]


def listed_subsets(members: NDArray32, n_features: int) -> Mask:
    """Return masks (n, f) of subsets given by members (n, k), -1 beyond the last."""
    masks = np.zeros((len(members), n_features + 1), dtype=bool)
    masks[np.arange(len(members))[:, None], members] = True
    return masks[:, :-1]


def of_all_features(draws: Mask, free: Integers, forced: Iterable[int], n_features: int) -> Mask:
    """Return masks (S, p) from subsets (S, f) of the `free` features, with the `forced` ones in
    all."""
    if np.array_equal(free, np.arange(n_features)):
        return draws.copy()
    masks = np.zeros((len(draws), n_features), dtype=bool)
    masks[:, free] = draws
    masks[:, np.asarray(forced, dtype=np.intp)] = True
    return masks


def sums_over_subsets(values: Integers) -> Integers:
    """Return sums (2**f,) of values (f,) over the members of each subset.

    Bit j of a position stands for member j.
    """
    sums = np.zeros(1 << len(values), np.int64)
    for j, value in enumerate(values):
        sums[1 << j : 2 << j] = sums[: 1 << j] + value
    return sums


class Walked(NamedTuple):
    """Hold the scores of n subsets.

    log_ratio (n,) : NaN outside the support; gain (n,) : of the pooled fit, NaN if it was not
    requested, is too small or the subset cannot be invariant up to the tolerance; or without rows
    """

    log_ratio: Floats
    gain: Floats


NO_GAIN = np.empty(0)


class SubsetWalk:
    """All subsets of the `free` features (f,), each joined by the `forced` ones (k,).

    n_low: how many features a dense block ranges over. sizes (f + 1,): which numbers of features
    count. least (c + 1,): the smallest gain that is of interest, by the number of columns of the
    pooled fit; None: gains are not asked for.
    """

    def __init__(
        self,
        model: BoundModel,
        free: Integers,
        forced: Integers,
        tolerance: Tolerance | None = None,
    ) -> None:
        self.model = model
        self.free = free
        self.forced = forced
        self.tolerance = tolerance
        self.n_features, self.n_low = len(free), min(len(free), LOW_FEATURES)

    def dense(self, high: Integers, sizes: Mask, least: Floats | None = None) -> Walked:
        """Return the scores (2**n_low,) of the features `high` joined by each subset of the first
        n_low.

        Bit j stands for feature j.
        """
        return self._scored(self.dense_draws(high), sizes, least)

    def listed(
        self,
        prefix: Integers,
        max_size: int,
        sizes: Mask,
        members: NDArray32,
        least: Floats | None = None,
    ) -> Walked:
        """Return the scores (n,) of the subsets of `listed_draws`, which fills `members`."""
        return self._scored(self.listed_draws(prefix, max_size, members), sizes, least)

    def dense_draws(self, high: Integers) -> Mask:
        """Return the features `high` joined by each subset of the first n_low, (2**n_low, f)."""
        masks = np.zeros((1 << self.n_low, self.n_features), dtype=bool)
        masks[:, : self.n_low] = np.arange(1 << self.n_low)[:, None] >> np.arange(self.n_low) & 1
        masks[:, high] = True
        return masks

    def listed_draws(self, prefix: Integers, max_size: int, members: NDArray32) -> Mask:
        """Return `prefix` extended by later features up to max_size, (n, f).

        Fills members (n, k), -1 beyond the last.
        """
        k = len(prefix)
        row = 0
        later = range(int(prefix[-1]) + 1 if k else 0, self.n_features)
        members[:, :k] = prefix
        members[:, k:] = -1
        for size in range(max_size - k + 1):
            added = list(combinations(later, size))
            members[row : row + len(added), k : k + size] = np.array(added, np.int32).reshape(
                len(added), size
            )
            row += len(added)
        return listed_subsets(members, self.n_features)

    def of_all_features(self, draws: Mask) -> Mask:
        """Return masks (S, p) from subsets (S, f) of the free features."""
        return of_all_features(draws, self.free, self.forced, self.model.n_features)

    def _scored(self, draws: Mask, sizes: Mask, least: Floats | None) -> Walked:
        wanted = sizes[draws.sum(axis=1)]
        log_ratio = np.full(len(draws), np.nan)
        masks = self.of_all_features(draws)
        log_ratio[wanted] = self.model.log_ratio_many(masks[wanted])
        log_ratio[log_ratio == -np.inf] = np.nan
        if least is None:
            return Walked(log_ratio, NO_GAIN)
        gain = np.full(len(draws), np.nan)
        known = ~np.isnan(log_ratio)
        gain[known] = self.model.untilted.gain_many(masks[known])
        return Walked(log_ratio, of_interest(gain, masks @ self.model.free_columns, least))


def of_interest(gain: Floats, columns: Integers, least: Floats) -> Floats:
    """Return gains (n,), NaN below the smallest of interest for their number of columns (n,).

    least : (c + 1,); NaN also if not finite
    """
    with np.errstate(invalid="ignore"):
        return np.where((gain >= least[columns]) & (gain > -np.inf), gain, np.nan)


class BoundModel(ABC):
    """A family tied to data. Masks are over features, which may be several columns. What is not
    abstract has a generic answer here. log Λ is a ratio of maximised likelihoods, at most 0, or a
    Bayes factor of either sign; -inf outside the support."""

    data: MultiEnvironmentData | None = None  # the rows, where they are at hand
    reason: str = ""  # why this model, where the outcome chose it

    def __init__(self, observed: EnvironmentData) -> None:
        self.observed = observed
        self.features = observed.features
        self.feature_names, self.n_features = self.features.names, self.features.n_features
        self.n_rows, self.n_environments = int(observed.counts.sum()), len(observed.environments)

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        """Return log Λ (S,) of the subsets in masks (S, p)."""

    @abstractmethod
    def gain_many(self, masks: ArrayLike) -> Floats:
        """Return the pooled log-likelihood (S,) of subsets (S, p) above that of the empty one.

        -inf outside the support.
        """

    @abstractmethod
    def null_many(self, masks: ArrayLike) -> Null:
        """The law that log Λ of each of the subsets in masks (S, p) has if the subset is
        invariant."""

    @abstractmethod
    def fit(self, subset: Subset, local: bool = True) -> Fit:
        """One subset, given by names or as a mask (p,); with the fits of each environment if
        `local`."""

    def line(self, mask: Mask) -> Fit:
        """The pooled fit of one subset (p,) by which new rows are predicted."""
        return self.fit(mask, local=False)

    @property
    def untilted(self) -> BoundModel:
        """The same without a reward for prediction: what engines call log Λ is log Λ here."""
        return self

    def log_ratio(self, subset: Subset) -> float:
        """log Λ of one subset, given by names or as a mask."""
        return float(self.log_ratio_many(as_mask(subset, self.feature_names)[None])[0])

    # ---------------------------------------------------------------- levels of invariance

    level = Level.full
    extra_intercepts = (
        0  # parameters of pooled fits beyond one intercept: E − 1 if baselines are free
    )

    @property
    def lower_levels(self) -> tuple[Level, ...]:
        """Levels below the full one at which the model can judge subsets, the strongest first."""
        return ()

    def at_level(self, level: Level) -> BoundModel:
        """Return the model of the same data in which each environment has its own baseline (and
        noise).

        Gains are over environment intercepts alone; the empty subset has log Λ of its noise only.
        Features that are constant in every environment are outside the support.
        """
        if level is self.level:
            return self
        raise SettingError(
            f"{self.name} models do not compare effects with free baselines", use(baseline="shared")
        )

    # ---------------------------------------------------------------- tests of invariance

    compares: tuple[str, ...] = (*IN_MEAN, VARIANCE)  # what must be the same in all environments
    # What is tested, and which parts of the tolerance count.
    judged: tuple[str, ...] = ("invariance", "rho", "tau")

    @property
    def n_informative(self) -> int:
        """Rows, or what else counts as an observation: events where times may be censored."""
        return self.n_rows

    def signal_of(self, gain: Floats) -> Floats:
        """Return the signal (S,) of pooled fits with this gain (S,) in units of the noise: their
        deviance."""
        return 2.0 * np.maximum(gain, 0.0)

    def without(self, environment: Hashable) -> BoundModel:
        """The same model of all other environments; features that are constant there are left
        out."""
        raise DataError(f"a {type(self).__name__} cannot leave environments out.")

    def against_the_rest(self, masks: Mask) -> Iterable[tuple[Floats, Null]]:
        """Yield, for each environment, log Λ of subsets (S, p) against all others, and its
        distribution.

        The two groups that are compared are the environment and the rows of all others. Empty if a
        model has its own test.
        """
        return ()

    def invariance_tails(self, masks: ArrayLike, log_ratios: ArrayLike) -> Floats:
        """Return P(log Λ ≤ log_ratios) (S,) under invariance, by a gamma distribution; 1 if
        unknown."""
        null = self.null_many(masks)
        known = null.variance > 0.0
        probability = np.ones(len(null.variance))
        deviance, expected = (
            2.0 * (null.ceiling - np.asarray(each))[known] for each in (log_ratios, null.expected)
        )
        probability[known] = deviance_tails(
            deviance, expected, 4.0 * null.variance[known], np.zeros(len(expected))
        )
        return probability

    def invariance_test(self, masks: ArrayLike, tolerance: Tolerance) -> InvarianceTest:
        """Test whether the subsets in masks (S, p) are invariant up to the tolerance.

        With one environment all are.
        """
        joint, allowed = self._all_together(masks, tolerance)
        each = self.each_p_values(masks, joint >= tolerance.lowest_level, allowed)
        unknown = np.full(len(joint), np.nan)
        return InvarianceTest(unknown, unknown, each, with_each(joint, each))

    def _all_together(self, masks: ArrayLike, tolerance: Tolerance) -> tuple[Floats, Floats]:
        """Return joint p-values (S,) without tests of each environment, and the tolerated
        noncentrality."""
        log_ratios = self.log_ratio_many(masks)
        null = self.null_many(masks)
        joint = (log_ratios > -np.inf).astype(float)
        tested = (log_ratios > -np.inf) & (null.variance > 0.0)
        deviance = 2.0 * (null.ceiling - log_ratios)[tested]
        expected = 2.0 * (null.ceiling - null.expected)[tested]
        allowed = self.tolerated(self.gain_many(masks), tolerance)
        p_values = deviance_test(deviance, expected, null.degrees[tested], allowed[tested])
        joint[tested] = without_spread(p_values, tolerance)
        return joint, allowed

    def compatible(self, masks: ArrayLike, tolerance: Tolerance) -> Mask:
        """Return whether the joint p-values (S,) of `invariance_test` are at least the level."""
        return np.asarray(self.invariance_test(masks, tolerance).joint >= tolerance.level)

    def difference(self, masks: ArrayLike, ends: bool = True) -> Difference:
        """Return the difference of coefficients of subsets (S, p) between environments.

        ends : whether to compute intervals
        """
        log_ratios = self.log_ratio_many(masks)
        null = self.null_many(masks)
        tested = (log_ratios > -np.inf) & (null.variance > 0.0)
        deviance = np.where(tested, -2.0 * np.where(tested, log_ratios, 0.0), 0.0)
        expected = np.where(tested, -2.0 * np.where(tested, null.expected, 0.0), 1.0)
        signal = self.signal_of(np.where(tested, self.gain_many(masks), 0.0))
        return deviance_difference(
            deviance, expected, np.where(tested, null.degrees, 0.0), signal, ends
        )

    def tolerated(self, gain: Floats, tolerance: Tolerance) -> Floats:
        """Return the tolerated noncentrality (S,) of −2 log Λ of subsets with this gain (S,)."""
        spread = self.n_rows * tolerance.tau**2 / 2.0 if "tau" in self.judged else 0.0
        return tolerance.noncentrality(self.signal_of(gain), self.n_informative) + spread

    def each_p_values(self, masks: ArrayLike, asked: Mask, allowed: Floats) -> Floats:
        """Return the smallest p-value (S,) of an environment against the rest, by Šidák's rule.

        NaN for subsets that were not requested (S,), and with two environments. allowed (S,) :
        noncentrality, shared by rows.
        """
        chosen = as_masks(masks, self.n_features)
        rows = np.flatnonzero(asked)
        counts = self.observed.counts
        each = np.full(len(chosen), np.nan)
        p_values = np.ones((len(rows), self.n_environments))
        pairs = (
            list(self.against_the_rest(chosen[rows]))
            if self.n_environments > 2 and len(rows)
            else []
        )
        for e, (log_ratio, null) in enumerate(pairs):
            tested = (log_ratio > -np.inf) & (null.variance > 0.0)
            deviance = -2.0 * log_ratio[tested]
            expected = -2.0 * null.expected[tested]
            share = allowed[rows][tested] * counts[e] / self.n_rows
            p_values[tested, e] = deviance_test(deviance, expected, null.degrees[tested], share)
        if pairs:
            each[rows] = sidak(p_values)
        return each

    def judged_by(self, tolerance: Tolerance) -> str:
        return tolerance.in_words(*self.judged)

    @property
    def by_least_squares(self) -> GaussianModel | None:
        """The linear Gaussian model of the same data, where environments can be compared by its
        fits."""
        return None

    def compared_by(self, mask: Mask) -> tuple[GaussianModel, Mask] | None:
        """The linear Gaussian model whose fits compare environments for one subset (p,), and the
        subset there."""
        return None if self.by_least_squares is None else (self.by_least_squares, mask)

    # ---------------------------------------------------------------- what reports say about
    # subsets

    makes_curves = False

    @property
    def free_columns(self) -> Integers:
        """Return how many coefficients each feature adds to the pooled fit, (p,)."""
        return self.features.widths

    @property
    def constant_within(self) -> Mask:
        """Return features (p,) that are constant in every environment: codes of the label, settings
        of sites."""
        return self.observed.site_level.features(self.features)

    def r2_many(self, masks: ArrayLike) -> Floats:
        """Return the share of the variance of the outcome that pooled fits explain, (S,).

        NaN outside the support.
        """
        gain = self.gain_many(masks)
        return -np.expm1(-2.0 * np.where(gain > -np.inf, gain, np.nan) / self.n_rows)

    def deviation_shares(self, masks: ArrayLike) -> Floats:
        """Return the share (S,) of the variance of the noise that deviations explain; NaN if not
        estimated."""
        return np.full(len(as_masks(masks, self.n_features)), np.nan)

    def left_out_r2_many(self, masks: ArrayLike) -> Floats:
        """Return R² (S,) if each environment is predicted by the fit to the others; NaN if
        unknown."""
        return np.full(len(as_masks(masks, self.n_features)), np.nan)

    def random_effects_risk_many(self, masks: ArrayLike) -> Floats:
        """Return the expected squared error (S,) of least squares in a new environment.

        Its coefficients vary as those of the environments do; inf if it is not known.
        """
        from .gaussian import LinearGaussian

        return LinearGaussian().bind(self.observed).random_effects_risk_many(masks)

    def separate_gains_many(self, masks: ArrayLike) -> Floats:
        """Return the deviance (S, p) that each feature of subsets (S, p) explains beyond the
        others.

        By least squares with a baseline in each environment; NaN for features outside the subset.
        """
        from .gaussian import LinearGaussian

        return LinearGaussian().bind(self.observed).separate_gains_many(masks)

    def standard_errors(self, subset: Subset) -> StandardErrors | None:
        """Return standard errors of the coefficients of `fit(subset)`."""
        return None

    def estimates(self, subset: Subset) -> Estimates:
        """Return the coefficients that are printed, with standard errors: plain maximum likelihood
        if that is finite.

        Of the fits, or of others without the pseudo-data that keep these finite; NaN in all
        environments if one has no fit of its own.
        """
        try:
            fit = self.fit(subset)
            values = np.vstack([fit.local_coefficients, fit.coefficients])
        except DataError:
            pooled = self.fit(subset, local=False).coefficients
            values = np.vstack([np.full((self.n_environments, len(pooled)), np.nan), pooled])
        errors = self.standard_errors(subset)
        nowhere = np.zeros(values.shape, dtype=bool)
        never = np.zeros(len(values), dtype=bool)
        if errors is None:
            errors = StandardErrors(np.full(values.shape, np.nan), np.full(len(values), np.nan))
        return Estimates(values, errors.values, errors.freedom, nowhere, never)

    def own_estimates(self, subset: Subset, printed: Estimates) -> Estimates | None:
        """Return those of each environment by its rows alone, whose spread is the heterogeneity of
        effects.

        printed : `estimates` of the subset. Errors are NaN if the estimate is infinite, and in
            environments in which a
        column is a combination of others, whose coefficients then stand for it too. None if
        environments are not one label.
        """
        varies = varying_columns(
            self.observed, self.features.expand(as_mask(subset, self.feature_names))
        )
        mixed = np.append((varies & np.isnan(printed.errors[:-1])).any(axis=1), False)
        return printed._replace(
            errors=np.where(mixed[:, None] | printed.infinite, np.nan, printed.errors)
        )

    def remarks(self, masks: ArrayLike) -> Remarks:
        """Sentences on the rows and on the subsets in masks (S, p), the leading ones."""
        return Remarks()

    def outside_support(self, masks: ArrayLike) -> tuple[str, ...]:
        """Why subsets in masks (S, p) are outside the support; empty where none is."""
        chosen = as_masks(masks, self.n_features)
        outside = chosen[~(self.log_ratio_many(chosen) > -np.inf)]
        if not len(outside):
            return ()
        smallest = outside[np.argmin(outside.sum(axis=1))]
        return (
            f"the model has no value for {{{', '.join(self.features.chosen(smallest).names)}}}",
        )

    def require(self, supported: bool, mask: Mask) -> None:
        """Raise DataError where one subset (p,) is outside the support."""
        if not supported:
            raise DataError(
                f"this subset cannot be fitted: {'; '.join(self.outside_support(mask))}."
            )

    # ---------------------------------------------------------------- what engines ask

    walk_error: float = 0.0  # largest error of log Λ in a walk; `rescore` then has the digits
    # Share of log Λ that a column costs which others in its subset nearly give, while samplers
    # search; NaN: no value.
    search_penalty: float = np.nan

    @property
    def largest_size(self) -> int:
        """Most features of a subset that the rows can fit."""
        return self.n_features

    def check_max_size(self, max_size: int) -> None:
        """Raise DataError where some environment has too few rows for subsets of max_size
        features."""
        if max_size > self.largest_size:
            e = int(np.argmin(self.observed.counts))
            label = in_quotes(self.observed.environments[e])
            n_rows = self.observed.counts[e]
            what = f"environment {label} has {n_rows} rows, too few for"
            raise DataError(
                f"{what} subsets of {max_size} features",
                use(" at most", max_size=self.largest_size),
            )

    def check_determined(self, allowed: Mask, max_size: int) -> None:
        """Raise DataError if at most max_size of the features allowed (p,) determine the outcome
        exactly; with a single environment, warn."""
        return

    @property
    def steps_per_subset(self) -> int:
        """Cost of scoring a subset, in subsets × groups of rows of the linear Gaussian's dense
        walk."""
        return 30_000

    @property
    def steps_per_listed(self) -> int:
        """Cost of scoring one of a list of subsets for a sampler, in the same steps."""
        return self.steps_per_subset

    @property
    def dense_advantage(self) -> int:
        """Return how many times cheaper a subset is in a walk over all than in a list; 1 without a
        walk."""
        return 1

    def subset_walk(
        self, free: Integers, forced: Integers, tolerance: Tolerance | None = None
    ) -> SubsetWalk:
        """All subsets of the `free` features, each joined by the `forced` ones; tolerance: where
        gains are asked for"""
        return SubsetWalk(self, free, forced, tolerance)

    def scoring(self) -> Scoring | None:
        """Return what compiled samplers score with, if every feature is one column."""
        return None

    def walk_order(self, free: Integers) -> Integers:
        """Return the best order of the features for a walk, (f,)."""
        return np.arange(len(free))

    @property
    def walk_has_all_digits(self) -> bool:
        """So that `rescore` would find the same"""
        return False

    def rescore(self, masks: ArrayLike) -> Floats | None:
        """Return log Λ (S,) by another, safer way."""
        return None

    def search_ratio_many(self, masks: ArrayLike) -> Floats:
        """Return values like log_ratio_many for searches; those outside the support may lead out of
        there."""
        return self.log_ratio_many(masks)

    @property
    def samples_exactly(self) -> bool:
        """Return whether `sampling_ratio_many` is log Λ itself."""
        return True

    def sampling_ratio_many(self, masks: ArrayLike) -> Floats:
        """Return values like log_ratio_many for samplers, which request many; results are scored
        again."""
        return self.log_ratio_many(masks)

    def nearly_outcome(self) -> Mask:
        """Return features (p,) that may determine the outcome alone and put subsets outside the
        support."""
        return np.zeros(self.n_features, dtype=bool)

    def alike(self, feature: int, most: int) -> NDArray[np.intp]:
        """Return the features that are most similar to one of them, at most a number."""
        return np.empty(0, np.intp)

    def flip_neighbours(self, mask: Mask) -> Floats:
        """Return the change (p,) of log Λ by each flip of a feature; -inf outside the support."""
        chosen = as_masks(mask, self.n_features)
        now, *values = self.log_ratio_many(
            np.vstack([chosen, chosen ^ np.eye(self.n_features, dtype=bool)])
        )
        self.require(now > -np.inf, chosen)
        return np.array(values) - now

    def flip_steps(self, size: float) -> float:
        """Cost of `flip_neighbours` at a subset of so many features, in multiplications."""
        return float(self.n_features * self.steps_per_subset)


@runtime_checkable
class GuessesFlips(Protocol):
    """The one ability without a generic answer."""

    def guessed_flips(self, masks: ArrayLike) -> FlipGuess:
        """Return guesses for subsets (S, p) with each feature flipped, for searches and not for
        tests."""
        ...


class Memory:
    """Remember what was computed for subsets.

    Earlier ones are forgotten if there are more than `most`; none is pickled.
    """

    def __init__(self, most: int) -> None:
        self._most, self._known = most, dict[bytes, Any]()

    def __reduce__(self) -> tuple[Any, ...]:
        return Memory, (self._most,)

    def of(self, masks: Mask, compute: Callable[[Mask], Iterable[Any]]) -> list[Any]:
        """Return the value of each of masks (S, p); compute : for distinct ones (n, p)."""
        # Other threads may begin a new dictionary meanwhile.
        keys = [row.tobytes() for row in np.packbits(masks, axis=1)]
        known = self._known
        new = {key: place for place, key in enumerate(keys) if key not in known}
        if new:
            if len(known) + len(new) > self._most:
                known = self._known = {key: known[key] for key in keys if key in known}
            known.update(zip(new, compute(masks[list(new.values())]), strict=True))
        return [known[key] for key in keys]


def in_parts(n: int, n_jobs: int | None, work: Callable[[slice], None], fewest: int = 256) -> None:
    """Have threads work on parts of n subsets, so many of them at least."""
    parts = min(n_workers(n_jobs), max(1, n // fewest))
    slices = [slice(n * k // parts, n * (k + 1) // parts) for k in range(parts)]
    for _ in ordered_map(work, slices, None if parts == 1 else parts):
        pass
