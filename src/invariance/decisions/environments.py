"""Tests of each environment against all others, given a subset.

The hypothesis p_e(y | x^z) = g(y | x^z) of the paper's assumption 1 (Wu et al. 2025,
arXiv:2506.22675) is tested for one environment at a time, in its intercept, its slopes and its
variance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import chdtrc, digamma, gammaincc, polygamma
from scipy.stats import f

from .._tools.arrays import Floats, Integers, Labels, Mask, Names
from ..data.columns import free_name
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import SettingError, use
from ..models.base import INTERCEPT, PIVOT_TOLERANCE, SLOPES, VARIANCE, BoundModel, Level
from ..models.gaussian import GaussianModel
from ..models.invariance_test import HEAVY, Tolerance, deviance_moments, spread_p_values
from ..models.random_coefficients import Coordinates, GaussianRandomDeviations, coordinates
from ..models.regression import RegressionModel
from ..moments.moments import Moments, against_the_rest, with_equal_means, with_own_means

ALARM = 0.05
# Exact invariance, with which environments are compared with the rest whatever the other p-values
# are.
_ASKED = Tolerance(rho=0.0, tau=0.0, level=1e-300, weak_level=1e-300)


@dataclass(frozen=True)
class DeviancePart:
    """A share of T, and the p-value that it is so large under invariance; None where nothing there
    can differ."""

    deviance: float
    p_value: float | None


@dataclass(frozen=True)
class Deviation:
    """deviance : T = −2 log Λ of the groups; expected_deviance, deviance_sd : its mean and standard
    deviation under
        invariance; p_gaussian : its p-value for Gaussian noise, or by the law for many rows
    parts : {"intercept", "slopes", "variance" (or "dispersion", "baseline", nothing)}, whose
        deviances add up to T
    p_value : of the parts together: what is decided by
    """

    deviance: float
    expected_deviance: float
    deviance_sd: float
    p_gaussian: float
    p_value: float
    parts: Mapping[str, DeviancePart]

    @property
    def worst_part(self) -> str:
        """The part with the smallest p-value."""
        tested = {
            name: part.p_value for name, part in self.parts.items() if part.p_value is not None
        }
        return min(tested, key=lambda name: tested[name], default=INTERCEPT)


@dataclass(frozen=True)
class EnvironmentTest:
    """One environment against the rows of all others together; deviation is None where the fits
    cannot be decided."""

    environment: Hashable
    rows: int
    deviation: Deviation | None


class EnvironmentTests(ABC):
    """The tests of one subset: of one environment against all others, or of all against one common
    fit."""

    environments: Labels
    counts: Integers

    @abstractmethod
    def deviation(self, e: int | None) -> Deviation | None:
        """Return the deviation of the environment at place e, or of all; None if it cannot be
        decided."""

    def each(self) -> tuple[EnvironmentTest, ...]:
        labelled = zip(self.environments, self.counts.tolist(), strict=True)
        return tuple(
            EnvironmentTest(label, n, self.deviation(e)) for e, (label, n) in enumerate(labelled)
        )


class CheckedTails(EnvironmentTests):
    """Tests of one subset by the law of normal noise, whose p-values are checked by permutations if
    residuals have heavy tails."""

    _mask: Mask

    @property
    @abstractmethod
    def _chance_of_tails(self) -> float:
        """Smallest p-value that coefficients of an environment can have, since residuals permuted
        between environments deviate as much as the data; 0 if that is not known"""

    @property
    def _chance_of_spread(self) -> float:
        """The same of the mean absolute residual of an environment"""
        return 0.0

    def _of_one(self, p_value: float) -> float:
        """Return the p-value of one environment, from that of the smallest of all."""
        return float(1.0 - (1.0 - p_value) ** (1.0 / len(self.environments)))

    def _beyond_tails(self, name: str, part: DeviancePart) -> DeviancePart:
        """Return the part, with the p-value of permutations if that of the F test raises an
        alarm."""
        if part.p_value is None or part.p_value >= ALARM / len(self.environments):
            return part
        chance = self._chance_of_spread if name == VARIANCE else self._chance_of_tails
        return replace(part, p_value=max(part.p_value, chance))


class GaussianTests(CheckedTails):
    """Test intercepts, slopes and variances of the environments.

    Intercepts and slopes have F tests corrected for unequal variances, variances have Bartlett's
    test corrected for tails. They are from second moments or, if these are not precise, from the
    rows.
    """

    def __init__(self, model: GaussianModel, mask: Mask) -> None:
        self._model = model
        self._mask = mask
        self._moments = subset_moments(model, mask)
        self.environments, self.counts = self._moments.environments, self._moments.counts

    @cached_property
    def _chance_of_tails(self) -> float:
        if self._model.data is None or not self._excess_kurtosis > HEAVY * np.sqrt(
            24.0 / self._model.n_rows
        ):
            return 0.0
        each = float(self._model.invariance_test(self._mask[None], _ASKED).each[0])
        return 0.0 if np.isnan(each) else self._of_one(each)

    @cached_property
    def _excess_kurtosis(self) -> float:
        return float(self._model.excess_kurtosis(self._mask[None])[0])

    def deviation(self, e: int | None) -> Deviation | None:
        moments = self._moments if e is None else against_the_rest(self._moments, e)
        found = self._compared(e, moments, with_equal_means(moments))
        data = self._model.data
        if found is None and data is not None:
            groups = (
                data.environment_index
                if e is None
                else (data.environment_index != e).astype(np.intp)
            )
            labels = moments.environments
            X = data.X[:, data.features.expand(self._mask)]
            rows = np.column_stack([X[:, np.ptp(X, axis=0) > 0.0], data.y])
            centred = np.empty_like(rows)
            for own in (groups == g for g in range(len(labels))):
                varies = np.ptp(rows[own], axis=0) > 0.0
                centred[own] = np.where(varies, rows[own] - rows[own].mean(axis=0), 0.0)
            within = centred[:, np.append(np.ptp(centred[:, :-1], axis=0) > 0.0, True)]
            both = (
                _grouped(data, each[:, :-1], each[:, -1], groups, labels) for each in (rows, within)
            )
            found = self._compared(e, *both)
        return found

    def _extra_intercepts(self, e: int | None) -> Integers:
        """Return the intercepts (G + 1,) beyond one of the fits to the groups and to the pool.

        If baselines are free, the rest of the environments has one for each of them.
        """
        free = self._model.extra_intercepts
        if e is None:
            return np.append(np.zeros(len(self.environments), np.int64), free)
        return np.array([0, max(free - 1, 0), free])

    def _compared(
        self,
        e: int | None,
        data: MultiEnvironmentData | Moments,
        centred: MultiEnvironmentData | Moments,
    ) -> Deviation | None:
        """Return the deviation of groups, by their data and by data with equal means.

        The latter have the fit of common slopes.
        """
        full = self._model.at_level(Level.full)
        extra = self._extra_intercepts(e)
        assert isinstance(full, GaussianModel)
        model = full.of(data)
        within = full.of(centred)
        fits, about = (
            each.residuals(np.ones((1, each.n_features), dtype=bool)) for each in (model, within)
        )
        fits = fits._replace(ranks=fits.ranks + extra)
        n = model.n_rows
        groups = model.moments.n_environments
        counts = model.moments.counts.astype(float)
        if (
            np.isnan([*fits.rss[0], about.rss[0, -1]]).any()
            or (counts < fits.ranks[0, :-1] + 2).any()
        ):
            return None
        own = fits.rss[0, :-1]
        pooled = float(fits.rss[0, -1])
        common = float(about.rss[0, -1])
        together = float(own.sum())
        left = (
            n - groups - fits.ranks[0, :-1].sum(),
            n - groups - extra[:-1].sum() - about.ranks[0, -1],
            n - 1 - fits.ranks[0, -1],
        )
        variance = float(n * np.log(together / n) - counts @ np.log(own / counts))
        # As in the F test of Brown and Forsythe: outliers in a group move its coefficients, and
        # raise its own variance.
        scatter = float((1.0 - counts / n) @ (own / fits.freedom[0, :-1])) / (groups - 1)
        inflation = max(1.0, scatter / (together / float(left[0])))
        parts = {
            INTERCEPT: _f_test(
                n, pooled, common, float(left[2] - left[1]), float(left[1]), inflation
            ),
            SLOPES: _f_test(
                n, common, together, float(left[1] - left[0]), float(left[0]), inflation
            ),
            VARIANCE: DeviancePart(
                variance, float(spread_p_values(fits, 0.0, self._excess_kurtosis)[0])
            ),
        }
        parts = {name: part for name, part in parts.items() if name in self._model.compares}
        if e is not None:
            parts = {name: self._beyond_tails(name, part) for name, part in parts.items()}
        total = float(sum(part.deviance for part in parts.values()))
        mean, square = (float(value[0]) for value in deviance_moments(fits.counts, fits.ranks))
        exact = float(gammaincc(mean**2 / square, max(total, 0.0) * mean / square))
        return Deviation(
            total, mean, float(np.sqrt(square)), exact, _p_value_of_parts(parts), parts
        )


class MeanTests(GaussianTests):
    """Test the coefficients alone; each environment has its own variance."""

    def deviation(self, e: int | None) -> Deviation | None:
        places = np.arange(len(self.counts))
        every = np.ones(len(self.counts), dtype=bool)
        # Those with an intercept of their own, where slopes alone are compared.
        apart = places > 0 if e is None else places == e
        free = self._model.extra_intercepts > 0
        whole = self._deviance(every, ~every)
        slopes = whole if free else self._deviance(every, apart)
        rest = np.zeros(3) if e is None else self._deviance(places != e, ~every)
        if whole is None or slopes is None or rest is None:
            return None
        added = _less(whole, rest)
        intercept = _less(whole, slopes)
        deviance, mean, degrees = added.tolist()
        if degrees <= 0.0:
            return None
        unit = mean / degrees
        shares = {INTERCEPT: intercept.tolist(), SLOPES: _less(added, intercept).tolist()}
        shares = {name: share for name, share in shares.items() if name in self._model.compares}
        parts = {
            name: _chi_square_test(part, freedom, unit)
            for name, (part, _, freedom) in shares.items()
        }
        p_value = float(chdtrc(degrees, deviance / unit))
        return Deviation(
            deviance, mean, unit * float(np.sqrt(2.0 * degrees)), p_value, p_value, parts
        )

    def _deviance(self, kept: Mask, apart: Mask) -> Floats | None:
        """Return T of the environments `kept` (E,), its mean and degrees of freedom, (3,).

        None if it cannot be decided.
        """
        found = self._of_model(self._model.of(with_own_means(self._moments, kept, apart)))
        data = self._model.data
        if found is None and data is not None:
            rows = kept[data.environment_index]
            X = data.X[rows][:, data.features.expand(self._mask)]
            groups = (np.cumsum(kept) - 1)[data.environment_index[rows]]
            labels = tuple(np.flatnonzero(kept).tolist())
            columns = np.column_stack([X, groups[:, None] == np.flatnonzero(apart[kept])])
            found = self._of_model(
                self._model.of(_grouped(data, columns, data.y[rows], groups, labels))
            )
        return found

    @staticmethod
    def _of_model(model: GaussianModel) -> Floats | None:
        everything = np.ones((1, model.n_features), dtype=bool)
        log_ratio = float(model.log_ratio_many(everything)[0])
        null = model.null_many(everything)
        if log_ratio == -np.inf:
            return None
        mean = -2.0 * float(null.expected[0]) if null.variance[0] > 0.0 else 0.0
        return np.array([-2.0 * log_ratio, mean, float(null.degrees[0])])


class RandomDeviationTests(CheckedTails):
    """Test the intercept and slopes of one environment by exact F tests, and its mean absolute
    residual.

    They use what its rows can estimate. All environments together have the score test.
    """

    def __init__(self, model: GaussianRandomDeviations, mask: Mask) -> None:
        self._model = model
        self._mask = mask
        self.environments = model.moments.environments
        self.counts = model.moments.counts

    @cached_property
    def _chance_of_tails(self) -> float:
        p_values = [
            min(1.0 if part.p_value is None else part.p_value for part in self._compared(e)[:2])
            for e in range(len(self.counts))
        ]
        if not self._model.has_heavy_tails(self._mask, apart=int(np.argmin(p_values))):
            return 0.0
        smallest = min(p_values)
        return self._of_one(self._model.permuted_coefficients(self._mask, smallest))

    @cached_property
    def _of_spread(self) -> Floats | None:
        """p-values (E,) of the mean absolute residual of each environment; None without the rows"""
        return self._model.absolute_p_values(self._mask)

    @cached_property
    def _chance_of_spread(self) -> float:
        if self._of_spread is None or not self._model.has_heavy_tails(self._mask):
            return 0.0
        smallest = float(self._of_spread.min())
        return self._of_one(self._model.permuted_spread(self._mask, smallest))

    @cached_property
    def _at(self) -> Coordinates | None:
        return (
            coordinates(self._model, self._mask)
            if self._model.log_ratio(self._mask) > -np.inf
            else None
        )

    def deviation(self, e: int | None) -> Deviation | None:
        model = self._model
        at = self._at
        nothing = DeviancePart(0.0, None)
        if at is None:
            return None
        if e is None:
            p_value = float(model.invariance_test(self._mask[None], Tolerance.strict()).joint[0])
            deviance = -2.0 * model.log_ratio(self._mask)
            parts = dict.fromkeys(model.compares, nothing)
            return Deviation(deviance, np.nan, np.nan, p_value, p_value, parts)
        intercept, slopes, together, rank = self._compared(e)
        spread = self._of_spread
        parts = {
            INTERCEPT: intercept,
            SLOPES: slopes,
            VARIANCE: nothing if spread is None else DeviancePart(0.0, float(spread[e])),
        }
        parts = {
            name: self._beyond_tails(name, part)
            for name, part in parts.items()
            if name in (*model.compares, VARIANCE)
        }
        n = model.n_rows
        freedom = n - model.spent - at.scores.shape[1]
        mean = n * (digamma(0.5 * freedom) - digamma(0.5 * (freedom - rank)))
        sd = n * np.sqrt(polygamma(1, 0.5 * (freedom - rank)) - polygamma(1, 0.5 * freedom))
        exact = 1.0 if together.p_value is None else together.p_value
        return Deviation(
            together.deviance, float(mean), float(sd), exact, _p_value_of_parts(parts), parts
        )

    def _compared(self, e: int) -> tuple[DeviancePart, DeviancePart, DeviancePart, int]:
        """Return the F tests of an own intercept, of own slopes and of both, and the rank of
        both."""
        model = self._model
        at = self._at
        assert at is not None
        n = model.n_rows
        k = at.scores.shape[1]
        left = float(at.squares.sum())
        K = at.information[e]
        score = at.scores[e]
        form = K - K @ K * k / n
        free = model.extra_intercepts > 0
        values, vectors = np.linalg.eigh(form)
        kept = values > PIVOT_TOLERANCE * n / k
        whole = float(((vectors[:, kept].T @ score) ** 2 / values[kept]).sum())
        own = 0.0
        if kept.any() and not free:
            # The first coordinate is that of the constant column.
            own = min(float(score[0] ** 2 / form[0, 0]), whole)
        rank = int(kept.sum())
        freedom = n - model.spent - k
        return (
            _f_test(n, left, left - own, min(rank, 1), freedom - 1.0, 1.0),
            _f_test(n, left - own, left - whole, rank - (not free), float(freedom - rank), 1.0),
            _f_test(n, left, left - whole, rank, float(freedom - rank), 1.0),
            rank,
        )


class RegressionTests(EnvironmentTests):
    """Test environments by the regression itself, fitted to the groups that are compared.

    Parts are the gain of the groups' intercepts, the further gain of their slopes, and the rest, if
    there is one.
    """

    def __init__(self, model: RegressionModel, mask: Mask) -> None:
        self._specification = model.specification
        self._data = model.data
        self._columns = model.data.X[:, model.features.expand(mask)]
        self.environments = model.data.environments
        self.counts = model.data.counts

    def deviation(self, e: int | None) -> Deviation | None:
        data = self._data
        X = self._columns
        groups = self._data.environment_index
        labels = self.environments
        if e is not None:
            groups = (groups == e).astype(np.intp)
            labels = (False, True)
        own = (groups[:, None] == np.arange(1, len(labels))).astype(float)
        # Where own slopes are not all that is left, they are columns, too.
        slopes = [X * level[:, None] for level in own.T] if self._specification.about_mean else []
        columns = np.column_stack([X, own, *slopes])
        besides = {"event": data.event, "exposure": data.exposure}
        grouped = _grouped(data, columns, data.y, groups, labels, **besides)
        model = self._specification.model(self._specification, grouped)
        place = np.arange(model.n_features)
        common = place < X.shape[1]
        own_level = place < X.shape[1] + len(labels) - 1
        figures = model.figures(common)
        if not figures.log_ratio[0] > -np.inf:
            return None
        deviance = -2.0 * float(figures.log_ratio[0])
        degrees = float(figures.degrees[0])
        fits = model.figures(np.array([own_level, place >= 0])[: len(model.compares) - 1])
        gained = [*np.clip(2.0 * (fits.pooled - figures.pooled), 0.0, deviance), deviance]
        freed = [*(fits.parameters - figures.parameters), degrees]
        shares = np.diff(np.maximum.accumulate(gained), prepend=0.0), np.diff(freed, prepend=0.0)
        parts = {
            name: _chi_square_test(*map(float, share))
            for name, *share in zip(model.compares, *shares, strict=True)
        }
        null = model.null_many(common)
        tail = float(model.invariance_tails(common, figures.log_ratio)[0])
        spread = 2.0 * float(np.sqrt(null.variance[0]))
        return Deviation(
            deviance, -2.0 * float(null.expected[0]), spread, tail, _p_value_of_parts(parts), parts
        )


class StratifiedTests(EnvironmentTests):
    """Test the slopes, and any dispersion, of a regression with a baseline in each environment."""

    def __init__(self, model: RegressionModel, mask: Mask) -> None:
        self._model = model
        self._mask = mask[None]
        self.environments = model.data.environments
        self.counts = model.data.counts
        self._against = list(model.against_the_rest(self._mask))

    def deviation(self, e: int | None) -> Deviation | None:
        if e is None:
            log_ratio = self._model.log_ratio_many(self._mask)
            null = self._model.null_many(self._mask)
        else:
            log_ratio, null = self._against[e]
        if not log_ratio[0] > -np.inf or not null.variance[0] > 0.0:
            return None
        deviance = -2.0 * float(log_ratio[0])
        mean = -2.0 * float(null.expected[0])
        degrees = float(null.degrees[0])
        found = _chi_square_test(deviance, degrees, mean / degrees)
        p_value = 1.0 if found.p_value is None else found.p_value
        parts = dict.fromkeys(self._model.compares, DeviancePart(0.0, None)) | {SLOPES: found}
        return Deviation(
            deviance, mean, 2.0 * float(np.sqrt(null.variance[0])), p_value, p_value, parts
        )


def _p_value_of_parts(parts: Mapping[str, DeviancePart]) -> float:
    """Return the p-value of all tested parts by Bonferroni's rule: with heavy tails they are
    dependent."""
    known = [part.p_value for part in parts.values() if part.p_value is not None]
    return min(1.0, len(known) * min(known, default=1.0))


def _f_test(
    n: int, joint: float, separate: float, degrees: float, left: float, inflation: float
) -> DeviancePart:
    """Return the part of an F test.

    It compares the gain of a number of parameters with the gain that noise of equal variance would
    give.
    """
    if degrees <= 0.0:
        return DeviancePart(0.0, None)
    saved = max(joint - separate, 0.0)
    p_value = float(f.sf(saved / degrees / (inflation * separate / left), degrees, left))
    return DeviancePart(float(n * np.log1p(saved / separate)), p_value)


def _chi_square_test(deviance: float, degrees: float, unit: float = 1.0) -> DeviancePart:
    if degrees <= 0.0:
        return DeviancePart(0.0, None)
    return DeviancePart(deviance, float(chdtrc(degrees, deviance / unit)))


def _less(whole: Floats, part: Floats) -> Floats:
    """Return T, its mean and its degrees of freedom, (3,), without those of a part."""
    left = whole - part
    return np.append(max(left[0], 0.0), left[1:])


def _grouped(
    data: MultiEnvironmentData,
    X: Floats,
    y: Floats,
    groups: Integers,
    labels: Labels,
    **besides: Any,
) -> MultiEnvironmentData:
    """Columns X (n, k) and the outcome (n,) in groups (n,)."""
    names = tuple(free_name(f"column {j}", (data.outcome_name,)) for j in range(X.shape[1]))
    X = np.ascontiguousarray(X, dtype=float)
    y = np.ascontiguousarray(y)
    return MultiEnvironmentData(X, y, groups, names, labels, data.outcome_name, **besides)


def subset_moments(model: GaussianModel | RegressionModel, mask: Mask) -> Moments:
    """Second moments of the columns of one subset (p,) and the outcome."""
    if isinstance(model, RegressionModel):
        return Moments.from_data(model.data.by_labels.narrowed(mask))
    columns = *model.features.chosen(mask).columns, model.moments.outcome_name
    return replace(model.moments, sample=None).of_columns(columns)


def compared_model(model: BoundModel) -> GaussianModel | RegressionModel | None:
    """The model whose fits compare environments, linear Gaussian where `model` is linear; None
    where none does."""
    return model if isinstance(model, RegressionModel) else model.by_least_squares


def environment_tests(model: BoundModel, mask: Mask) -> EnvironmentTests:
    """Return the tests of a subset (p,) in what the model compares; raise if it compares
    nothing."""
    if model.n_environments < 2:
        raise SettingError("there is one environment: add rows of another one to compare it with.")
    if isinstance(model, RegressionModel):
        return (RegressionTests if model.level is Level.full else StratifiedTests)(model, mask)
    if isinstance(model, GaussianRandomDeviations):
        return RandomDeviationTests(model, mask)
    compared = model.compared_by(mask)
    if compared is None:
        raise SettingError(
            f"the {model.name} model has no tests of environments", use(family="linear_gaussian")
        )
    return (GaussianTests if VARIANCE in model.compares else MeanTests)(*compared)


@dataclass(frozen=True, eq=False)
class ComparedEnvironments:
    """Each environment against the others, for one subset.

    subset : names; tests : one for each environment; parts : in what environments are compared
    """

    subset: Names
    outcome_name: str
    tests: tuple[EnvironmentTest, ...]
    parts: Names

    @property
    def n_environments(self) -> int:
        return len(self.tests)

    @property
    def threshold(self) -> float:
        """Return the p-value of an environment below which there is an alarm: 0.05/E."""
        return ALARM / len(self.tests)


def compared_environments(model: BoundModel, mask: Mask) -> ComparedEnvironments:
    """Return the comparison of environments given a subset (p,)."""
    names = model.features.chosen(mask).names
    tests = environment_tests(model, mask).each()
    return ComparedEnvironments(names, model.observed.outcome_name, tests, model.compares)


@dataclass(frozen=True)
class WorstEnvironment:
    """The environment that deviates most from all others, with the p-value and the part
    ("intercept", "slopes", …) that does. Of two environments neither is the one that deviates:
    environment is None."""

    environment: Hashable | None
    p_value: float
    part: str


def worst_environment(tests: tuple[EnvironmentTest, ...]) -> WorstEnvironment | None:
    """Return the environment with the smallest p-value or, if several are 0 in float64, the largest
    T.

    None if no test is decided.
    """
    decided = [(test.environment, test.deviation) for test in tests if test.deviation is not None]
    if not decided:
        return None
    label, worst = min(decided, key=lambda pair: (pair[1].p_value, -pair[1].deviance))
    return WorstEnvironment(label if len(tests) > 2 else None, worst.p_value, worst.worst_part)
