"""Additive models: natural cubic splines in place of straight lines.

The conditional g of the paper's equation 6 (Wu et al. 2025, arXiv:2506.22675) is
Normal(b + Σ_j f_j(x_j), σ²) over the features j of z.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Floats, Integers, Mask
from ..data.basis import FEWEST_KNOTS, Numbers, Spline, SplineBasis, Term
from ..data.checks import largest_size
from ..data.encoding import Encoding, check_names
from ..data.features import Features, Subset, as_lists, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..kernels.additive import component_overlaps, component_shares
from ..kernels.cholesky import settle
from ..moments.least_squares import (
    DEPENDENT,
    LeastSquares,
    independent_columns,
    least_squares,
    unit_rows,
)
from ..moments.moments import Moments, rest_moments
from .base import (
    PIVOT_TOLERANCE,
    BoundModel,
    EnvironmentData,
    Fit,
    Level,
    Null,
    StandardErrors,
    check_choice,
    check_whole_number,
    in_parts,
    rows_for,
)
from .gaussian import GaussianFromMoments, GaussianModel, MomentModel, null_of_ranks
from .gaussian_fits import group_weights, inverse_scales, row_groups
from .invariance_test import Residuals


class AllCoefficients(GaussianFromMoments):
    """Every coefficient of every curve may differ between environments: the linear Gaussian model
    of the columns."""

    kind = "additive, compared by all coefficients"
    makes_curves = True


class AdditiveModel(MomentModel):
    """Outcome ~ Normal(intercept + one component for each feature of z, variance). Components,
    combinations of columns, are fitted to all rows; in each environment the intercept, a slope on
    each of them and the variance may differ."""

    name = "additive, compared by shape"
    makes_curves = True
    data: MultiEnvironmentData

    @property
    def lower_levels(self) -> tuple[Level, ...]:
        return (Level.effects,) if self.n_environments > 1 else ()

    def at_level(self, level: Level) -> BoundModel:
        from .free_baselines import FreeBaselineAdditive

        return FreeBaselineAdditive(self) if level in self.lower_levels else super().at_level(level)

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        return self._log_ratios(self._fits(as_masks(masks, self.n_features))[0])

    def gain_many(self, masks: ArrayLike) -> Floats:
        return self.linear.gain_many(masks)

    def null_many(self, masks: ArrayLike) -> Null:
        """Return the distribution for linear Gaussian fits with the degrees of freedom of
        `residuals`."""
        return null_of_ranks(
            self.moments.group_counts, self.residuals(as_masks(masks, self.n_features)).ranks
        )

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        """Local coefficients are the pooled ones, those of each feature times its slope in the
        environment."""
        mask = as_mask(subset, self.feature_names)
        pooled = self.linear.fit(mask, local=False)
        if not local:
            return pooled
        components, chosen = self.compared_by(mask)
        fit = components.fit(chosen)
        columns = self.moments.feature_columns[self.features.expand(mask)]
        slopes = np.repeat(
            np.nan_to_num(fit.local_coefficients), self.features.widths[mask], axis=1
        )
        coefficients = slopes * pooled.coefficients
        # Components are centred over all rows.
        intercepts = fit.local_intercepts - coefficients @ self.moments.pooled_mean[columns]
        coefficients[~self.moments.varies[:-1, columns]] = np.nan
        return replace(pooled, local_coefficients=coefficients, local_intercepts=intercepts)

    def residuals(self, masks: Mask) -> Residuals:
        """Ranks are degrees of freedom: an environment's slopes on the components, and its part in
        the rest."""
        rss, ranks, by_moments = self._fits(masks)
        taken = ranks.astype(float)
        taken[:, :-1] += self._bending(masks, ranks, by_moments)
        y = self.moments.outcome
        return Residuals(
            rss, taken, self.moments.group_counts, float(self.moments.scatter[-1, y, y])
        )

    def without(self, environment: Hashable) -> AdditiveModel:
        others = [label for label in self.data.environments if label != environment]
        return AdditiveModel(self.data.choosing(others), self.n_jobs)

    def rests(self, masks: Mask) -> Residuals:
        """The bends of the curves, which are those of all rows, are shared by an environment and
        the rest."""
        moments, grams = self._rests
        varies = np.logical_or.reduceat(
            moments.varies[:-1, moments.feature_columns], self.features.starts[:-1], axis=1
        )
        shares = np.empty((len(masks), len(grams)))
        ranks = np.empty((len(masks), len(grams)), np.int64)
        given = grams, self.features.starts, varies, PIVOT_TOLERANCE
        component_shares(*given, *as_lists(masks), shares, ranks)
        _, own, by_moments = self._fits(masks)
        bending = self._bending(masks, own, by_moments)
        rss = shares[:, :-1] * moments.scatter[:-1, moments.outcome, moments.outcome]
        taken = ranks[:, :-1] + bending.sum(axis=1, keepdims=True) - bending
        return Residuals(rss, taken, moments.counts.astype(float), np.nan)

    def standard_errors(self, subset: Subset) -> StandardErrors:
        """Return standard errors of local coefficients, given the shapes of the curves.

        They are those of the slopes on the curves.
        """
        mask = as_mask(subset, self.feature_names)
        pooled = self.linear.standard_errors(mask)
        components, chosen = self.compared_by(mask)
        slopes = components.standard_errors(chosen)
        pooled_fit = self.linear.fit(mask, local=False)
        local = np.repeat(slopes.values[:-1], self.features.widths[mask], axis=1) * np.abs(
            pooled_fit.coefficients
        )
        local[:, np.isnan(pooled.values[-1])] = np.nan
        freedom = np.append(slopes.freedom[:-1], pooled.freedom[-1])
        return StandardErrors(np.vstack([local, pooled.values[-1:]]), freedom)

    def compared_by(self, mask: Mask) -> tuple[GaussianModel, Mask]:
        """That of the components, each of which is a column there."""
        features = self.features.chosen(mask)
        if not features.n_features:
            return self.linear, np.zeros(self.linear.n_features, dtype=bool)
        kept = replace(self.data.narrowed(mask), X=self._pooled(mask)[1], grouping=None)
        return GaussianFromMoments(kept, self.n_jobs), np.ones(features.n_features, dtype=bool)

    @property
    def largest_size(self) -> int:
        pooled = largest_size([self.moments.n_rows], self.moments.varying_widths[-1:])
        return min(largest_size(self.moments.counts, self._varies), pooled)

    @property
    def steps_per_subset(self) -> int:
        half = 0.5 * self.features.n_columns
        return int(np.ceil(20 + 0.5 * half**2 * self.moments.n_environments + 0.1 * half**3))

    def rescore(self, masks: ArrayLike) -> Floats:
        """Return log Λ (S,) by orthogonalising the centred, scaled rows."""
        fits = [self._by_rows(mask) for mask in as_masks(masks, self.n_features)]
        return self._log_ratios(np.array([rss for rss, _ in fits]))

    def too_few_rows(self, masks: Mask) -> Mask:
        return np.asarray(self._fits(masks)[1] + 2 > self.moments.group_counts)

    @cached_property
    def _varies(self) -> Mask:
        """Return whether some column of a feature varies in each environment, (E, p)."""
        columns = self.moments.varies[:-1, self.moments.feature_columns]
        return np.logical_or.reduceat(columns, self.features.starts[:-1], axis=1)

    @cached_property
    def _spanning(self) -> Floats:
        """Return columns (N, q) orthogonal within each feature over all rows.

        Curves are nearly collinear.
        """
        spanning = np.zeros_like(self.data.X)
        for j, start in enumerate(self.features.starts[:-1]):
            own = self.data.X[:, start : self.features.starts[j + 1]]
            kept = np.flatnonzero(independent_columns(own))
            spanning[:, start + kept] = np.linalg.qr(unit_rows(own[:, kept])[0].T)[0]
        return spanning

    @cached_property
    def _spanning_moments(self) -> Moments:
        return Moments.from_data(replace(self.data, X=self._spanning))

    @cached_property
    def _grams(self) -> Floats:
        """Return second moments (E + 1, q + 1, q + 1) of the spanning columns and, last, the
        outcome.

        They are in pooled units.
        """
        return self._in_pooled_units(self._spanning_moments.scatter)

    @cached_property
    def _rests(self) -> tuple[Moments, Floats]:
        """Return moments of the spanning columns and `_grams`, of rows outside each environment and
        of all."""
        moments = rest_moments(self._spanning_moments)
        pooled = self._spanning_moments.scatter[-1:]
        return moments, self._in_pooled_units(np.concatenate([moments.scatter[:-1], pooled]))

    @staticmethod
    def _in_pooled_units(scatter: Floats) -> Floats:
        scale = inverse_scales(np.diagonal(scatter[-1]), np.diagonal(scatter[-1]) > 0.0)
        return np.ascontiguousarray(scatter * scale[:, None] * scale)

    def _fits(self, masks: Mask) -> tuple[Floats, Integers, Mask]:
        """Return residual sums of squares and ranks (S, G), and whether second moments could decide
        (S,).

        They are of the components in environments and of the columns in the pool; NaN outside the
        support.
        """
        shape = (len(masks), len(self.moments.group_counts))
        counts = self.moments.group_counts
        shares = np.empty(shape)
        ranks = np.empty(shape, np.int64)

        def share(part: slice) -> None:
            given = self._grams, self.features.starts, self._varies, PIVOT_TOLERANCE
            component_shares(*given, *as_lists(masks[part]), shares[part], ranks[part])

        in_parts(len(masks), self.n_jobs, share, fewest=64)
        rss = shares * self.moments.scatter[:, self.moments.outcome, self.moments.outcome]
        by_moments = np.asarray(~np.isnan(rss).any(axis=1))
        for s in np.flatnonzero(~by_moments):
            rss[s], ranks[s] = self._by_rows(masks[s])
        rss[(counts < ranks + 2).any(axis=1)] = np.nan
        return rss, ranks, by_moments

    def _bending(self, masks: Mask, ranks: Integers, decided: Mask) -> Floats:
        """Return degrees of freedom (S, E) of the pooled fit beyond slopes.

        In proportion to the residual ones if rows decide.
        """
        free = np.maximum(self.moments.counts - 1.0 - ranks[:, :-1], 1.0)
        rest = np.maximum(ranks[:, -1] - masks.sum(axis=1), 0)
        bending = (rest / free.sum(axis=1))[:, None] * free
        bending[decided] = component_overlaps(
            self._grams, self.features.starts, self._varies, masks[decided]
        )
        return bending

    def _by_rows(self, mask: Mask) -> tuple[Floats, Integers]:
        """Return residual sums of squares (G,) and ranks of one subset (p,).

        NaN if there is no residual or rows are too few.
        """
        y, (pooled, components) = self.data.y, self._pooled(mask)
        groups = row_groups(self.data)[:-1]
        fits = [*(least_squares(components[rows], y[rows]) for rows in groups), pooled]
        rss = np.array([fit.rss for fit in fits])
        ranks = np.array([fit.rank for fit in fits])
        scatter = self.moments.scatter[:, self.moments.outcome, self.moments.outcome]
        impossible = (rss < DEPENDENT * scatter) | (self.moments.group_counts < ranks + 2)
        return np.where(impossible, np.nan, rss), ranks

    def _pooled(self, mask: Mask) -> tuple[LeastSquares, Floats]:
        """The fit of a subset (p,) to all rows, and what each of its features contributes to it (N,
        |z|), centred"""
        columns = self._spanning[:, self.features.expand(mask)]
        fit = least_squares(columns, self.data.y)
        parts = columns * fit.coefficients
        if not mask.any():
            return fit, parts
        components = np.add.reduceat(parts, self.features.chosen(mask).starts[:-1], axis=1)
        # To the last bit the same where a feature is.
        for e in range(self.data.n_environments):
            rows = self.data.rows(e)
            constant = np.flatnonzero(~self._varies[e, mask])
            components[np.ix_(rows, constant)] = components[rows[0], constant]
        return fit, components

    def _log_ratios(self, rss: Floats) -> Floats:
        """Return log Λ (S,) from residual sums of squares (S, G)."""
        counts = self.moments.group_counts
        weights = group_weights(self.moments.group_counts)
        with np.errstate(invalid="ignore"):
            # No product of matrices: its rows round together.
            log_ratios = (np.log(rss / counts) * weights).sum(axis=1)
        settle(log_ratios, weights)
        return np.where(np.isnan(log_ratios), -np.inf, log_ratios)


# A column that takes fewer values is a code or a scale with steps, and stays as it is.
FEWEST_VALUES = 10


def with_curves(data: MultiEnvironmentData, knots: int) -> MultiEnvironmentData:
    """The same rows with a natural cubic spline for each feature that is one column of numbers with
    at least `FEWEST_VALUES` values, with fewer knots where many rows share theirs. All other
    features stay as they are."""
    given = dict(zip(data.features.columns, data.X.T, strict=True))
    before = _encoding_of(data)
    columns: dict[str, Floats] = {}
    widths: dict[str, int] = {}
    members: list[tuple[str, tuple[Term, ...]]] = []
    for name, terms in before.members:
        curve = _curve(terms, given, knots)
        if curve is None:
            made = {
                column: given[column] for term in terms for column in term.names if column in given
            }
        else:
            made = dict(zip(curve.names, curve.encode(given[curve.column]).T, strict=True))
        members.append((name, terms if curve is None else (curve,)))
        if made:
            widths[name] = len(made)
            columns |= made
    encoding = replace(before, members=tuple(members))
    check_names(
        encoding, [name for name in (data.outcome_name, data.environment_name) if name is not None]
    )
    grouping = Features(
        tuple(widths), tuple(columns), np.array(list(widths.values()), dtype=np.int64)
    )
    return replace(
        data, X=np.column_stack(list(columns.values())), grouping=grouping, encoding=encoding
    )


def _encoding_of(data: MultiEnvironmentData) -> Encoding:
    if data.encoding is not None:
        return data.encoding
    plain = data.grouping is None
    names = data.names_as_given if plain else data.feature_names
    groups = data.features.groups
    members = tuple((name, tuple(map(Numbers, groups.get(name, (name,))))) for name in names)
    return Encoding(names if plain else data.features.columns, members)


def _curve(terms: tuple[Term, ...], given: Mapping[str, Floats], knots: int) -> SplineBasis | None:
    """That of a single column of many values."""
    match terms:
        case (Numbers(column),) if (
            column in given and len(np.unique(given[column])) >= FEWEST_VALUES
        ):
            return Spline(column, knots).possible(given[column])
    return None


@dataclass(frozen=True)
class Additive:
    """Model a number as normal with a smooth curve for each numeric feature.

    The mean is b + Σ_j f_j(x_j) over the features j of z, with natural cubic splines f_j fitted by
    maximum likelihood.

    Parameters
    ----------
    knots : int, default=6
        Knots of each spline, at quantiles of all rows; each feature has knots − 1 columns. Features
        with fewer than ten values, levels and groups of columns stay linear. None: all features
        stay as they are, and the groups of the data are compared.
    comparison : {"shape", "all"}, default="shape"
        "shape" fits the curves to all rows; in each environment the intercept, one slope on the
        curve of each feature and the variance may differ. With "all" every coefficient may, which
        requires many more rows.

    Raises
    ------
    SettingError
        If a value is unknown or there are fewer than three knots.

    References
    ----------
    Hastie, T. and Tibshirani, R. (1986), Generalized additive models, Statistical Science 1,
    297-310, doi:10.1214/ss/1177013604.

    Examples
    --------
    >>> from invariance import Additive, BIP
    >>> from invariance.datasets import make_example
    >>> BIP(Additive(knots=4)).fit(make_example()).selected_features_
    ('age', 'exercise', 'smoking')
    """

    knots: int | None = 6
    comparison: Literal["shape", "all"] = "shape"

    kind: ClassVar[str] = "number"
    link: ClassVar[str] = "identity"

    def __post_init__(self) -> None:
        check_choice(self, "comparison", ("shape", "all"))
        if self.knots is not None:
            check_whole_number(self, "knots", FEWEST_KNOTS, 6)

    def with_splines(self, data: EnvironmentData) -> tuple[Additive, MultiEnvironmentData]:
        """The data with curves in the place of columns, and the specification that takes them as
        they are."""
        rows = rows_for("additive", data)
        return (
            (self, rows)
            if self.knots is None
            else (replace(self, knots=None), with_curves(rows, int(self.knots)))
        )

    def bind(self, data: EnvironmentData, n_jobs: int | None = None) -> BoundModel:
        """Tie the model to rows."""
        _, curved = self.with_splines(data)
        return (
            AdditiveModel(curved, n_jobs)
            if self.comparison == "shape"
            else AllCoefficients(curved, n_jobs)
        )
