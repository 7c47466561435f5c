"""What a row takes in memory, as far as the first ones show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..data.raw import MOST_LEVELS
from ..data.rows_that_fit import RowSize
from .base import RowSource
from .columns import TEXT, kind_of

if TYPE_CHECKING:
    import pyarrow as pa


def row_size(source: RowSource, environment: str, columns: Sequence[str], with_levels: bool = True) -> RowSize:
    """Of these columns; with_levels : each level of words but one is a column. environment : the column of labels"""
    tasks = source.tasks(environment, columns)
    batch = next((batch for task in tasks for batch in task.batches(list(columns)) if batch.num_rows), None)
    if batch is None:
        return RowSize.of_numbers(len(columns))
    words = [array for array in batch.columns if kind_of(array.type) == TEXT]
    made = sum(map(_n_made, words)) if with_levels else len(words)
    text = sum(array.nbytes for array in words) / batch.num_rows
    return RowSize(len(columns), len(columns) - len(words) + made, text)


def _n_made(words: pa.Array) -> int:
    """Columns that stand for levels; one where these are too many to be a feature"""
    levels = len(words.unique().drop_null())
    return 1 if levels > MOST_LEVELS * len(words) else max(levels - 1, 1)
