"""Case weights: a row with weight 2 counts as two rows, one with weight 0 as none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Fields, Floats, Integers
from .._tools.parallel import free_bytes
from ..exceptions import DataError
from .checks import check_lengths, rows_text
from .columns import series_values
from .outcomes import as_column

if TYPE_CHECKING:
    import pyarrow as pa

_LARGEST_WEIGHT = 1_000_000
# What is read is there once more as it is fitted, and twice while it is.
COPIES_IN_MEMORY = 3


@dataclass(frozen=True)
class Weights:
    """What was counted by a column: so many rows of the table, n_absent of them with weight 0, as
    `total`."""

    column: str
    n_rows: int = 0
    n_absent: int = 0
    total: int = 0

    def __add__(self, other: Weights) -> Weights:
        sums = self.n_rows + other.n_rows, self.n_absent + other.n_absent, self.total + other.total
        return Weights(self.column, *sums)

    def __str__(self) -> str:
        absent = f", {self.n_absent:,} of them (weight 0) as none" if self.n_absent else ""
        return (
            f"{self.n_rows:,} rows count as {self.total:,} by their weights "
            f"{self.column!r}{absent}."
        )


def repeats_of(weights: Floats, column: str) -> tuple[Integers, Weights]:
    """(n,) whole numbers; raises where one is missing, below 0 or no whole number"""
    missing = int(np.isnan(weights).sum())
    if missing:
        raise DataError(
            f"weights {column!r} are missing in {rows_text(missing)}: give each row its "
            "count; 0 leaves a row out."
        )
    wrong = (weights < 0.0) | (weights > _LARGEST_WEIGHT) | (weights != np.rint(weights))
    if wrong.any():
        raise DataError(
            f"weights {column!r} are no whole numbers from 0 to {_LARGEST_WEIGHT:,} in "
            f"{rows_text(int(wrong.sum()))} (for example {weights[wrong][0]:g}), and "
            "likelihoods count rows. Give counts, or draw rows in proportion to these "
            "weights first."
        )
    counts = weights.astype(np.int64)
    return counts, Weights(column, len(counts), int((counts == 0).sum()), int(counts.sum()))


def weighted(given: Mapping[str, Any], weights: Any, role: str) -> tuple[Fields, Weights]:
    """{what: its rows, each as often as it counts}; given : a table X and what has a value for each
    of its rows, or is None; role : what the weights (n,) are called where they have no name"""
    series, name = as_column(weights, role)
    listed = {
        what: values
        for what, values in given.items()
        if not (values is None or hasattr(values, "of_rows"))
    }
    check_lengths({what: _length(values) for what, values in (*listed.items(), (role, series))})
    counts, counted = repeats_of(series_values(series, name, "weights"), name)
    if not counted.total:
        raise DataError(
            f"weights {name!r} are zero in all {rows_text(len(counts))}: nothing is left to fit."
        )
    n_columns = max(getattr(given["X"], "shape", ())[1:], default=1)
    needed = 8.0 * COPIES_IN_MEMORY * counted.total * n_columns
    free = free_bytes()
    if free is not None and needed > free:
        raise DataError(
            f"rows with weights {name!r} count as {counted.total:,}, which take "
            f"{needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free: "
            "use Moments.from_rows, or smaller weights."
        )
    rows = np.repeat(np.arange(len(counts)), counts)
    return {what: rows_at(values, rows) for what, values in given.items()}, counted


def _length(values: Any) -> int:
    shape = getattr(values, "shape", None)
    return (
        int(shape[0])
        if shape
        else len(values if hasattr(values, "__len__") else np.atleast_1d(np.asarray(values)))
    )


def rows_at(values: Any, rows: NDArray[Any]) -> Any:
    """Rows, by a mask or by their places, of a table, a series, an array, a list or
    a design; None stays None."""
    if values is None or hasattr(values, "of_rows"):
        return None if values is None else values.of_rows(rows)
    if hasattr(values, "iloc"):  # of pandas, whose names may be there twice
        return values.iloc[rows]
    if isinstance(values, list | tuple):
        return [values[row] for row in rows]
    held = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(held, nw.DataFrame | nw.Series):
        return held[rows].to_native()
    return (values if hasattr(values, "__getitem__") else np.asarray(values))[rows]


def repeated(batch: pa.RecordBatch, column: str) -> tuple[Iterator[pa.RecordBatch], Weights]:
    """The rows of a batch as often as they count, about as many at once, and what was counted"""
    import pyarrow as pa

    series = nw.from_native(pa.chunked_array([batch.column(column)]), series_only=True)
    counts, counted = repeats_of(series_values(series, column, "weights"), column)
    ends = np.cumsum(counts)
    starts = range(0, counted.total, max(batch.num_rows, 1))
    parts = (np.arange(n, min(n + batch.num_rows, counted.total)) for n in starts)
    return (batch.take(pa.array(np.searchsorted(ends, part, "right"))) for part in parts), counted
