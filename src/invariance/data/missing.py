"""Missing values: columns that lose nothing by theirs, and how many rows the others cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..exceptions import DataError
from .checks import DROP_HINT, all_missing, check_scale, encode_labels, listing, located, quoted, rows_text, warn
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

    def advice(
        self,
        columns: Sequence[str],
        features: Sequence[str],
        n_kept: int,
        n_lost: int,
        in_table: bool = True,
        excluded: Iterable[str] = (),
        share: float = WORTH_SAYING,
    ) -> str:
        """A sentence about what to leave out, with a space before it, where more than a share of the rows would go for
        few columns; excluded: what is left out already."""
        names, regained = self.costly(columns, features, n_lost)
        if not names or n_lost <= share * (n_kept + n_lost):
            return ""
        without = f"with exclude={[*excluded, *names]!r}" if in_table else f"without {quoted(names)} in X"
        least = "at least " if self.others else ""
        return (
            f" Most of them go for {quoted(names)}: missing='drop' keeps {n_kept} of {rows_text(n_kept + n_lost)}, and "
            f"{least}{n_kept + regained} {without}."
        )


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
    """X (n, r), y (n,), codes (n,) into environments: the rows that are left; dropped: {label: rows left out}; beside
    (k, n): what comes with the outcome; gaps: of the rows left out."""

    X: Floats
    y: Floats
    codes: NDArray[np.intp]
    environments: tuple[Hashable, ...]
    dropped: dict[Hashable, int]
    outcome_columns: Floats
    gaps: Gaps

    def kept(self, rows: Mask) -> Rows:
        """Those of a mask (n,); environments of which none is left are gone."""
        codes, environments = encode_labels([self.environments[code] for code in self.codes[rows]])
        arrays = self.X[rows], self.y[rows], codes
        return Rows(*arrays, environments, self.dropped, self.outcome_columns[:, rows], self.gaps)


def screened(
    X: Floats,
    y: Floats,
    labels: list[Hashable] | None,
    columns: Sequence[str],
    environment: str | None,
    missing: str,
    in_chunks: bool = False,
    words: Collection[str] = (),
    outcome_columns: Sequence[Floats] = (),
    excluded: Sequence[str] = (),
) -> Rows:
    """The rows that are left after the checks; columns: names of those of X, of y and of k columns (n,) beside it;
    words: those of levels that were read from a file; excluded: columns that the user left out."""
    outcome = np.column_stack([y, *outcome_columns])
    if labels is None:
        codes: NDArray[np.intp]
        environments: tuple[Hashable, ...]
        codes, environments = np.zeros(len(y), dtype=np.intp), ("all",)
    else:
        codes, environments = encode_labels(labels)
    known = environments if labels is not None else None
    finite = bool(np.isfinite(X).all() and np.isfinite(outcome).all())
    if not finite:
        where = located(np.isinf(X), np.isinf(outcome), columns, codes, known)
        if where:
            raise DataError(f"infinite values (inf) in {where}. Replace them or remove those rows before fitting.")
    unlabelled = codes < 0
    gaps = Gaps()
    gone = unlabelled
    if not finite:
        lacking = np.column_stack([np.isnan(X), np.isnan(outcome)])
        gone = unlabelled | lacking.any(axis=1)
        lost = np.flatnonzero(gone & ~unlabelled)
        lost = lost[np.argsort(codes[lost], kind="stable")]
        for rows in np.split(lost, np.flatnonzero(np.diff(codes[lost])) + 1) if len(lost) else ():
            gaps.add(lacking[rows], environments[codes[rows[0]]])
    if missing == "error":
        if unlabelled.any():
            column = "environments" if environment is None else f"environment column {environment!r}"
            raise DataError(
                f"{column} has no label in {rows_text(int(unlabelled.sum()))}. {DROP_HINT}, or fill in the labels."
            )
        if not finite:
            where = located(np.isnan(X), np.isnan(outcome), columns, codes, known)
            read = [columns[j] for j in np.flatnonzero(np.isnan(X).any(axis=0)).tolist() if columns[j] in words]
            told = f" In {quoted(read)}, {MISSING_WORDS}" if read else ""
            counts = columns[: X.shape[1]], int((~gone).sum()), int(gone.sum())
            advice = "" if in_chunks else gaps.advice(columns, *counts, environment is not None, excluded)
            raise DataError(f"missing values (NaN) in {where}. {DROP_HINT}, or impute them first.{advice}{told}")
    dropped: dict[Hashable, int] = {}
    if gone.any():
        per_label = np.bincount(codes[gone] + 1, minlength=len(environments) + 1)
        dropped = {label: int(n) for label, n in zip((None, *environments), per_label, strict=True) if n}
        if gone.all() and not in_chunks:
            empty = [name for name, all_gone in zip(columns, all_missing(X, outcome), strict=True) if all_gone]
            advice = f"{quoted(empty)} is missing in every row: leave it out" if empty else "impute them instead"
            few = gaps.advice(columns, columns[: X.shape[1]], 0, len(y), environment is not None, excluded)
            raise DataError(f"no rows are left: all {rows_text(len(y))} have missing values; {advice}.{few}")
        X, outcome = X[~gone], outcome[~gone]
        codes, environments = encode_labels([environments[code] for code in codes[~gone]])
    if len(X):
        lowest = np.append(X.min(axis=0), outcome.min(axis=0))
        check_scale(columns, lowest, np.append(X.max(axis=0), outcome.max(axis=0)))
    y = np.ascontiguousarray(outcome[:, 0])
    with_y = np.ascontiguousarray(outcome[:, 1:].T)
    return Rows(np.ascontiguousarray(X), y, codes, environments, dropped, with_y, gaps)
