"""What was wrong with rows that have gone by: counted on the way, complained about once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from ..data.checks import DROP_HINT, dropped_message, quoted, rows_text, warn, with_counts
from ..data.screening import MISSING_WORDS, NO_ROWS
from ..exceptions import DataError


class Tally:
    """n_rows : seen so far; missing, infinite (r,) : values of each column; rows_missing, rows_infinite :
    {label: rows with such values}; None: rows without a label; dropped : {label: rows that do not count}"""

    def __init__(self, n_columns: int) -> None:
        self.n_rows = 0
        self.missing, self.infinite = np.zeros((2, n_columns), np.int64)
        self.rows_missing: Counter[Hashable] = Counter()
        self.rows_infinite: Counter[Hashable] = Counter()
        self.unlabelled = 0
        self.dropped: Counter[Hashable] = Counter()

    def screen(self, block: Floats, starts: Integers, labels: Sequence[Hashable]) -> Mask:
        """Count what is missing or infinite in a block (r, n) that is sorted by group, rows without a label last;
        (n,) the rows that count."""
        missing, infinite = np.isnan(block), np.isinf(block)
        self.missing += missing.sum(axis=1)
        self.infinite += infinite.sum(axis=1)
        lacks, beyond = np.asarray(missing.any(axis=0)), np.asarray(infinite.any(axis=0))
        unlabelled = np.arange(block.shape[1]) >= starts[len(labels)]
        self.unlabelled += int(unlabelled.sum())
        for g, label in enumerate((*labels, None)):
            rows = slice(starts[g], starts[g + 1])
            for counter, found in ((self.rows_missing, lacks), (self.rows_infinite, beyond)):
                if found[rows].any():
                    counter[label] += int(found[rows].sum())
            gone = int((lacks | unlabelled)[rows].sum())
            if gone:
                self.dropped[label] += gone
        return ~(lacks | beyond | unlabelled)

    def merged(self, other: Tally) -> Tally:
        both = Tally(len(self.missing))
        both.n_rows = self.n_rows + other.n_rows
        both.missing, both.infinite = self.missing + other.missing, self.infinite + other.infinite
        both.rows_missing = self.rows_missing + other.rows_missing
        both.rows_infinite = self.rows_infinite + other.rows_infinite
        both.unlabelled = self.unlabelled + other.unlabelled
        both.dropped = self.dropped + other.dropped
        return both

    def complain(
        self,
        columns: Sequence[str],
        environment: str,
        missing: str,
        words: Collection[str],
        environments: Sequence[Hashable],
    ) -> None:
        """Raise, or warn, of what was counted; words: columns of levels that were read from a file; environments:
        those of which rows are left."""
        if self.n_rows == 0:
            raise DataError(NO_ROWS)
        if self.infinite.any():
            where = _located(columns, self.infinite, self.rows_infinite)
            raise DataError(f"infinite values (inf) in {where}. Replace them or remove those rows before fitting.")
        if missing == "error" and self.unlabelled:
            raise DataError(
                f"environment column {environment!r} has no label in {rows_text(self.unlabelled)}. {DROP_HINT}, or "
                "fill in the labels."
            )
        if missing == "error" and self.missing.any():
            where = _located(columns, self.missing, self.rows_missing)
            read = [name for name, count in zip(columns, self.missing, strict=True) if count and name in words]
            told = f" In {quoted(read)}, {MISSING_WORDS}" if read else ""
            raise DataError(f"missing values (NaN) in {where}. {DROP_HINT}, or impute them first.{told}")
        if not environments:
            empty = [name for name, count in zip(columns, self.missing, strict=True) if count == self.n_rows]
            advice = f"{quoted(empty)} is missing in every row: leave it out" if empty else "impute them instead"
            raise DataError(f"no rows are left: all {rows_text(self.n_rows)} have missing values; {advice}.")
        if self.dropped:
            warn(dropped_message(self.dropped, environments, self.n_rows))


def _located(columns: Sequence[str], counts: Integers, rows: Counter[Hashable]) -> str:
    where = with_counts(columns, counts)
    labels = [label for label in rows if label is not None]
    inside = with_counts(labels, [rows[label] for label in labels])
    return f"{where}; in environment {inside}" if inside else where
