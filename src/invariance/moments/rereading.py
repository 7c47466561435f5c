"""Rows read a second time, as deviations from the means that the first reading found."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats
from .._tools.parallel import ordered_map
from .._tools.work import one_thread
from ..data.checks import quoted
from ..data.columns import series_values
from ..data.encoding import Encoding
from ..exceptions import DataError
from ..sources.base import RowSource, RowTask

if TYPE_CHECKING:
    import pyarrow as pa

    from .moments import Moments

# Rows that are looked at together.
_MOST_ROWS = 8192


class Collector(Protocol):
    """What is made of rows. Those of several tasks are merged in the order of the tasks."""

    def add(self, e: int, values: Floats, deviations: Floats) -> None:
        """Rows (n, k) of the environment at place e, as they are and less their means there."""

    def merge(self, other: Any) -> None:
        """Take in what another one has of later rows."""


@dataclass(frozen=True, eq=False)
class Rereading:
    """The rows that moments were computed from; environment: the column of their labels; columns: those to look at."""

    moments: Moments
    source: RowSource
    environment: str
    columns: tuple[str, ...]

    def collect(self, start: Callable[[int], Sequence[Collector]], n_jobs: int | None) -> Sequence[Collector]:
        """What the collectors make of all rows; start: makes those of the task of a number.

        Tasks are fixed, and merged in their order: the result does not depend on n_jobs.
        """
        tasks = list(enumerate(self.source.tasks(self.environment, self._read)))
        total, counts = start(len(tasks)), np.zeros(self.moments.n_environments, np.int64)

        def look(numbered: tuple[int, RowTask]) -> tuple[Sequence[Collector], NDArray[np.int64]]:
            number, task = numbered
            return self._look(task, start(number))

        with one_thread():
            for collectors, found in ordered_map(look, tasks, n_jobs):
                counts += found
                for whole, part in zip(total, collectors, strict=True):
                    whole.merge(part)
        self._check(counts)
        return total

    def _look(self, task: RowTask, collectors: Sequence[Collector]) -> tuple[Sequence[Collector], NDArray[np.int64]]:
        counts = np.zeros(self.moments.n_environments, np.int64)
        for places, values in self._blocks(task):
            counts += np.bincount(places, minlength=len(counts))
            order = np.argsort(places, kind="stable")
            ends = np.searchsorted(places[order], np.arange(len(counts) + 1))
            for e in np.unique(places).tolist():
                rows = values[order[ends[e] : ends[e + 1]]]
                deviations = (rows - self._centre[e]) - self._rest[e]
                deviations[:, self._constant[e]] = 0.0
                for collector in collectors:
                    collector.add(e, rows, deviations)
        return collectors, counts

    def _blocks(self, task: RowTask) -> Iterator[tuple[NDArray[np.intp], Floats]]:
        """Environments (n,) and values (n, k) of complete rows of environments that are known"""
        import pyarrow as pa

        for batch in task.batches([self.environment, *self._read]):
            for first in range(0, batch.num_rows, _MOST_ROWS):
                table = pa.Table.from_batches([batch.slice(first, _MOST_ROWS)])
                places, values = self._places(table.column(self.environment)), self._values(table)
                whole = (places >= 0) & ~np.isnan(values).any(axis=1)
                yield places[whole], values[whole][:, self._wanted]

    def _places(self, labels: pa.ChunkedArray) -> NDArray[np.intp]:
        """(n,) -1 for rows without a label, and for other environments"""
        coded = labels.combine_chunks().dictionary_encode()
        known = np.array([self._place_of(label) for label in coded.dictionary.to_pylist()] + [-1], dtype=np.intp)
        return known[coded.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)]

    def _place_of(self, label: Hashable) -> int:
        exact, written = self._known
        return exact.get(label, written.get(str(label), -1))

    @cached_property
    def _known(self) -> tuple[dict[Hashable, int], dict[str, int]]:
        places: dict[Hashable, int] = {label: e for e, label in enumerate(self.moments.environments)}
        merged = {label: places[new] for label, new in self.moments.merged.items() if new in places}
        known = {**places, **merged}
        return known, {str(label): e for label, e in known.items()}

    def _values(self, table: pa.Table) -> Floats:
        """(n, m) of the columns `_looked_at`"""
        import narwhals as nw

        frame = nw.from_native(table, eager_only=True)
        encoding, made = self._encoding, {}
        if encoding is not None:
            raw = encoding.read(frame)
            whole = ~np.isnan(raw.values).any(axis=1)
            encoded = np.full((len(raw.values), encoding.features.n_columns), np.nan)
            encoded[whole] = encoding.encode(replace(raw, values=raw.values[whole]))
            made = dict(zip(encoding.features.columns, encoded.T, strict=True))
        return np.column_stack(
            [made[name] if name in made else series_values(frame[name], name) for name in self._looked_at]
        )

    @cached_property
    def _looked_at(self) -> tuple[str, ...]:
        """All columns where rows were left out for missing values: which of them, any column may tell."""
        return (*self.moments.columns, *self.moments.constants) if self.moments.dropped_rows else self.columns

    @cached_property
    def _wanted(self) -> list[int]:
        return [self._looked_at.index(name) for name in self.columns]

    @cached_property
    def _encoding(self) -> Encoding | None:
        """That of the features of which columns are looked at; None where all columns are those of the table"""
        whole, looked_at = self.moments.encoding, set(self._looked_at)
        if whole is None:
            return None
        members = [
            (feature, terms)
            for feature, terms in whole.members
            if looked_at & {n for term in terms for n in term.names}
        ]
        used = {term.column for _, terms in members for term in terms}
        return replace(whole, columns=tuple(name for name in whole.columns if name in used), members=tuple(members))

    @cached_property
    def _read(self) -> list[str]:
        """Columns of the table"""
        encoding = self._encoding
        if encoding is None:
            return list(self._looked_at)
        made = set(encoding.features.columns)
        return [*encoding.columns, *(name for name in self._looked_at if name not in made)]

    @cached_property
    def _at(self) -> list[int]:
        return [self.moments.columns.index(name) for name in self.columns]

    @cached_property
    def _centre(self) -> Floats:
        return self.moments.centre[:, self._at]

    @cached_property
    def _rest(self) -> Floats:
        return self.moments.rest[:, self._at]

    @cached_property
    def _constant(self) -> NDArray[np.bool_]:
        return ~self.moments.varies[:-1, self._at]

    def _check(self, counts: NDArray[np.int64]) -> None:
        wrong = np.flatnonzero(counts != self.moments.counts)
        if len(wrong):
            e = int(wrong[0])
            raise DataError(
                f"{self.source.name} is not what the moments were computed from: environment "
                f"{quoted([self.moments.environments[e]])} has {counts[e]:,} complete rows there, and "
                f"{self.moments.counts[e]:,} in the moments. Pass the same rows, or compute the moments again."
            )
