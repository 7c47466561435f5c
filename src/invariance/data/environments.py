"""Which environments of a table to use: leave some out, merge others, or leave out those of few rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Integers, Mask
from ..exceptions import DataError, use
from .checks import encode_labels, nearest, quoted, rows_text, with_counts


def places_of(labels: Iterable[Hashable], available: Sequence[Hashable]) -> NDArray[np.intp]:
    """Where each of the labels is among those available. A label that is no text may be given as it is written."""
    if isinstance(labels, str):
        raise DataError(f"{labels!r} is a single label: pass a list of labels, [{labels!r}].")
    written = {str(label): place for place, label in enumerate(available)}
    exact = {label: place for place, label in enumerate(available)}
    places = []
    for label in labels:
        place = exact.get(label, written.get(label) if isinstance(label, str) else None)
        if place is None:
            raise DataError(f"there is no environment {label!r}; {nearest(str(label), available, 'environments')}")
        places.append(place)
    if not places:
        raise DataError(f"no environment is named. The environments are {quoted(available, 12)}.")
    return np.array(places, dtype=np.intp)


@dataclass(frozen=True, kw_only=True)
class Environments:
    """Which environments of a table to use.

    drop : labels to leave out; merge : {new label: labels that become one environment}, both of labels of the table;
    min_rows : environments with fewer rows, after that, are left out
    """

    drop: Sequence[Hashable] = ()
    merge: Mapping[Hashable, Sequence[Hashable]] = field(default_factory=dict)
    min_rows: int = 0

    def __post_init__(self) -> None:
        drop, merge, min_rows = self.drop, self.merge, self.min_rows
        if isinstance(min_rows, bool) or not isinstance(min_rows, int | np.integer) or min_rows < 0:
            raise DataError(f"min_rows={min_rows!r} is not a number of rows", use(min_rows=0))
        if isinstance(drop, str) or not isinstance(drop, Iterable):
            raise DataError(f"drop_environments={drop!r} is not a list", use(drop_environments=[drop]))
        if not isinstance(merge, Mapping):
            example = use(merge_environments={"new label": ["one label", "another label"]})
            raise DataError(f"merge_environments={merge!r} is not a mapping", example)
        for name, members in merge.items():
            if isinstance(members, str) or not isinstance(members, Iterable) or len(set(members)) < 2:
                raise DataError(f"merge_environments: {name!r} needs a list of two labels or more, not {members!r}.")
        object.__setattr__(self, "drop", tuple(drop))
        object.__setattr__(self, "merge", {name: tuple(members) for name, members in merge.items()})
        object.__setattr__(self, "min_rows", int(min_rows))

    def relabelled(self, labels: Sequence[Hashable]) -> tuple[Mask, list[Hashable], tuple[str, ...]]:
        """(N,) rows that stay after `drop` and `merge`, as those without a label do; their labels; notes about it"""
        if not self.regroups:
            return np.ones(len(labels), dtype=bool), list(labels), ()
        codes, environments = encode_labels(labels)
        counts = np.bincount(codes[codes >= 0], minlength=len(environments))
        new, notes = self.renamed(environments, counts)
        kept = np.array([label in new for label in environments] + [True])[codes]
        names = [*(new.get(label) for label in environments), None]
        return kept, [names[code] for code in codes[kept]], notes

    @property
    def regroups(self) -> bool:
        return bool(self.drop or self.merge)

    def renamed(
        self, environments: Sequence[Hashable], counts: Integers
    ) -> tuple[dict[Hashable, Hashable], tuple[str, ...]]:
        """{label: new label} of the environments that stay, of which each has so many rows; notes about the others"""
        dropped = set(places_of(self.drop, environments).tolist()) if self.drop else set()
        new, notes = dict(enumerate(environments)), []
        claimed = set(dropped)
        for name, members in self.merge.items():
            places = dict.fromkeys(places_of(members, environments).tolist())
            twice = [environments[place] for place in places if place in claimed]
            if twice:
                raise DataError(f"environment {quoted(twice)} is to be left out or merged twice: name it once.")
            claimed.update(places)
            others = (other for e, other in enumerate(environments) if e not in places and e not in dropped)
            if any(str(name) == str(other) for other in others):
                raise DataError(f"cannot merge into {name!r}, which is another environment: choose another label.")
            new |= dict.fromkeys(places, name)
            parts = [environments[place] for place in places]
            notes.append(f"merged {with_counts(parts, counts[list(places)])} into one environment, {name!r}.")
        if dropped:
            gone = sorted(dropped)
            told = with_counts([environments[place] for place in gone], counts[gone])
            notes.insert(0, f"left out environments, as asked: {told}.")
        if len(dropped) == len(environments):
            raise DataError(f"no environment is left: all of {quoted(environments)} are dropped.")
        return {label: new[e] for e, label in enumerate(environments) if e not in dropped}, tuple(notes)

    def too_small(
        self, environments: Sequence[Hashable], counts: Integers, dropped: Mapping[Hashable, int]
    ) -> tuple[set[Hashable], tuple[str, ...]]:
        """Labels of environments (E,) with fewer rows than `min_rows`, and a sentence about them; dropped: {label: rows
        with missing values}"""
        small = counts < self.min_rows
        if not small.any():
            return set(), ()
        if small.all():
            largest = int(np.argmax(counts))
            found = f"the largest, {environments[largest]!r}, has {rows_text(int(counts[largest]))}"
            second = use(min_rows=int(np.sort(counts)[-2:][0]))
            raise DataError(f"min_rows={self.min_rows} leaves no environment: {found}", second)
        labels = {label for label, few in zip(environments, small, strict=True) if few}
        gone = with_counts(environments, np.where(small, counts, 0))
        with_gaps = sum(n for label, n in dropped.items() if label in labels)
        also = f"; {rows_text(with_gaps)} more of them had missing values" if with_gaps else ""
        return labels, (f"left out environments with fewer than {self.min_rows} rows: {gone}{also}.",)


def refuse_single(environments: Sequence[Hashable], notes: Sequence[str]) -> None:
    """Raise where one environment is left of several."""
    if len(environments) == 1 and notes:
        raise DataError(f"one environment is left, {environments[0]!r}: {' '.join(notes)} Leave out or merge fewer.")


ALL_ENVIRONMENTS = Environments()
