"""What was wrong with rows that have gone by: counted on the way, complained about once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from ..data.checks import DROP_HINT, most_first, quoted, rows_text, warn, with_counts
from ..data.gaps import WORTH_A_WARNING, WORTH_SAYING, Gaps
from ..data.losses import dropped_message
from ..data.screening import MISSING_WORDS, NO_ROWS
from ..exceptions import DataError

_COUNTERS = ("rows_missing", "rows_infinite", "dropped", "left_out")


class Tally:
    """n_rows : seen so far; rows_missing, rows_infinite : {label: rows with such values}; None: rows without a label;
    dropped : {label: rows that lack something}; left_out : {label: rows that do not count}; gaps : of which columns
    rows lack values together"""

    def __init__(self, n_columns: int) -> None:
        self.n_rows = 0
        self._n_columns = n_columns
        # {label: (2, r) missing and infinite values of each column}
        self._values: dict[Hashable, Integers] = {}
        self.rows_missing: Counter[Hashable] = Counter()
        self.rows_infinite: Counter[Hashable] = Counter()
        self.dropped: Counter[Hashable] = Counter()
        self.left_out: Counter[Hashable] = Counter()
        self.gaps = Gaps()
        # {label: (2, r) lowest and highest value of each column in rows that do not count}
        self._ranges: dict[Hashable, Floats] = {}

    @property
    def missing(self) -> Integers:
        """(r,) values of each column"""
        return self._total[0]

    @property
    def infinite(self) -> Integers:
        """(r,) values of each column"""
        return self._total[1]

    @property
    def _total(self) -> Integers:
        return sum(self._values.values(), np.zeros((2, self._n_columns), np.int64))

    @property
    def unlabelled(self) -> int:
        return self.left_out[None]

    def screen(self, block: Floats, starts: Integers, labels: Sequence[Hashable]) -> Mask:
        """Count what is missing or infinite in a block (r, n) that is sorted by group, rows without a label last;
        (n,) the rows that count."""
        missing, infinite = np.isnan(block), np.isinf(block)
        lacks, beyond = np.asarray(missing.any(axis=0)), np.asarray(infinite.any(axis=0))
        unlabelled = np.arange(block.shape[1]) >= starts[len(labels)]
        kept = ~(lacks | beyond | unlabelled)
        for g, label in enumerate((*labels, None)):
            rows = slice(starts[g], starts[g + 1])
            if kept[rows].all():
                continue
            found = np.stack([missing[:, rows].sum(axis=1), infinite[:, rows].sum(axis=1)])
            self._values[label] = self._values.get(label, 0) + found
            self._look_at_gaps(block[:, rows][:, ~kept[rows]], label)
            counted = ((self.rows_missing, lacks), (self.rows_infinite, beyond), (self.dropped, lacks | unlabelled))
            for counter, wrong in (*counted, (self.left_out, ~kept)):
                if wrong[rows].any():
                    counter[label] += int(wrong[rows].sum())
        return kept

    def _look_at_gaps(self, block: Floats, label: Hashable) -> None:
        """(r, n) rows of an environment that do not count"""
        missing = np.isnan(block)
        lacks = missing.any(axis=0)
        if label is not None and lacks.any():
            self.gaps.add(missing[:, lacks].T, label)
        self._widen(label, np.fmin.reduce(block, axis=1), np.fmax.reduce(block, axis=1))

    def _widen(self, label: Hashable, lowest: Floats, highest: Floats) -> None:
        low, high = self._ranges.get(label, (lowest, highest))
        self._ranges[label] = np.stack([np.fmin(low, lowest), np.fmax(high, highest)])

    def vary(self, j: int, ends: Sequence[tuple[float, float]]) -> bool:
        """Whether column j, of numbers that have these lowest and highest values in the rows that count, has two values
        in all rows."""
        low, high = np.array([*ends, *(found[:, j] for found in self._ranges.values())]).T
        return bool(np.fmin.reduce(low) < np.fmax.reduce(high))

    def merged(self, other: Tally) -> Tally:
        both = Tally(self._n_columns)
        both.n_rows = self.n_rows + other.n_rows
        both._values = dict(self._values)
        for label, found in other._values.items():
            both._values[label] = both._values.get(label, 0) + found
        both.gaps = self.gaps.merged(other.gaps)
        both._ranges = dict(self._ranges)
        for label, (lowest, highest) in other._ranges.items():
            both._widen(label, lowest, highest)
        for name in _COUNTERS:
            setattr(both, name, getattr(self, name) + getattr(other, name))
        return both

    def relabelled(self, new: Mapping[Hashable, Hashable], n_rows: int) -> Tally:
        """Of the n_rows rows of these environments, under new labels, and of those without a label."""
        new = {**new, None: None}
        chosen = Tally(self._n_columns)
        chosen.n_rows = n_rows
        for label, found in self._values.items():
            if label in new:
                chosen._values[new[label]] = chosen._values.get(new[label], 0) + found
        chosen.gaps = self.gaps.relabelled(new)
        for label, (lowest, highest) in self._ranges.items():
            if label in new:
                chosen._widen(new[label], lowest, highest)
        for name in _COUNTERS:
            for label, count in getattr(self, name).items():
                if label in new:
                    getattr(chosen, name)[new[label]] += count
        return chosen

    def complain(
        self,
        columns: Sequence[str],
        environment: str,
        missing: str,
        words: Collection[str],
        environments: Sequence[Hashable],
        features: Sequence[str],
        excluded: Sequence[str],
    ) -> None:
        """Raise about what was counted; words: columns of levels that were read from a file; environments: those of
        which rows are left; features: columns that may be left out; excluded: those that are."""
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
            advice = self._advice(columns, features, excluded)
            raise DataError(f"missing values (NaN) in {where}. {DROP_HINT}, or impute them first.{advice}{told}")
        if not environments:
            empty = [name for name, count in zip(columns, self.missing, strict=True) if count == self.n_rows]
            advice = f"{quoted(empty)} is missing in every row: leave it out" if empty else "impute them instead"
            few = self._advice(columns, features, excluded)
            raise DataError(f"no rows are left: all {rows_text(self.n_rows)} have missing values; {advice}.{few}")

    def tell_dropped(
        self,
        columns: Sequence[str],
        environments: Sequence[Hashable],
        features: Sequence[str],
        excluded: Sequence[str],
    ) -> None:
        """Warn of rows that were left out; as in `complain`."""
        if self.dropped:
            advice = self._advice(columns, features, excluded, share=WORTH_A_WARNING)
            warn(dropped_message(self.dropped, environments, self.n_rows) + (advice and f".{advice}"))

    def _advice(
        self, columns: Sequence[str], features: Sequence[str], excluded: Sequence[str], share: float = WORTH_SAYING
    ) -> str:
        n_lost = sum(self.dropped.values())
        return self.gaps.advice(columns, features, self.n_rows - n_lost, n_lost, excluded=excluded, share=share)


def _located(columns: Sequence[str], counts: Integers, rows: Counter[Hashable]) -> str:
    where = most_first(columns, counts)
    labels = [label for label in rows if label is not None]
    inside = with_counts(labels, [rows[label] for label in labels])
    return f"{where}; in environment {inside}" if inside else where
