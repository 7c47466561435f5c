"""Missing values: columns that lose nothing by theirs, and how many rows the others cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..exceptions import DataError, Message, Remedy, use
from .checks import check_scale, encode_labels, listing, most_first, quoted, rows_text, warn, with_counts
from .columns import RawTable

# Columns that are few enough to be named as those that cost rows.
_FEW = 5
# They are named where they cost at least this share of the rows that go,
_MOST = 0.5
# and where at least this share of all rows would go; in a warning, of rows that did, more.
WORTH_SAYING = 0.1
WORTH_A_WARNING = 0.5
# Different sets of missing columns that are told apart, whatever the number of rows.
_MOST_KINDS = 2000


def filled(raw: RawTable) -> tuple[RawTable, dict[str, int]]:
    """With no gaps in columns that have one value besides, or none: they leave as constant ones, and cost no row.

    Also {column: gaps that it had}.
    """
    with_gaps = np.flatnonzero(np.isnan(raw.values).any(axis=0)).tolist()
    values, levels, gaps = raw.values, dict(raw.levels), {}
    for j in with_gaps:
        missing = np.isnan(raw.values[:, j])
        present = raw.values[~missing, j]
        if len(present) and (present.min() != present.max() or np.isinf(present[0])):
            continue
        values = raw.values.copy() if values is raw.values else values
        values[missing, j] = present[0] if len(present) else 0.0
        gaps[raw.names[j]] = int(missing.sum())
        if not len(present) and not getattr(levels.get(raw.names[j]), "texts", ()):
            levels.pop(raw.names[j], None)
    return (replace(raw, values=values, levels=levels), gaps) if gaps else (raw, {})


@dataclass
class Gaps:
    """How many rows lack the same columns. Rows without a label are not counted: they go whatever is left out.

    rows : {(label, which of r columns, packed): rows}; others : {label: rows of further kinds}, of which only this is
        known
    """

    rows: Counter[tuple[Hashable, bytes]] = field(default_factory=Counter)
    others: Counter[Hashable] = field(default_factory=Counter)

    def add(self, missing: Mask, label: Hashable) -> None:
        """Rows (n, r) of an environment, of which each lacks something."""
        kinds, counts = np.unique(np.packbits(missing, axis=1), axis=0, return_counts=True)
        for kind, count in zip(kinds, counts.tolist(), strict=True):
            self._count((label, kind.tobytes()), count)

    def merged(self, *more: Gaps) -> Gaps:
        both = Gaps()
        for gaps in (self, *more):
            both.others.update(gaps.others)
            for kind, count in gaps.rows.items():
                both._count(kind, count)
        return both

    def relabelled(self, new: Mapping[Hashable, Hashable]) -> Gaps:
        """Of environments that have a new label, under it."""
        chosen = Gaps()
        for label, count in self.others.items():
            if label in new:
                chosen.others[new[label]] += count
        for (label, kind), count in self.rows.items():
            if label in new:
                chosen._count((new[label], kind), count)
        return chosen

    def _count(self, kind: tuple[Hashable, bytes], count: int) -> None:
        if kind in self.rows or len(self.rows) < _MOST_KINDS:
            self.rows[kind] += count
        else:
            self.others[kind[0]] += count

    def _by_columns(self, r: int) -> tuple[Mask, Integers]:
        """(k, r) which columns are missing, and in how many rows (k,)"""
        kinds = np.array([np.frombuffer(kind, np.uint8) for _, kind in self.rows], np.uint8)
        return np.unpackbits(kinds, axis=1, count=r).astype(bool), np.array(list(self.rows.values()), np.int64)

    def costly(self, columns: Sequence[str], features: Sequence[str], n_lost: int) -> tuple[list[str], int]:
        """The fewest features, which are some of the columns, for which most of n_lost rows go, and how many rows come
        back without them; none where they are not few."""
        if not self.rows:
            return [], 0
        missing, counts = self._by_columns(len(columns))
        may_go = set(features)
        per_column = [int(n) if name in may_go else 0 for name, n in zip(columns, counts @ missing, strict=True)]
        ranked = [j for j in np.argsort(per_column, kind="stable")[::-1].tolist() if per_column[j]]
        for k in range(1, min(_FEW, len(may_go) - 1, len(ranked)) + 1):
            still = np.delete(missing, ranked[:k], axis=1).any(axis=1)
            regained = int(counts[~still].sum())
            if regained >= _MOST * n_lost:
                return [columns[j] for j in sorted(ranked[:k])], regained
        return [], 0


class Tally:
    """What is missing or infinite, of rows that come in blocks. n_rows : seen so far; gaps : which columns rows lack
    together"""

    def __init__(self, n_columns: int) -> None:
        self.n_rows = 0
        self.gaps = Gaps()
        self._n_columns = n_columns
        # {label: missing and infinite values of each column; rows with missing, with infinite, and left out}
        self._counts: dict[Hashable, Integers] = {}

    @property
    def missing(self) -> Integers:
        """(r,) values of each column"""
        return self._total[: self._n_columns]

    @property
    def infinite(self) -> Integers:
        """(r,) values of each column"""
        return self._total[self._n_columns : -3]

    @property
    def _total(self) -> Integers:
        return sum(self._counts.values(), np.zeros(2 * self._n_columns + 3, np.int64))

    def _rows(self, place: int) -> dict[Hashable, int]:
        return {label: int(counts[place]) for label, counts in self._counts.items() if counts[place]}

    @property
    def dropped(self) -> dict[Hashable, int]:
        """{label: rows that lack something}; None: all rows without a label"""
        lacking = {label: n for label, n in self._rows(-3).items() if label is not None}
        return lacking | ({None: self.left_out[None]} if None in self._counts else {})

    @property
    def left_out(self) -> dict[Hashable, int]:
        """{label: rows that do not count}"""
        return self._rows(-1)

    def screen(self, values: Floats, codes: Integers, labels: Sequence[Hashable]) -> Mask:
        """Count what is missing or infinite in rows (n, r) with codes (n,) into the labels, -1 where there is none;
        (n,) the rows that count."""
        missing, infinite = np.isnan(values), np.isinf(values)
        lacks, beyond = np.asarray(missing.any(axis=1)), np.asarray(infinite.any(axis=1))
        kept = (codes >= 0) & ~(lacks | beyond)
        for code in np.unique(codes[~kept]).tolist():
            rows, label = codes == code, labels[code] if code >= 0 else None
            sums = missing[rows].sum(axis=0), infinite[rows].sum(axis=0)
            self._count(label, np.hstack([*sums, lacks[rows].sum(), beyond[rows].sum(), (rows & ~kept).sum()]))
            if label is not None and (rows & lacks).any():
                self.gaps.add(missing[rows & lacks], label)
        return np.asarray(kept)

    def _count(self, label: Hashable, counts: Integers) -> None:
        self._counts[label] = self._counts.get(label, 0) + counts

    def absorb(self, other: Tally) -> None:
        self.n_rows += other.n_rows
        self.gaps = self.gaps.merged(other.gaps)
        for label, counts in other._counts.items():
            self._count(label, counts)

    def relabelled(self, new: Mapping[Hashable, Hashable], n_rows: int) -> Tally:
        """Of the n_rows rows of these environments, under new labels, and of those without a label."""
        new = {**new, None: None}
        chosen = Tally(self._n_columns)
        chosen.n_rows, chosen.gaps = n_rows, self.gaps.relabelled(new)
        for label, counts in self._counts.items():
            if label in new:
                chosen._count(new[label], counts)
        return chosen

    def complain(
        self,
        columns: Sequence[str],
        features: Sequence[str],
        environment: str | None,
        missing: str,
        words: Collection[str] = (),
        excluded: Sequence[str] = (),
        labelled: bool = True,
    ) -> None:
        """Raise about what was counted. columns : r names, of which `features` may be left out; environment : column
        of the labels, None where X has none; words : columns of levels from a text file; excluded : left out already"""
        if self.n_rows == 0:
            raise DataError(NO_ROWS)
        if self.infinite.any():
            where = self._located(columns, self.infinite, -2, labelled)
            raise DataError(f"infinite values (inf) in {where}. Replace them or remove those rows before fitting.")
        unlabelled = self.left_out.get(None, 0)
        if missing == "error" and unlabelled:
            column = "environments" if environment is None else f"environment column {environment!r}"
            raise DataError(f"{column} has no label in {rows_text(unlabelled)}", use(missing="drop"))
        regained, remedies = self._remedies(columns, features, excluded, environment is not None, WORTH_SAYING)
        if missing == "error" and self.missing.any():
            where = self._located(columns, self.missing, -3, labelled)
            read = [name for name, count in zip(columns, self.missing, strict=True) if count and name in words]
            told = f". In {quoted(read)}, {MISSING_WORDS}" if read else ""
            n_kept = self.n_rows - sum(self.dropped.values())
            keeps = f" (keeps {n_kept} of {rows_text(self.n_rows)})" if regained else ""
            raise DataError(f"missing values (NaN) in {where}{told}{regained}", use(keeps, missing="drop"), *remedies)
        if sum(self.left_out.values()) == self.n_rows:
            empty = [name for name, count in zip(columns, self.missing, strict=True) if count == self.n_rows]
            advice = f"{quoted(empty)} is missing in every row: leave it out" if empty else "impute them instead"
            whole = f"no rows are left: all {rows_text(self.n_rows)} have missing values; {advice}"
            raise DataError(f"{whole}{regained}" if remedies else f"{whole}{regained}.", *remedies)

    def warn_of_dropped(
        self,
        columns: Sequence[str],
        features: Sequence[str],
        environments: Sequence[Hashable],
        excluded: Sequence[str] = (),
        in_table: bool = True,
    ) -> None:
        """Warn of rows that were left out; environments : those that are left; others as in `complain`."""
        if self.dropped:
            regained, remedies = self._remedies(columns, features, excluded, in_table, WORTH_A_WARNING)
            warn(Message(dropped_message(self.dropped, environments, self.n_rows) + regained, *remedies))

    def _remedies(
        self, columns: Sequence[str], features: Sequence[str], excluded: Sequence[str], in_table: bool, share: float
    ) -> tuple[str, list[Remedy]]:
        """Where more than a share of the rows would go for few columns: a clause about these, and what leaves them
        out."""
        n_lost = sum(self.dropped.values())
        names, regained = self.gaps.costly(columns, features, n_lost)
        if not names or n_lost <= share * self.n_rows:
            return "", []
        keeps = f"{'at least ' if self.gaps.others else ''}{self.n_rows - n_lost + regained} rows"
        if in_table:
            left_out = use(f" (keeps {keeps})", missing="drop", exclude=[*excluded, *names])
            return f"; most for {quoted(names)}", [left_out]
        return f"; most for {quoted(names)}, without which X keeps {keeps}", []

    def _located(self, columns: Sequence[str], counts: Integers, place: int, labelled: bool) -> str:
        rows = {label: n for label, n in self._rows(place).items() if label is not None}
        inside = with_counts(list(rows), list(rows.values())) if labelled else ""
        where = most_first(columns, counts)
        return f"{where}; in environment {inside}" if inside else where


def dropped_message(dropped: Mapping[Hashable, int], environments: Sequence[Hashable], n_rows: int) -> str:
    """What missing="drop" removed; ``environments`` are those that are left."""
    parts = [f"{n} of environment {label!r}" for label, n in dropped.items() if label is not None]
    if None in dropped:
        parts.append(f"{dropped[None]} without an environment label")
    message = f"dropped {sum(dropped.values())} of {rows_text(n_rows)} with missing values: {listing(parts)}"
    lost = [label for label in dropped if label is not None and label not in environments]
    return f"{message}; nothing is left of environment {quoted(lost)}" if lost else message


def announce_constant(
    constant: Sequence[str],
    n_features: int,
    columns: Sequence[str] = (),
    gaps: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Warn that features constant over all rows are left out, and such columns of others; raise when none remain.
    gaps: {name: rows in which its one value is missing}"""
    if len(constant) == n_features:
        raise DataError(
            f"every feature is constant over all rows: {_with_gaps(constant, gaps)}. Add features that vary."
        )
    if constant:
        warn(constant_features(constant, gaps))
    if columns:
        warn(constant_columns(columns))


def losses(
    dropped_rows: Mapping[Hashable, int],
    environments: Sequence[Hashable],
    n_rows: int,
    features: Sequence[str],
    columns: Sequence[str],
    gaps: Mapping[str, int] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Sentences about what was left out: rows, of which n_rows are left, constant features, and columns of others;
    gaps as in `announce_constant`."""
    sentences = []
    if dropped_rows:
        sentences.append(dropped_message(dropped_rows, environments, n_rows + sum(dropped_rows.values())) + ".")
    if features:
        sentences.append(constant_features(features, gaps) + ".")
    if columns:
        sentences.append(constant_columns(columns) + ".")
    return tuple(sentences)


def constant_features(features: Sequence[str], gaps: Mapping[str, int]) -> str:
    return f"dropped features that are constant over all rows: {_with_gaps(features, gaps)}"


def _with_gaps(features: Sequence[str], gaps: Mapping[str, int]) -> str:
    return listing(
        f"{name!r} (missing in {rows_text(gaps[name])})" if name in gaps else repr(name) for name in features
    )


def constant_columns(columns: Sequence[str]) -> str:
    return f"dropped columns that are constant over all rows from their features: {quoted(columns)}"


NO_ROWS = "the table has no rows. Check the file, or what was filtered out before."
MISSING_WORDS = (
    "empty cells of a text file and the words None, NA, N/A, NaN and null count as missing: where one is a level, "
    "write another word."
)


class Rows(NamedTuple):
    """X (n, r), y (n,), codes (n,) into environments: the rows that are left; outcome_columns (k, n): what comes with
    the outcome; tally: of the rows left out."""

    X: Floats
    y: Floats
    codes: NDArray[np.intp]
    environments: tuple[Hashable, ...]
    outcome_columns: Floats
    tally: Tally

    def kept(self, rows: Mask, tally: Tally) -> Rows:
        """Those of a mask (n,); environments of which none is left are gone."""
        codes, environments = encode_labels([self.environments[code] for code in self.codes[rows]])
        return Rows(self.X[rows], self.y[rows], codes, environments, self.outcome_columns[:, rows], tally)


def screened(
    X: Floats,
    y: Floats,
    labels: list[Hashable] | None,
    columns: Sequence[str],
    environment: str | None,
    missing: str,
    words: Collection[str] = (),
    outcome_columns: Sequence[Floats] = (),
    excluded: Sequence[str] = (),
) -> Rows:
    """The rows that are left after the checks; columns: names of those of X, of y and of the k outcome_columns (n,);
    words: those of levels that were read from a file; excluded: columns that the user left out."""
    outcome = np.column_stack([y, *outcome_columns])
    codes: NDArray[np.intp]
    environments: tuple[Hashable, ...]
    codes, environments = (np.zeros(len(y), np.intp), ("all",)) if labels is None else encode_labels(labels)
    tally, kept = Tally(len(columns)), np.ones(len(y), dtype=bool)
    tally.n_rows = len(y)
    if (codes < 0).any() or not (np.isfinite(X).all() and np.isfinite(outcome).all()):
        kept = tally.screen(np.column_stack([X, outcome]), codes, environments)
    tally.complain(columns, columns[: X.shape[1]], environment, missing, words, excluded, labelled=labels is not None)
    if not kept.all():
        X, outcome = X[kept], outcome[kept]
        codes, environments = encode_labels([environments[code] for code in codes[kept]])
    lowest = np.append(X.min(axis=0), outcome.min(axis=0))
    check_scale(columns, lowest, np.append(X.max(axis=0), outcome.max(axis=0)))
    y = np.ascontiguousarray(outcome[:, 0])
    with_y = np.ascontiguousarray(outcome[:, 1:].T)
    return Rows(np.ascontiguousarray(X), y, codes, environments, with_y, tally)
