"""Coefficients of one subset with their intervals, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from .._tools.arrays import Floats, Mask
from ..conditionals.base import BoundConditional
from ..conditionals.regression_model import RegressionModel
from ..data.columns import free_name
from ..exceptions import SettingError
from ..moments.moments import Moments
from .environments import moments_of

if TYPE_CHECKING:
    import pandas as pd

CONSTANT, NOT_IDENTIFIED, TOO_FEW_ROWS = "constant", "not identified", "too few rows"
STANDS_FOR = "stands for "
# Shares of unit columns below this are rounding.
_NO_SHARE = 1e-5


def coefficient_table(model: BoundConditional, mask: Mask, coverage: float) -> pd.DataFrame:
    """Of the subset (p,): column, environment, estimate, lower, upper, note; the pooled fit comes first.

    NaN where a column is constant or adds nothing to the others, which the note tells; lower and upper also where the
    model does not know how sure it is. A coefficient may stand for a column that adds nothing too: the note says so.
    """
    import pandas as pd

    if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
        raise SettingError(f"coverage={coverage!r} is not possible: use a number between 0 and 1, such as 0.95.")
    fit, errors, labels = model.fit(mask), model.standard_errors(mask), model.describe().environments
    pooled = free_name("pooled", [label for label in labels if isinstance(label, str)])
    estimates = np.vstack([fit.coefficients, fit.local_coefficients])
    margins = np.full(estimates.shape, np.nan)
    freedom = np.full(len(estimates), np.nan)
    if errors is not None:
        pooled_first = [-1, *range(len(labels))]
        values, freedom = errors.values[pooled_first], errors.freedom[pooled_first]
        margins = t.ppf(0.5 + coverage / 2.0, np.where(freedom > 0.0, freedom, np.nan))[:, None] * values
        estimates = np.where(np.isnan(values), np.nan, estimates)
    return pd.DataFrame(
        {
            "column": [name for _ in estimates for name in fit.columns],
            "environment": pd.Series([label for label in (pooled, *labels) for _ in fit.columns], dtype=object),
            "estimate": estimates.ravel(),
            "lower": (estimates - margins).ravel(),
            "upper": (estimates + margins).ravel(),
            "note": pd.Series(list(_notes(fit.columns, estimates, freedom, _moments(model, mask))), dtype=object),
        }
    )


def _moments(model: BoundConditional, mask: Mask) -> Moments | None:
    """Of the columns of the subset; None where there are none or the model does not show its data."""
    if not mask.any():
        return None
    if isinstance(model, RegressionModel):
        return Moments.from_data(model.data.narrowed(mask))
    linear = model.by_least_squares
    return None if linear is None else moments_of(linear, mask)


def _pool_first(moments: Moments) -> tuple[Mask, Floats]:
    """Which of the k columns vary (E + 1, k), and their centred products (E + 1, k, k)."""
    columns, groups = moments.feature_columns, [-1, *range(moments.n_environments)]
    return moments.varies[groups][:, columns], moments.scatter[groups][:, columns[:, None], columns]


def _notes(columns: tuple[str, ...], estimates: Floats, freedom: Floats, moments: Moments | None) -> Iterator[str]:
    """One for each entry of estimates (E + 1, k), row by row."""
    if moments is None:
        yield from np.where(np.isnan(estimates), NOT_IDENTIFIED, "").ravel().tolist()
        return
    for values, left, varies, products in zip(estimates, freedom, *_pool_first(moments), strict=True):
        unknown = np.isnan(values)
        stands_for = _stands_for(products, np.flatnonzero(varies & ~unknown), np.flatnonzero(varies & unknown))
        for j in range(len(columns)):
            others = [columns[c] for c in stands_for.get(j, ())]
            if not unknown[j]:
                yield f"{STANDS_FOR}{', '.join(others)} too" if others else ""
            elif not varies[j]:
                yield CONSTANT
            else:
                yield TOO_FEW_ROWS if left <= 0.0 else NOT_IDENTIFIED


def _stands_for(products: Floats, known: NDArray[np.intp], given: NDArray[np.intp]) -> dict[int, list[int]]:
    """Of the known columns, those in which one that they give takes part: {known: [given, ...]}."""
    if not len(known) or not len(given):
        return {}
    scale = np.sqrt(np.diagonal(products))
    used = np.append(known, given)
    unit = products[np.ix_(used, used)] / np.outer(scale[used], scale[used])
    shares = np.linalg.lstsq(unit[: len(known), : len(known)], unit[: len(known), len(known) :], rcond=None)[0]
    takes_part = np.abs(shares) > _NO_SHARE
    return {int(j): given[row].tolist() for j, row in zip(known, takes_part, strict=True)}
