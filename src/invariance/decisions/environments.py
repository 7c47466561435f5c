"""Tests of each environment against all others, given a subset."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, gammaincc
from scipy.stats import chi2, f

from .._tools.arrays import Floats, Integers, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import SettingError, use
from ..models.base import INTERCEPT, PIVOT_TOLERANCE, SLOPES, VARIANCE, BoundModel
from ..models.gaussian import GaussianModel
from ..models.invariance_test import Residuals, deviance_moments, spread_p_values
from ..models.regression import RegressionModel
from ..moments.least_squares import least_squares, least_squares_of_root, root_of
from ..moments.moments import Moments, against_the_rest, own_mean_names, with_own_means


class NestedFits(NamedTuple):
    """rss (G + 2,): residual sums of squares in each of G groups, with common slopes and own intercepts, and with
    everything in common; NaN where they cannot be decided. ranks (G + 2,): of the columns. counts (G,): rows."""

    rss: Floats
    ranks: Integers
    counts: Integers

    @property
    def decided(self) -> bool:
        return bool((self.counts >= self.ranks[:-2] + 2).all() and not np.isnan(self.rss).any())


def _nested(fits: Iterable[tuple[float, int]], counts: Integers) -> NestedFits:
    rss, ranks = zip(*fits, strict=True)
    return NestedFits(np.array(rss), np.array(ranks), counts)


def fits_of_moments(moments: Moments) -> NestedFits:
    """All features of the moments, in their environments."""
    order = np.append(moments.feature_columns, moments.outcome)
    scatter, present = moments.scatter[:, order[:, None], order], moments.present[:, moments.feature_columns]
    within = scatter[:-1].sum(axis=0), np.logical_or.reduce(present[:-1])
    each = [*zip(scatter[:-1], present[:-1], strict=True), within, (scatter[-1], present[-1])]
    return _nested((_square_sum(*products) for products in each), moments.counts)


def fits_of_rows(X: Floats, y: Floats, groups: Sequence[NDArray[np.intp]]) -> NestedFits:
    """The columns of X (N, k) in groups of its rows."""
    centred = [(X[rows] - X[rows].mean(axis=0), y[rows] - y[rows].mean()) for rows in groups]
    for deviations, rows in zip(centred, groups, strict=True):
        deviations[0][:, np.ptp(X[rows], axis=0) == 0.0] = 0.0
    within = np.vstack([x for x, _ in centred]), np.concatenate([values for _, values in centred])
    every = np.concatenate(groups)
    fits = [least_squares(*rows) for rows in [*((X[g], y[g]) for g in groups), within, (X[every], y[every])]]
    return _nested(((fit.rss, fit.rank) for fit in fits), np.array([len(group) for group in groups]))


def fits_of_roots(moments: Moments, roots: Floats, groups: Sequence[NDArray[np.intp]]) -> NestedFits:
    """All features of the moments, from factors (E, m, d) of the rows, in groups of environments."""
    columns = np.append(moments.feature_columns, moments.outcome)
    own = [root_of(moments, roots, group, columns) for group in groups]
    pooled = root_of(moments, roots, np.concatenate(groups), columns)
    fits = [least_squares_of_root(root, np.zeros(len(columns))) for root in (*own, np.vstack(own), pooled)]
    return _nested(((fit.rss, fit.rank) for fit in fits), np.array([moments.counts[group].sum() for group in groups]))


def _square_sum(scatter: Floats, used: Mask) -> tuple[float, int]:
    """rss and rank of the last column on the `used` others (k,), from centred products (k + 1, k + 1)."""
    columns = np.append(np.flatnonzero(used), len(used))
    scale = np.sqrt(np.diagonal(scatter)[columns])
    left = scatter[np.ix_(columns, columns)] / np.outer(scale, scale)
    for j in range(len(columns) - 1):
        if not left[j, j] >= PIVOT_TOLERANCE:
            return np.nan, len(columns) - 1
        left[j + 1 :, j + 1 :] -= np.outer(left[j + 1 :, j], left[j, j + 1 :]) / left[j, j]
    share = left[-1, -1]
    return share * scale[-1] ** 2 if share >= PIVOT_TOLERANCE else np.nan, len(columns) - 1


@dataclass(frozen=True)
class Part:
    """A share of T, and the p-value that it is so large under invariance; None where nothing there can differ."""

    deviance: float
    p_value: float | None


@dataclass(frozen=True)
class Deviation:
    """deviance : T = −2 log Λ of the groups; expected_deviance, deviance_sd : its mean and standard deviation under
        invariance; p_gaussian : its p-value for Gaussian noise, or by the law for many rows
    parts : {"intercept", "slopes", "variance" (or "dispersion", "baseline", nothing)}, whose deviances add up to T;
        their p-values are independent under invariance
    p_value : of the parts together, by Fisher's rule: what is decided by
    """

    deviance: float
    expected_deviance: float
    deviance_sd: float
    p_gaussian: float
    p_value: float
    parts: Mapping[str, Part]

    @property
    def worst_part(self) -> str:
        """The part with the smallest p-value."""
        tested = {name: part.p_value for name, part in self.parts.items() if part.p_value is not None}
        return min(tested, key=lambda name: tested[name], default=INTERCEPT)


def deviation(fits: NestedFits, excess_kurtosis: float) -> Deviation | None:
    """None where the fits cannot be decided."""
    if not fits.decided:
        return None
    n, groups, counts = int(fits.counts.sum()), len(fits.counts), fits.counts.astype(float)
    own, within, pooled = fits.rss[:-2], float(fits.rss[-2]), float(fits.rss[-1])
    ranks = np.delete(fits.ranks, -2)[None]
    residuals = Residuals(np.append(own, pooled)[None], ranks, np.append(counts, n))
    left = float(n - groups - ranks[0, :-1].sum()), float(n - groups - fits.ranks[-2]), float(n - 1 - ranks[0, -1])
    parts = {
        INTERCEPT: _common(n, pooled, within, left[2] - left[1], left[1]),
        SLOPES: _common(n, within, own.sum(), left[1] - left[0], left[0]),
        VARIANCE: Part(
            float(n * np.log(own.sum() / n) - counts @ np.log(own / counts)),
            float(spread_p_values(residuals, 0.0, excess_kurtosis)[0]),
        ),
    }
    total = float(sum(part.deviance for part in parts.values()))
    mean, variance = (float(value[0]) for value in deviance_moments(residuals.counts, ranks))
    exact = float(gammaincc(mean**2 / variance, max(total, 0.0) * mean / variance))
    return Deviation(total, mean, float(np.sqrt(variance)), exact, joint_of_parts(parts), parts)


def joint_of_parts(parts: Mapping[str, Part]) -> float:
    """The p-value of all parts that were tested, by Fisher's rule."""
    known = [part.p_value for part in parts.values() if part.p_value is not None]
    with np.errstate(divide="ignore"):
        return float(chi2.sf(-2.0 * np.log(known).sum(), 2 * len(known)))


def _common(n: int, joint: float, separate: float, degrees: float, left: float) -> Part:
    """What own parameters save, by the F test of so many of them."""
    if degrees <= 0.0:
        return Part(0.0, None)
    saved = max(joint - separate, 0.0)
    return Part(float(n * np.log1p(saved / separate)), float(f.sf(saved / degrees / (separate / left), degrees, left)))


@dataclass(frozen=True)
class EnvironmentTest:
    """One environment against the rows of all others together; deviation is None where the fits cannot be decided."""

    environment: Hashable
    rows: int
    deviation: Deviation | None


class Tests(ABC):
    """The tests of one subset: of one environment against all others, or of all against one common fit."""

    environments: tuple[Hashable, ...]
    counts: Integers

    @abstractmethod
    def deviation(self, e: int | None) -> Deviation | None:
        """Of the environment at place e, or of all; None where the fits cannot be decided."""

    def each(self) -> tuple[EnvironmentTest, ...]:
        labelled = zip(self.environments, self.counts.tolist(), strict=True)
        return tuple(EnvironmentTest(label, n, self.deviation(e)) for e, (label, n) in enumerate(labelled))


class SubsetTests(Tests):
    """By linear Gaussian fits: from second moments or, where these cannot decide, from the rows."""

    def __init__(self, model: GaussianModel, mask: Mask) -> None:
        self._model, self._mask = model, mask
        self._moments = moments_of(model, mask)
        self._excess = float(model.excess_kurtosis(mask[None])[0])
        self.environments, self.counts = self._moments.environments, self._moments.counts

    def deviation(self, e: int | None) -> Deviation | None:
        fits = fits_of_moments(self._moments if e is None else against_the_rest(self._moments, e))
        if np.isnan(fits.rss).any():
            fits = self._by_rows(e) or fits
        return deviation(fits, self._excess)

    def _by_rows(self, e: int | None) -> NestedFits | None:
        data, roots = self._model.rows, None if self._moments.second is None else self._moments.second.roots
        places = np.arange(len(self.environments)) if data is None else data.environment_index
        split = [places == k for k in range(len(self.environments))] if e is None else [places == e, places != e]
        groups = list(map(np.flatnonzero, split))
        if data is not None:
            return fits_of_rows(data.X[:, data.features.expand(self._mask)], data.y, groups)
        return None if roots is None else fits_of_roots(self._moments, roots, groups)


def moments_of(model: GaussianModel | RegressionModel, mask: Mask) -> Moments:
    """Of the columns of one subset (p,)."""
    rows = model.rows
    if rows is not None and (isinstance(model, RegressionModel) or not model.moments.scatter.size):
        return Moments.from_data(rows.narrowed(mask))
    assert not isinstance(model, RegressionModel)
    return model.moments.of_columns((*model.features.chosen(mask).columns, model.moments.outcome_name))


class RegressionTests(Tests):
    """By the regression itself, fitted to the groups that are compared. Parts are what the groups' own intercepts gain,
    what their own slopes gain beyond, and what is left: where that is nothing, there is no third."""

    def __init__(self, model: RegressionModel, mask: Mask) -> None:
        self._specification, self._data = model.specification, model.data
        self._columns = model.data.X[:, model.features.expand(mask)]
        self.environments, self.counts = model.data.environments, model.data.counts

    def deviation(self, e: int | None) -> Deviation | None:
        groups, labels = self._data.environment_index, self.environments
        if e is not None:
            groups, labels = (groups == e).astype(np.intp), (False, True)
        model = self._specification.tied(self._regrouped(groups, labels), None)
        k, place = self._columns.shape[1], np.arange(model.n_features)
        common, own_level = place < k, place < k + len(labels) - 1
        figures = model.figures(common)
        if not figures.log_ratio[0] > -np.inf:
            return None
        deviance, degrees = -2.0 * float(figures.log_ratio[0]), float(figures.degrees[0])
        fits = model.figures(np.array([own_level, place >= 0])[: len(model.compares) - 1])
        gained = [*np.clip(2.0 * (fits.pooled - figures.pooled), 0.0, deviance), deviance]
        freed = [*(fits.parameters - figures.parameters), degrees]
        shares = np.diff(np.maximum.accumulate(gained), prepend=0.0), np.diff(freed, prepend=0.0)
        parts = {name: _chi_square(*map(float, share)) for name, *share in zip(model.compares, *shares, strict=True)}
        null = model.null_many(common)
        tail = float(model.invariance_tails(common, figures.log_ratio).probability[0])
        spread = 2.0 * float(np.sqrt(null.variance[0]))
        return Deviation(deviance, -2.0 * float(null.expected[0]), spread, tail, joint_of_parts(parts), parts)

    def _regrouped(self, groups: Integers, labels: tuple[Hashable, ...]) -> MultiEnvironmentData:
        """The columns of the subset; for each group but the first, one that is 1 there; and, where slopes are not all
        that is left, the columns within each of these groups."""
        level: Floats = (groups[:, None] == np.arange(1, len(labels))).astype(float)
        within = [self._columns * one[:, None] for one in level.T] if self._specification.about_mean else []
        X, data = np.column_stack([self._columns, level, *within]), self._data
        names = tuple(f"column {j}" for j in range(X.shape[1]))
        return MultiEnvironmentData(
            X, data.y, groups, names, labels, data.outcome_name, event=data.event, exposure=data.exposure
        )


def _chi_square(deviance: float, degrees: float, unit: float = 1.0) -> Part:
    return Part(0.0, None) if degrees <= 0.0 else Part(deviance, float(chdtrc(degrees, deviance / unit)))


def _less(whole: Floats, part: Floats) -> Floats:
    """(3,) T, its mean and its degrees of freedom, without those of a part"""
    left = whole - part
    return np.append(max(left[0], 0.0), left[1:])


class MeanTests(Tests):
    """Of the coefficients alone, each environment with a variance of its own."""

    def __init__(self, model: GaussianModel, mask: Mask) -> None:
        self._model, self._mask = model, mask
        self._moments = moments_of(model, mask)
        self.environments, self.counts = self._moments.environments, self._moments.counts

    def deviation(self, e: int | None) -> Deviation | None:
        places, every = np.arange(len(self.counts)), np.ones(len(self.counts), dtype=bool)
        # Those with an intercept of their own, where slopes alone are compared.
        apart = places > 0 if e is None else places == e
        whole, slopes = self._deviance(every, ~every), self._deviance(every, apart)
        rest = np.zeros(3) if e is None else self._deviance(places != e, ~every)
        if whole is None or slopes is None or rest is None:
            return None
        added, intercept = _less(whole, rest), _less(whole, slopes)
        deviance, mean, degrees = added.tolist()
        if degrees <= 0.0:
            return None
        unit = mean / degrees
        shares = {INTERCEPT: intercept.tolist(), SLOPES: _less(added, intercept).tolist()}
        parts = {name: _chi_square(part, freedom, unit) for name, (part, _, freedom) in shares.items()}
        p_value = float(chdtrc(degrees, deviance / unit))
        return Deviation(deviance, mean, unit * float(np.sqrt(2.0 * degrees)), p_value, p_value, parts)

    def _deviance(self, kept: Mask, apart: Mask) -> Floats | None:
        """(3,) T of the environments `kept` (E,), its mean and degrees of freedom under invariance; None where it
        cannot be decided."""
        found = self._of_model(self._model.of(with_own_means(self._moments, kept, apart)))
        if found is None and self._model.rows is not None:
            found = self._of_model(self._model.of(_rows_with_own_means(self._model.rows, self._mask, kept, apart)))
        return found

    @staticmethod
    def _of_model(model: GaussianModel) -> Floats | None:
        everything = np.ones((1, model.n_features), dtype=bool)
        log_ratio, null = float(model.log_ratio_many(everything)[0]), model.null_many(everything)
        if log_ratio == -np.inf:
            return None
        mean = -2.0 * float(null.expected[0]) if null.variance[0] > 0.0 else 0.0
        return np.array([-2.0 * log_ratio, mean, float(null.degrees[0])])


def _rows_with_own_means(data: MultiEnvironmentData, mask: Mask, kept: Mask, apart: Mask) -> MultiEnvironmentData:
    """As `with_own_means`, of the columns of a subset (p,)."""
    chosen = kept[data.environment_index]
    place = data.environment_index[chosen]
    own: Floats = (place[:, None] == np.flatnonzero(apart)).astype(float)
    names = data.features.chosen(mask).columns
    return MultiEnvironmentData(
        X=np.column_stack([data.X[np.ix_(chosen, data.features.expand(mask))], own]),
        y=data.y[chosen],
        environment_index=(np.cumsum(kept) - 1)[place],
        feature_names=(*names, *own_mean_names(apart, (*names, data.outcome_name))),
        environments=tuple(label for label, flag in zip(data.environments, kept, strict=True) if flag),
        outcome_name=data.outcome_name,
    )


ALARM = 0.05


class Broken(NamedTuple):
    """The environment that deviates most from all others, with the p-value and the part ("intercept", "slopes", …)
    that does. Of two environments neither is the one that deviates: environment is None."""

    environment: Hashable | None
    p_value: float
    part: str


@dataclass(frozen=True, eq=False)
class Compared:
    """model : by whose fits environments are compared: the one that was asked for or, where that is linear, the linear
    Gaussian model of the same data"""

    model: GaussianModel | RegressionModel
    asked: BoundModel

    @classmethod
    def of(cls, model: BoundModel) -> Compared | None:
        """None where the model is none of these."""
        linear = model.by_least_squares
        if linear is not None:
            return cls(linear, model)
        return cls(model, model) if isinstance(model, RegressionModel) else None

    @cached_property
    def moments(self) -> Moments:
        """Second moments of the features and the outcome."""
        return Moments.from_data(self.model.data) if isinstance(self.model, RegressionModel) else self.model.moments

    @property
    def rows(self) -> MultiEnvironmentData | None:
        return self.model.rows

    @property
    def n_environments(self) -> int:
        return self.model.describe().n_environments

    def tests(self, mask: Mask) -> Tests:
        """Of a subset (p,), in what the model compares environments."""
        if isinstance(self.model, RegressionModel):
            return RegressionTests(self.model, mask)
        compared = self.asked.compared_by(mask)
        assert compared is not None
        if VARIANCE not in self.asked.compares:
            return MeanTests(*compared)
        return SubsetTests(*compared)


@dataclass(frozen=True, eq=False)
class ComparedEnvironments:
    """Each environment against the others, for one subset.

    subset : names; tests : one for each environment; parts : in what environments are compared
    """

    subset: tuple[str, ...]
    outcome_name: str
    tests: tuple[EnvironmentTest, ...]
    parts: tuple[str, ...]

    @property
    def n_environments(self) -> int:
        return len(self.tests)

    @property
    def threshold(self) -> float:
        """What the p-value of an environment must be below to raise an alarm: 0.05/E."""
        return ALARM / len(self.tests)


def compared_environments(model: BoundModel, mask: Mask) -> ComparedEnvironments:
    """Of a subset (p,)."""
    compared = comparable(model)
    subset = tuple(name for name, flag in zip(model.feature_names, mask, strict=True) if flag)
    return ComparedEnvironments(
        subset, model.describe().outcome_name, compared.tests(mask).each(), compared.asked.compares
    )


def comparable(model: BoundModel) -> Compared:
    """Raise where there is nothing to compare."""
    compared = Compared.of(model)
    if compared is None:
        raise SettingError(f"a {type(model).__name__} has no tests of environments", use(family="linear_gaussian"))
    if compared.n_environments < 2:
        raise SettingError("there is one environment: add rows of another one to compare it with.")
    return compared


def where_it_breaks(model: BoundModel, chosen: Mask, feature: int) -> Broken | None:
    """The environment that deviates most, given the subset (p,) with a feature added; None with one environment, fits
    that cannot be decided, or a model without tests of environments."""
    compared = Compared.of(model)
    if compared is None or compared.n_environments < 2:
        return None
    joined = chosen.copy()
    joined[feature] = True
    return most_deviating(compared.tests(joined).each())


def most_deviating(tests: tuple[EnvironmentTest, ...]) -> Broken | None:
    """By the smallest p-value and, where several are 0 in float64, by the largest T."""
    decided = [(test.environment, test.deviation) for test in tests if test.deviation is not None]
    if not decided:
        return None
    label, worst = min(decided, key=lambda pair: (pair[1].p_value, -pair[1].deviance))
    return Broken(label if len(tests) > 2 else None, worst.p_value, worst.worst_part)
