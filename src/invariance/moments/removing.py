"""Moments after a row is taken out of them: one pass over the products, and no second look at the other rows."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Floats, Mask
from ..data.checks import quoted
from ..exceptions import DataError
from ..kernels.by_size import fill_without_row
from .parts import Left, without
from .two_sum import gaps_between

if TYPE_CHECKING:
    from .moments import Moments


def without_row(moments: Moments, environment: Hashable, row: ArrayLike) -> Moments:
    """Those of the rows that are left; see `Moments.without_row`."""
    if environment not in moments.environments:
        raise DataError(f"there is no environment {environment!r}; the environments are {list(moments.environments)}.")
    e = moments.environments.index(environment)
    values = _checked(moments, e, row)
    left = without(moments.part(e), values)
    if left.unresolved.any():
        raise DataError(
            f"without this row too little is left of the scatter of {quoted(moments.names_of(left.unresolved))} in "
            f"environment {environment!r} to be known to ten digits: the row is far from the others there. "
            "Compute the moments of the remaining rows instead, with Moments.from_data or Moments.from_chunks."
        )
    remaining = _with_left(moments, e, left)
    return of_fewer_rows(remaining, moments.varies[-1] & ~remaining.varies[-1])


def of_fewer_rows(moments: Moments, became_constant: Mask) -> Moments:
    """Without the features (of d columns) that the rows left over do not vary, and the levels that these lack."""
    became_constant[moments.outcome] = False
    left = moments.dropping(became_constant)
    if left.encoding is None:
        return left
    means = {**left.constants, **dict(zip(left.columns, left.pooled_mean.tolist(), strict=True))}
    return replace(left, encoding=left.encoding.occurring_in(means, left.n_rows))


def _checked(moments: Moments, e: int, row: ArrayLike) -> Floats:
    """The row (d,); raise where it cannot be one of environment e."""
    columns, environment = moments.columns, moments.environments[e]
    try:
        values = np.asarray(row, dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"a row has {len(columns)} numbers ({columns[0]!r}, …), not {row!r}.") from None
    if values.shape != (len(columns),):
        raise DataError(f"a row has {len(columns)} values ({columns[0]!r}, …), not {values.shape}.")
    missing = np.isnan(values)
    if missing.any():
        raise DataError(
            f"this row has missing values (NaN) in {quoted(moments.names_of(missing))}, as no row of these moments "
            "has: pass its values as they were when the moments were computed."
        )
    if moments.rounding is None:
        raise DataError("these moments were not computed from rows, so that none can be removed.")
    part = moments.part(e)
    if part.n_rows < 2:
        raise DataError(f"environment {environment!r} has {part.n_rows} row; the last row cannot be removed.")
    beyond = np.stack([values <= part.minimum, values >= part.maximum]) & (part.at_ends == 0)
    outside = (values < part.minimum) | (values > part.maximum) | beyond.any(axis=0)
    if outside.any():
        name = columns[int(np.argmax(outside))]
        raise DataError(f"this row is not in environment {environment!r}: its {name!r} is outside the range there.")
    return values


def _with_left(moments: Moments, e: int, left: Left) -> Moments:
    named = {
        "counts": left.n_rows,
        "centre": left.centre,
        "rest": left.rest,
        "minimum": left.minimum,
        "maximum": left.maximum,
    }
    arrays = {}
    for name, values in {**named, "at_ends": left.at_ends, "rounding": left.rounding}.items():
        arrays[name] = getattr(moments, name).copy()
        arrays[name][e] = values
    counts, scatter = arrays["counts"], np.empty_like(moments.scatter)
    gaps = gaps_between(counts, arrays["centre"], arrays["rest"])
    fill_without_row(moments.scatter, e, left.loss, left.deviation, left.constant, counts, gaps, scatter)
    return replace(moments, scatter=scatter, second=None, kind=None, **arrays)
