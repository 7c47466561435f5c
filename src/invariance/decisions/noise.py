"""Checks of the residuals of each environment's own fit of a subset: tails, and spreads that differ."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from .._tools.arrays import Floats, Mask
from .._tools.text import format_subset, in_quotes
from ..exceptions import Message, use
from ..models.base import BoundModel
from ..models.gaussian import GaussianModel
from ..models.invariance_test import Tolerance
from ..models.random_deviations import GaussianRandomDeviations

# Tails that matter: so much excess kurtosis, and so many standard errors above 0.
_HEAVY, _ERRORS = 1.0, 4.0
# A spread that depends on features: so surely, and by such a share of how squared residuals vary.
_SURE, _SHARE = 1e-3, 0.02
# Share of a sum of squares that is no more than rounding.
_ROUNDING = 1e-13


class Shape(NamedTuple):
    """excess_kurtosis of the residuals, 0 of normal noise; share_explained: what the columns of the subset and their
    squares explain of the squared residuals; p_even: the p-value that this is chance (Koenker's test)."""

    excess_kurtosis: float
    share_explained: float
    p_even: float


@dataclass(frozen=True)
class NoiseChecks:
    """selected : names; shape : of the residuals in units of their environment, None without the rows
    deviations : {environment: standard deviation}; p_spread, p_mean : p-values for approximate invariance of the
        noise's scale, NaN where that is not compared, and of the coefficients; level : they must reach
    mends : whether a model of the mean alone could be fitted
    """

    selected: tuple[str, ...]
    n_rows: int
    shape: Shape | None
    deviations: Mapping[Hashable, float]
    p_spread: float
    p_mean: float
    level: float
    mends: bool = True

    @property
    def heavy_tails(self) -> bool:
        return self.shape is not None and self.shape.excess_kurtosis > max(_HEAVY, _ERRORS * (24 / self.n_rows) ** 0.5)

    @property
    def sentence(self) -> str | None:
        """What was found, and what to choose; None where it does not matter."""
        found, spread_compared = [], not np.isnan(self.p_spread)
        if self.shape is not None and self.heavy_tails and spread_compared:
            found.append(f"have heavy tails (excess kurtosis {self.shape.excess_kurtosis:.1f})")
        if self.shape is not None and self.shape.p_even < _SURE and self.shape.share_explained > _SHARE:
            found.append(f"spread unequally over the values of {format_subset(self.selected, 60)}")
        # It is the noise's scale that speaks against the subset, and not its coefficients.
        if self.p_spread < self.level <= self.p_mean:
            ordered = sorted(self.deviations.items(), key=lambda item: item[1])
            ends = (f"{value:.3g} in {in_quotes(label)}" for label, value in (ordered[0], ordered[-1]))
            found.append(f"spread unequally between environments (standard deviation {', '.join(ends)})")
        if not found:
            return None
        told = f"the residuals {' and '.join(found)}"
        mended = spread_compared and self.mends
        return Message(told, use(family="linear_gaussian_mean")) if mended else f"{told}: p-values may be too small."

    def to_plain(self) -> dict[str, Any]:
        return {
            "excess_kurtosis": None if self.shape is None else self.shape.excess_kurtosis,
            "p_even": None if self.shape is None else self.shape.p_even,
            "standard_deviations": {str(label): value for label, value in self.deviations.items()},
            "sentence": self.sentence,
        }


def noise_checks(model: BoundModel, mask: Mask, tolerance: Tolerance) -> NoiseChecks | None:
    """Of a subset (p,) under a linear model by least squares; None for others, for random deviations, with one
    environment, and where the subset cannot be fitted. Curves have none: no model of the mean alone is at hand that
    would keep them."""
    linear = None if model.makes_curves or isinstance(model, GaussianRandomDeviations) else model.by_least_squares
    if linear is None or linear.moments.n_environments < 2 or not linear.log_ratio_many(mask[None])[0] > -np.inf:
        return None
    fits, test = linear.residuals(mask[None]), linear.invariance_test(mask[None], tolerance)
    deviations = np.sqrt(fits.rss[0, :-1] / fits.freedom[0, :-1])
    return NoiseChecks(
        selected=linear.features.chosen(mask).names,
        n_rows=linear.n_rows,
        shape=_shape(linear, mask),
        deviations=dict(zip(linear.moments.environments, deviations.tolist(), strict=True)),
        p_spread=float(test.spread[0]),
        p_mean=float(test.mean[0]),
        level=tolerance.lowest_level,
        mends=linear.data is None or linear.data.design is None,
    )


def _shape(model: GaussianModel, mask: Mask) -> Shape | None:
    """From sums over centred columns and standardised residuals; None without rows or fourth moments of them."""
    fit, data, fourths = model.fit(mask), model.data, model.fourths
    slopes = np.nan_to_num(fit.local_coefficients)
    sums = np.zeros((2 * slopes.shape[1] + 2,) * 2)
    if data is not None:
        for e in range(data.n_environments):
            rows = data.rows(e)
            columns, y = data.X[rows][:, data.features.expand(mask)], data.y[rows]
            missed = y - fit.local_intercepts[e] - columns @ slopes[e]
            columns = columns - columns.mean(axis=0)
            each = np.column_stack([np.ones(len(rows)), columns, columns**2, missed**2 / np.mean(missed**2)])
            sums += each.T @ each
        return _koenker(sums)
    names = *model.features.chosen(mask).columns, model.moments.outcome_name
    places = None if fourths is None else fourths.places(names)
    if fourths is None or places is None:
        return None
    units = np.eye(len(fourths.columns))
    for e, own in enumerate(slopes):
        functions = fourths.functions(e)
        squared = functions.square(np.append(-own, 1.0) @ units[places])
        n, total = functions.sums([functions.one, squared])[0]
        squared *= n / total
        linear, squares = (map(make, units[places[:-1]]) for make in (functions.linear, functions.square))
        sums += functions.sums([functions.one, *linear, *squares, squared])
    return _koenker(sums)


def _koenker(sums: Floats) -> Shape:
    """From sums of products (k + 2, k + 2) of 1, k columns, and squared residuals."""
    n_rows = sums[0, 0]
    products, squares = (sums - np.outer(sums[0], sums[0]) / n_rows)[1:, 1:], np.diagonal(sums)[1:]
    spread = np.sqrt(np.maximum(np.diagonal(products), 0.0))
    varying = np.flatnonzero(spread[:-1] > _ROUNDING * np.sqrt(squares[:-1]))
    share, degrees = 0.0, 1
    if len(varying):
        gram = products[np.ix_(varying, varying)] / np.outer(spread[varying], spread[varying])
        cross = products[varying, -1] / spread[varying]
        values, vectors = np.linalg.eigh(gram)
        kept = values > _ROUNDING * values[-1]
        along = vectors[:, kept].T @ cross
        share, degrees = float(along**2 @ (1.0 / values[kept]) / products[-1, -1]), int(kept.sum())
    return Shape(float(sums[-1, -1] / n_rows) - 3.0, share, float(chi2.sf(n_rows * share, degrees)))
