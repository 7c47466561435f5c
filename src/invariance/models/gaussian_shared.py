"""What the Gaussian models share: their columns, and how log Λ scatters for an invariant subset."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma, polygamma

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import n_workers, ordered_map
from ..data.features import Features, Subset, as_lists, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.active_set import Scoring
from ..kernels.dispatch import residual_powers, subset_slopes
from ..moments.fourth_moments import FourthMoments
from ..moments.least_squares import Fit, distance, gaps_between, least_squares, least_squares_of_root, root_of
from ..moments.moments import Moments
from .base import PIVOT_TOLERANCE, BoundModel, Description, Null
from .gaussian_fit import StandardErrors, errors_from_moments, errors_from_roots, errors_from_rows
from .invariance_test import InvarianceTest, Residuals, Tolerance, invariance_test

_FEWEST_PER_THREAD = 64


def excess_kurtosis(
    data: MultiEnvironmentData, used: Integers, within: Floats, masks: Mask, n_jobs: int | None = None
) -> Floats:
    """(S,) of the residuals with common slopes and own intercepts of subsets (S, k) of the columns `used` (k,).

    within (k+1, k+1): sum over environments of the centred products of these and, last, the outcome.
    """
    columns = _centred(data, used, np.sqrt(within[-1, -1] / data.n_rows))
    chosen = masks & (np.diagonal(within)[:-1] > 0.0)
    squares, fourths = np.empty((2, len(masks)))
    pieces = min(n_workers(n_jobs), max(1, len(masks) // _FEWEST_PER_THREAD))
    bounds = np.linspace(0, len(masks), pieces + 1).astype(int)

    def by_rows(own: Integers) -> Fit:
        return least_squares(columns[own].T, columns[-1])

    def one(piece: int) -> None:
        part = slice(bounds[piece], bounds[piece + 1])
        starts, members = as_lists(chosen[part])
        slopes = _slopes(within, np.sqrt(data.n_rows), starts, members, by_rows)
        residual_powers(columns, slopes, starts, members, squares[part], fourths[part])

    for _ in ordered_map(one, range(pieces), pieces):
        pass
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = data.n_rows * fourths / squares**2 - 3.0
    return np.where(squares > 0.0, excess, 0.0)


def kurtosis_from_fourths(
    moments: Moments, fourths: FourthMoments, used: Integers, within: Floats, masks: Mask
) -> Floats:
    """The same from sums of fourth powers; 0 for subsets that hold columns of which these are not known."""
    excess = np.zeros(len(masks))
    names = np.array(moments.columns, dtype=object)
    known = np.isin(names[moments.feature_columns[used]], fourths.columns)
    told = np.flatnonzero(~masks[:, ~known].any(axis=1))
    places = fourths.places((*names[moments.feature_columns[used[known]]], moments.outcome_name))
    if places is None or not len(told):
        return excess
    kept = np.append(np.flatnonzero(known), len(used))
    products, chosen = within[np.ix_(kept, kept)], masks[np.ix_(told, known)]
    # The coordinates of all environments together leave the same residuals as the rows less their means.
    columns = fourths.coordinates[:, :, places].reshape(-1, len(places)).T
    starts, members = as_lists(chosen & (np.diagonal(products)[:-1] > 0.0))

    def by_rows(own: Integers) -> Fit:
        root = columns[np.append(own, len(columns) - 1)].T
        return least_squares_of_root(root, np.zeros(root.shape[1]))

    slopes = _slopes(products, np.sqrt(products[-1, -1]), starts, members, by_rows)
    weights = np.zeros((len(told), len(fourths.columns)))
    weights[:, places] = np.column_stack([-slopes, np.ones(len(told))])
    squares, fourth = fourths.power_sums(weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess[told] = np.where(squares > 0.0, moments.n_rows * fourth / squares**2 - 3.0, 0.0)
    return excess


def _centred(data: MultiEnvironmentData, used: Integers, unit: float) -> Floats:
    """(k+1, N) the columns and, last, the outcome in this unit, less their means in each environment"""
    centred = np.empty((len(used) + 1, data.n_rows))
    start = 0
    for e in range(data.n_environments):
        rows = data.rows(e)
        part = centred[:, start : start + len(rows)]
        part[:-1], part[-1] = data.X[np.ix_(rows, used)].T, data.y[rows] / unit
        part -= part.mean(axis=1, keepdims=True)
        start += len(rows)
    return centred


def _slopes(
    within: Floats, length: float, starts: Integers, members: Integers, by_rows: Callable[[Integers], Fit]
) -> Floats:
    """(S, k) least squares slopes of the last of k + 1 columns, of this length in the units of the slopes, on those of
    each subset, 0 for the others: from their products `within` where these can tell, else by the rows."""
    diagonal = np.diagonal(within)
    scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
    gram = within * scale[:, None] * scale
    slopes = np.zeros((len(starts) - 1, len(within) - 1))
    subset_slopes(gram, PIVOT_TOLERANCE, starts, members, slopes)
    unknown = np.flatnonzero(np.isnan(slopes).any(axis=1))
    slopes *= scale[:-1] * length
    for s in unknown:
        columns = members[starts[s] : starts[s + 1]]
        slopes[s, columns] = by_rows(columns).coefficients
    return slopes


_AT_ONCE = 512


def random_effects_risk(moments: Moments, masks: Mask, rss: Floats, freedom: Floats) -> Floats:
    """(S,) expected squared error in a new environment, s²_pool + (1 + 1/E) · tr(T₊ M̄), of subsets given by columns
    (S, q): T is how the coefficients of (1, x − x̄) scatter between environments beyond their own errors, M̄ the pooled
    second moment of these.

    rss, freedom (S, G): of the fits. Environments in which some column is constant say nothing about its coefficient
    and are left out; inf where fewer than two remain, or where columns nearly depend on each other there.
    """
    absent = ~moments.present[:-1, moments.feature_columns]
    telling = (masks.astype(np.int64) @ absent.T.astype(np.int64) == 0) & (freedom[:, :-1] > 0.0)
    possible = (telling.sum(axis=1) >= 2) & (freedom[:, -1] > 0.0) & ~np.isnan(rss).any(axis=1)
    risks = np.full(len(masks), np.inf)
    keys = np.column_stack([masks.sum(axis=1), telling])
    for key in np.unique(keys[possible], axis=0):
        alike = np.flatnonzero(possible & (keys == key).all(axis=1))
        for rows in np.array_split(alike, -(-len(alike) // _AT_ONCE)):
            members = np.nonzero(masks[rows])[1].reshape(len(rows), int(key[0]))
            columns = moments.feature_columns[members]
            noise = rss[rows] / freedom[rows]
            risks[rows] = noise[:, -1] + _between(moments, columns, key[1:].astype(bool), noise[:, :-1])
    return risks


def _between(moments: Moments, columns: NDArray[np.intp], telling: Mask, noise: Floats) -> Floats:
    """(S,) (1 + 1/E) · tr(T₊ M̄) of columns (S, k), from the environments that are telling; noise (S, E): variances"""
    counts, n, k = moments.counts[telling].astype(float), int(telling.sum()), columns.shape[1]
    # Columns are measured in units of their pooled spread, so that products neither overflow nor lose a column.
    unit = np.sqrt(np.diagonal(moments.scatter[-1]) / moments.n_rows)[columns]
    gaps = moments.gaps[telling]
    shifts = gaps[:, columns].swapaxes(0, 1) / unit[:, None]
    pairs = columns[:, :, None], columns[:, None, :]
    units = unit[:, :, None] * unit[:, None, :]
    local = moments.scatter[:-1][telling]
    scatter = local[:, *pairs].swapaxes(0, 1) / units[:, None]
    cross = local[:, columns, moments.outcome].swapaxes(0, 1) / unit[:, None]
    own = np.sqrt(np.einsum("seii->sei", scatter))
    independent = np.linalg.eigvalsh(scatter / (own[:, :, :, None] * own[:, :, None, :])).min(axis=(1, 2), initial=1.0)
    slopes = np.einsum("seij,sej->sei", np.linalg.pinv(scatter, hermitian=True) if k else scatter, cross)
    heights = gaps[:, moments.outcome] - np.einsum("sei,sei->se", shifts, slopes)
    coefficients = np.concatenate([heights[:, :, None], slopes], axis=2)
    apart = coefficients - coefficients.mean(axis=1, keepdims=True)
    scattered = np.einsum("sei,sej->sij", apart, apart) / (n - 1)
    products = np.empty((len(columns), n, k + 1, k + 1))
    products[:, :, 0, 0] = counts
    products[:, :, 0, 1:] = products[:, :, 1:, 0] = counts[:, None] * shifts
    products[:, :, 1:, 1:] = scatter + counts[:, None, None] * shifts[:, :, :, None] * shifts[:, :, None, :]
    inverse = np.linalg.pinv(products, hermitian=True)
    errors = np.einsum("se,seij->sij", noise[:, telling], inverse) / n
    weight = np.zeros((len(columns), k + 1, k + 1))
    weight[:, 0, 0] = 1.0
    weight[:, 1:, 1:] = moments.scatter[-1][pairs] / moments.n_rows / units
    values, vectors = np.linalg.eigh(weight)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
    between = np.linalg.eigvalsh(root.swapaxes(1, 2) @ (scattered - errors) @ root)
    risks = (1.0 + 1.0 / n) * np.maximum(between, 0.0).sum(axis=1)
    return np.where(independent < PIVOT_TOLERANCE, np.inf, risks)


def left_out_errors(moments: Moments, masks: Mask) -> Floats:
    """(S, E) sums of squared errors in each environment of the fit to the others, of subsets given by columns (S, q);
    NaN where second moments cannot tell, because columns nearly depend on each other."""
    used = moments.feature_columns[np.flatnonzero(masks.any(axis=0))]
    columns = np.append(used, moments.outcome)
    others = _OtherEnvironments.of(moments, columns)
    chosen = masks[:, masks.any(axis=0)]
    return np.array([others.errors(np.flatnonzero(mask)) for mask in chosen]).reshape(len(masks), -1)


def left_out_errors_from_rows(data: MultiEnvironmentData, chosen: Mask) -> Floats:
    """(E,) the same of one subset, given by its columns (q,), from the rows."""
    X, errors = data.X[:, chosen], np.empty(data.n_environments)
    for e in range(data.n_environments):
        own = data.environment_index == e
        fit = least_squares(X[~own], data.y[~own])
        errors[e] = np.sum((data.y[own] - fit.intercept - X[own] @ fit.coefficients) ** 2)
    return errors


def left_out_errors_from_roots(moments: Moments, roots: Floats, chosen: Mask) -> Floats:
    """The same from factors (E, m, d) of the rows."""
    used = np.append(moments.feature_columns[chosen], moments.outcome)
    errors, gaps = np.empty(moments.n_environments), _OtherEnvironments.of(moments, used).gaps
    for e in range(moments.n_environments):
        others = np.delete(np.arange(moments.n_environments), e)
        fit = least_squares_of_root(root_of(moments, roots, others, used), np.zeros(len(used)))
        weights = np.append(-fit.coefficients, 1.0)
        own = root_of(moments, roots, [e], used) @ weights
        errors[e] = own @ own + moments.counts[e] * (gaps[e] @ weights) ** 2
    return errors


class _OtherEnvironments:
    """scatter, others (E, d, d): centred products in each environment, and over all rows of the others; gaps (E, d):
    mean of the environment minus that of the others; the outcome is last."""

    def __init__(self, scatter: Floats, others: Floats, gaps: Floats, counts: Floats) -> None:
        self.scatter, self.others, self.gaps, self.counts = scatter, others, gaps, counts

    @classmethod
    def of(cls, moments: Moments, columns: NDArray[np.intp]) -> _OtherEnvironments:
        local = moments.scatter[:-1, columns[:, None], columns]
        counts, centre, remainder = moments.counts.astype(float), moments.centre[:, columns], moments.rest[:, columns]
        others, gaps = np.zeros_like(local), np.zeros_like(centre)
        for e in range(len(counts)):
            rest = np.arange(len(counts)) != e
            apart = gaps_between(counts[rest], centre[rest], remainder[rest])
            others[e] = local[rest].sum(axis=0) + (apart * counts[rest][:, None]).T @ apart
            first = int(np.argmax(rest))
            gaps[e] = distance(centre[e], remainder[e], centre[first], remainder[first]) + apart[0]
        return cls(local, others, gaps, counts)

    def errors(self, members: NDArray[np.intp]) -> Floats:
        """(E,) of the columns `members`"""
        outcome = self.others.shape[-1] - 1
        slopes = self._slopes(members, outcome)
        cross = self.scatter[:, members, outcome]
        own = np.einsum("ei,eij,ej->e", slopes, self.scatter[:, members[:, None], members], slopes)
        missed = self.gaps[:, outcome] - np.einsum("ei,ei->e", self.gaps[:, members], slopes)
        errors = self.scatter[:, outcome, outcome] - 2.0 * np.einsum("ei,ei->e", cross, slopes) + own
        return np.maximum(errors, 0.0) + self.counts * missed**2

    def _slopes(self, members: NDArray[np.intp], outcome: int) -> Floats:
        """(E, k) of the fit to the others; 0 for a column that is constant there"""
        grams = self.others[:, members[:, None], members]
        diagonal = np.einsum("eii->ei", grams)
        scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
        unit = grams * scale[:, :, None] * scale[:, None, :]
        unit += (scale == 0.0)[:, :, None] * np.eye(len(members))
        right = self.others[:, members, outcome] * scale
        if not len(members):
            return right
        if np.linalg.eigvalsh(unit).min() < PIVOT_TOLERANCE:
            return np.full(right.shape, np.nan)
        return np.asarray(np.linalg.solve(unit, right[:, :, None])[:, :, 0] * scale)


class GaussianModel(BoundModel):
    """Base of the models whose log Λ is that of linear Gaussian fits to `moments`; data: the rows, if at hand.

    prediction: the reward λ. What engines call log Λ is then log Λ + λ · (gain of the pooled fit over the empty one).
    """

    moments: Moments
    data: MultiEnvironmentData | None
    n_jobs: int | None
    prediction: float = 0.0
    name = "linear Gaussian"

    @abstractmethod
    def of(self, data: MultiEnvironmentData | Moments) -> GaussianModel:
        """The same model of other data, without a reward for prediction."""

    @property
    def features(self) -> Features:
        return self.moments.features

    @property
    def free_columns(self) -> Integers:
        """Fewer than there are columns where a level that the others are compared with does not occur."""
        return self.moments.varying_widths[-1]

    @property
    def by_least_squares(self) -> GaussianModel:
        return self

    @property
    def rows(self) -> MultiEnvironmentData | None:
        return self.data

    @property
    def has_rows(self) -> bool:
        """Whether the rows are at hand, or factors of them, which decide what second moments cannot."""
        return self.data is not None or self.roots is not None

    @property
    def roots(self) -> Floats | None:
        """(E, m, d) factors of the rows, where these were looked at beside the moments"""
        return None if self.moments.second is None else self.moments.second.roots

    @property
    def fourths(self) -> FourthMoments | None:
        """Sums of fourth powers, where the rows were looked at beside the moments"""
        return None if self.moments.second is None else self.moments.second.fourths

    @property
    def largest_size(self) -> int:
        return self.moments.largest_size

    def check_max_size(self, max_size: int) -> None:
        self.moments.check_max_size(max_size)

    def describe(self) -> Description:
        moments = self.moments
        name = self.name
        if self.prediction > 0.0:
            name = f"{name}, prediction rewarded by {self.prediction:g}"
        return Description(name, moments.outcome_name, moments.environments, moments.counts)

    @property
    def untilted(self) -> GaussianModel:
        # Not cached where it is the model itself: second moments would wait for the garbage collector.
        return self if self.prediction == 0.0 else self._without_reward

    @cached_property
    def _without_reward(self) -> GaussianModel:
        plain = copy(self)
        plain.prediction = 0.0
        return plain

    def rewarding(self, scoring: Scoring) -> Scoring:
        """The scoring of log Λ, with the reward for prediction in the weight of the pool."""
        if self.prediction == 0.0:
            return scoring
        weights = scoring.weights.copy()
        weights[-1] -= 0.5 * self.prediction * self.moments.n_rows
        return scoring._replace(weights=weights)

    def null_many(self, masks: ArrayLike) -> Null:
        """Under invariance RSS/σ² is chi-square in every environment and in the pool, and −2 log Λ is independent of
        the pooled RSS: its first two moments have no unknowns."""
        ranks = self.ranks(as_masks(masks, self.n_features))
        mean, variance = deviance_moments(self.moments.group_counts, ranks)
        known = variance > 0.0
        degrees = (ranks[:, :-1] + 2).sum(axis=1) - (ranks[:, -1] + 2)
        return Null(np.where(known, -0.5 * mean, -np.inf), 0.25 * variance, np.where(known, degrees, 0.0))

    @abstractmethod
    def residuals(self, masks: Mask) -> Residuals:
        """Residual sums of squares and ranks of the subsets (S, p) in every environment and in the pool."""

    def excess_kurtosis(self, masks: Mask) -> Floats:
        """(S,) of the residuals with common slopes and own intercepts of the subsets (S, p); 0 without the rows, or
        sums of fourth powers."""
        if self.data is None and self.fourths is None:
            return np.zeros(len(masks))
        chosen = self.features.expand(masks)
        used = np.flatnonzero(chosen.any(axis=0))
        columns = np.append(self.moments.feature_columns[used], self.moments.outcome)
        within = self.moments.scatter[:-1, columns[:, None], columns].sum(axis=0)
        if self.data is None:
            assert self.fourths is not None
            return kurtosis_from_fourths(self.moments, self.fourths, used, within, chosen[:, used])
        return excess_kurtosis(self.data, used, within, chosen[:, used], self.n_jobs)

    def invariance_test(self, masks: ArrayLike, tolerance: Tolerance) -> InvarianceTest:
        """By the F test of common coefficients and Bartlett's test of equal variances, corrected for heavy tails."""
        chosen = as_masks(masks, self.n_features)
        return invariance_test(self.residuals(chosen), tolerance, self.excess_kurtosis(chosen))

    def left_out_r2_many(self, masks: ArrayLike) -> Floats:
        chosen = as_masks(masks, self.n_features)
        if self.moments.n_environments < 2:
            return np.full(len(chosen), np.nan)
        total = self.moments.scatter[-1][self.moments.outcome, self.moments.outcome]
        columns = self.features.expand(chosen)
        errors = left_out_errors(self.moments, columns)
        for s in np.flatnonzero(np.isnan(errors).any(axis=1)):
            if self.data is not None:
                errors[s] = left_out_errors_from_rows(self.data, columns[s])
            elif self.roots is not None:
                errors[s] = left_out_errors_from_roots(self.moments, self.roots, columns[s])
        return 1.0 - errors.sum(axis=1) / total

    def random_effects_risk_many(self, masks: ArrayLike) -> Floats | None:
        chosen = as_masks(masks, self.n_features)
        fits = self.residuals(chosen)
        return random_effects_risk(self.moments, self.features.expand(chosen), fits.rss, fits.freedom)

    def standard_errors(self, subset: Subset) -> StandardErrors:
        columns = self.features.expand(as_mask(subset, self.feature_names))
        if self.data is not None:
            return errors_from_rows(self.data, columns)
        if self.roots is not None:
            return errors_from_roots(self.moments, self.roots, columns)
        return errors_from_moments(self.moments, columns)

    def ranks(self, masks: Mask) -> Integers:
        """(S, E + 1) ranks of the fits in each environment and in the pool.

        They are the numbers of columns that vary there, as in every subset that second moments can decide. Columns
        that are constant in every environment differ between E points only, and have rank E − 1 at most.
        """
        chosen = self.features.expand(masks)
        constant = ~self.moments.present[:, self.moments.feature_columns]
        partly = np.flatnonzero(constant.any(axis=0) & chosen.any(axis=0))
        settings = constant[:-1].all(axis=0) & ~constant[-1]
        ranks = chosen.sum(axis=1)[:, None] - chosen[:, partly].astype(np.int64) @ constant[:, partly].T
        ranks[:, -1] -= np.maximum(chosen[:, settings].sum(axis=1) - (self.moments.n_environments - 1), 0)
        return ranks


def deviance_moments(counts: Floats, ranks: Integers | Floats) -> tuple[Floats, Floats]:
    """Mean and variance (S,) of −2 log Λ of invariant subsets, from counts (G,) of rows and ranks (S, G) of the fits in
    each environment and, last, in the pool.

    Both are 0 where some fit has no degree of freedom left, and with one environment, whose log Λ is always 0.
    """
    freedom = counts - 1.0 - ranks
    estimable = (freedom > 0.0).all(axis=1) & (len(counts) > 2)
    halves = freedom[estimable] / 2.0
    signs = np.append(-np.ones(len(counts) - 1), 1.0)
    mean, variance = np.zeros((2, len(ranks)))
    mean[estimable] = (digamma(halves) + np.log(2.0 / counts)) @ (signs * counts)
    variance[estimable] = polygamma(1, halves) @ (-signs * counts**2)
    return mean, variance


def group_weights(counts: Floats) -> Floats:
    """(G,) log Λ = offset + Σ weights · log(residual share); with one environment everything cancels."""
    if len(counts) == 2:
        return np.zeros(2)
    return 0.5 * counts * np.append(np.ones(len(counts) - 1), -1.0)


def inverse_scales(diagonal: Floats, present: Mask) -> Floats:
    """(G, d) 1 / root of the sums of squares (G, d); 0 where a column is not present."""
    return np.where(present, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
