"""Missing values: columns that lose nothing by theirs, and how many rows the others cost."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from .._tools.arrays import Floats, Integers, Mask, Names
from .._tools.text import in_quotes
from ..exceptions import DataError, Message, Remedy, use
from .checks import NO_ROWS, listing, most_first, quoted, rows_text, warn, with_counts

# A feature that is missing in more than this share of the rows is better left out.
_MOSTLY = 0.5


class Tally:
    """What is missing or infinite in columns, of rows that come in blocks; n_rows : seen so far"""

    def __init__(self, columns: Sequence[str]) -> None:
        self.n_rows = 0
        self._columns = tuple(columns)
        # {label: missing and infinite values of each column; rows with missing, with infinite, and
        # left out}
        self._counts: dict[Hashable, Integers] = {}

    @property
    def missing(self) -> dict[str, int]:
        """{column: values}"""
        return self._values(0)

    def _values(self, kind: int) -> dict[str, int]:
        """{column: values} of all rows; kind : 0 missing, 1 infinite"""
        r = len(self._columns)
        total = sum(self._counts.values(), np.zeros(2 * r + 3, np.int64))
        return dict(zip(self._columns, total[kind * r : (kind + 1) * r].tolist(), strict=True))

    def _rows(self, place: int) -> dict[Hashable, int]:
        return {
            label: int(counts[place]) for label, counts in self._counts.items() if counts[place]
        }

    @property
    def dropped(self) -> dict[Hashable, int]:
        """{label: rows that lack something}; None: all rows without a label"""
        rows = self._rows(-3)
        rows.pop(None, None)
        return rows | ({None: self.left_out[None]} if None in self._counts else {})

    @property
    def left_out(self) -> dict[Hashable, int]:
        """{label: rows that do not count}"""
        return self._rows(-1)

    def complete(
        self, X: Floats, outcomes: Floats, codes: Integers, labels: Sequence[Hashable]
    ) -> Mask:
        """As `screen`, of all rows of X (n, p) and outcomes (n, k); nothing is copied where none is
        left out."""
        self.n_rows = len(codes)
        if (codes >= 0).all() and np.isfinite(X).all() and np.isfinite(outcomes).all():
            return np.ones(len(codes), dtype=bool)
        return self.screen(np.column_stack([X, outcomes]), codes, labels)

    def screen(self, values: Floats, codes: Integers, labels: Sequence[Hashable]) -> Mask:
        """Count what is missing or infinite in rows (n, r) with codes (n,) into the labels, -1
        where there is none; (n,) the rows that count."""
        missing = np.isnan(values)
        infinite = np.isinf(values)
        lacks = np.asarray(missing.any(axis=1))
        beyond = np.asarray(infinite.any(axis=1))
        kept = (codes >= 0) & ~(lacks | beyond)
        for code in np.unique(codes[~kept]).tolist():
            rows = codes == code
            label = labels[code] if code >= 0 else None
            sums = missing[rows].sum(axis=0), infinite[rows].sum(axis=0)
            self._count(
                label,
                np.hstack([*sums, lacks[rows].sum(), beyond[rows].sum(), (rows & ~kept).sum()]),
            )
        return np.asarray(kept)

    def _count(self, label: Hashable, counts: Integers) -> None:
        self._counts[label] = self._counts.get(label, 0) + counts

    def absorb(self, other: Tally) -> None:
        self.n_rows += other.n_rows
        for label, counts in other._counts.items():
            self._count(label, counts)

    def relabelled(self, new: Mapping[Hashable, Hashable], n_rows: int) -> Tally:
        """Of the n_rows rows of these environments, under new labels, and of those without a
        label."""
        new = {**new, None: None}
        chosen = Tally(self._columns)
        chosen.n_rows = n_rows
        for label, counts in self._counts.items():
            if label in new:
                chosen._count(new[label], counts)
        return chosen

    def refuse_missing(
        self,
        features: Sequence[str],
        environment: str | None,
        missing: str,
        excluded: Sequence[str] = (),
        levels: Collection[str] = (),
    ) -> None:
        """Raise about what was counted. features : columns that may be left out; environment :
        column of the labels, None where X has none; excluded : left out already; levels : columns
        of categories"""
        if self.n_rows == 0:
            raise DataError(NO_ROWS)
        infinite = self._values(1)
        if any(infinite.values()):
            where = self._located(infinite, -2)
            raise DataError(
                f"infinite values (inf) in {where}. Replace them or remove those rows before "
                "fitting."
            )
        unlabelled = self.left_out.get(None, 0)
        if missing == "error" and unlabelled:
            column = (
                "environments" if environment is None else f"environment column {environment!r}"
            )
            raise DataError(
                f"{column} has no label in {rows_text(unlabelled)}", use(missing="drop")
            )
        without = self._without_mostly_missing(features, excluded)
        n_kept = self.n_rows - sum(self.left_out.values())
        if missing == "error" and any(self.missing.values()):
            where = self._located(self.missing, -3)
            keeps = f" (keeps {n_kept} of {rows_text(self.n_rows)})"
            of_categories = any(n and name in levels for name, n in self.missing.items())
            level = [use(" (a level for categories)", missing="level")] if of_categories else []
            raise DataError(
                f"missing values (NaN) in {where}", use(keeps, missing="drop"), *level, *without
            )
        if n_kept == 0:
            where = most_first({**self.missing, environment or "environments": unlabelled})
            raise DataError(
                f"no rows are left: all {rows_text(self.n_rows)} have missing values, in {where}",
                *without,
            )

    def warn_of_dropped(
        self,
        features: Sequence[str],
        environments: Sequence[Hashable],
        excluded: Sequence[str] = (),
    ) -> None:
        """Warn of rows that were left out; environments : those that are left; others as in
        `complain`."""
        if self.dropped:
            without = self._without_mostly_missing(features, excluded)
            warn(Message(dropped_message(self.dropped, environments, self.n_rows), *without))

    def _without_mostly_missing(
        self, features: Sequence[str], excluded: Sequence[str]
    ) -> list[Remedy]:
        """What leaves out the features that most rows lack; empty where there are none, or no
        others."""
        missing = self.missing
        mostly = [name for name in features if missing[name] > _MOSTLY * self.n_rows]
        return [use(exclude=[*excluded, *mostly])] if 0 < len(mostly) < len(features) else []

    def _located(self, counts: Mapping[str, int], place: int) -> str:
        rows = {label: n for label, n in self._rows(place).items() if label is not None}
        inside = f"; in environment {with_counts(list(rows), list(rows.values()))}" if rows else ""
        return f"{most_first(counts)}{inside}"


def dropped_message(
    dropped: Mapping[Hashable, int], environments: Sequence[Hashable], n_rows: int
) -> str:
    """What missing="drop" removed; ``environments`` are those that are left."""
    parts = [
        f"{n} of environment {in_quotes(label)}"
        for label, n in dropped.items()
        if label is not None
    ]
    if None in dropped:
        parts.append(f"{dropped[None]} without an environment label")
    message = (
        f"dropped {sum(dropped.values())} of {rows_text(n_rows)} with missing values: "
        f"{listing(parts)}"
    )
    lost = [label for label in dropped if label is not None and label not in environments]
    return f"{message}; nothing is left of environment {quoted(lost)}" if lost else message


def announce_constant(constant: Sequence[str], n_features: int, columns: Sequence[str]) -> None:
    """Warn that features constant over all rows are left out, and such columns of others; raise
    when none remain."""
    if len(constant) == n_features:
        raise DataError(
            f"every feature is constant over all rows: {quoted(constant)}. Add features that vary."
        )
    for sentence in constant_sentences(constant, columns):
        warn(sentence)


def losses(data: Any, features: Sequence[str], columns: Sequence[str]) -> Names:
    """Sentences about what was left out of MultiEnvironmentData or Moments, or counts more than
    once; features, columns : that are constant, columns of features that have others"""
    sentences = list(data.environment_notes)
    if data.weights is not None:
        sentences.insert(0, str(data.weights))
    if data.dropped_rows:
        n_rows = data.n_rows + sum(data.dropped_rows.values())
        sentences.append(f"{dropped_message(data.dropped_rows, data.environments, n_rows)}.")
    return (*sentences, *constant_sentences(features, columns))


def constant_sentences(features: Sequence[str], columns: Sequence[str]) -> list[str]:
    """About constant features, and such columns of others"""
    sentences = []
    if features:
        sentences.append(f"dropped features that are constant over all rows: {quoted(features)}")
    if columns:
        sentences.append(
            "dropped columns that are constant over all rows from their features: "
            f"{quoted(columns)}"
        )
    return [f"{sentence}." for sentence in sentences]
