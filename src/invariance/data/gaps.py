"""Missing values: columns that lose nothing by theirs, and how many rows the others cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .._tools.arrays import Integers, Mask
from .checks import quoted, rows_text
from .raw import RawTable

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
