"""Rows read a second time, as deviations from the means that the first reading found."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from .._tools.parallel import ordered_map
from .._tools.work import one_thread
from ..data.checks import nearest, quoted
from ..data.encoding import Encoding
from ..data.raw import RawTable, text_as_numbers
from ..exceptions import DataError
from ..sources.base import RowSource, RowTask

if TYPE_CHECKING:
    import pyarrow as pa

    from .moments import Moments

SAME_ROWS = (
    "Pass the same rows, files with the same na=, decimal= and other options of their reading, or compute the moments "
    "again."
)
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

    def check_columns(self) -> None:
        """Raise where the rows lack a column that is read."""
        available = self.source.schema.names
        if self.environment not in available:
            raise DataError(
                f"BIP(environment={self.environment!r}) names the column of the labels, which {self.source.name} "
                f"lacks; {nearest(self.environment, available)}"
            )
        for name in self._read:
            if name not in available:
                raise DataError(
                    f"{self.source.name} is not what the moments were computed from: it lacks the column {name!r}; "
                    f"{nearest(name, available)}"
                )

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
                places = self._places(table.column(self.environment))
                # Rows of other environments may hold levels that the encoding does not know.
                known = places >= 0
                if known.any():
                    whole, values = self._complete(table if known.all() else table.filter(pa.array(known)))
                    yield places[known][whole], values

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
        """{label of the rows: place}, and the same of labels as text; rows that have the label of a merged environment
        belong to it only where they were merged into it."""
        places: dict[Hashable, int] = {label: e for e, label in enumerate(self.moments.environments)}
        merged = self.moments.merged
        made = set(merged.values())
        known = {label: e for label, e in places.items() if label not in made}
        known |= {label: places[new] for label, new in merged.items() if new in places}
        return known, {str(label): e for label, e in known.items()}

    def _complete(self, table: pa.Table) -> tuple[Mask, Floats]:
        """(n,) which rows have values in all columns `_looked_at`; their values (m, k) in `columns`"""
        import narwhals as nw

        frame, encoding = nw.from_native(table, eager_only=True), self._encoding
        plain = np.column_stack([text_as_numbers(frame[name], name) for name in self._plain])
        raw = RawTable((), np.empty((len(plain), 0))) if encoding is None else encoding.read(frame)
        whole = np.asarray(~np.isnan(np.column_stack([plain, raw.values])).any(axis=1))
        columns = dict(zip(self._plain, plain[whole].T, strict=True))
        if encoding is not None:
            encoded = encoding.encode(replace(raw, values=raw.values[whole]))
            columns |= zip(encoding.features.columns, encoded.T, strict=True)
        return whole, np.column_stack([columns[name] for name in self.columns])

    @cached_property
    def _looked_at(self) -> tuple[str, ...]:
        """All columns where rows were left out for missing values: which of them, any column may tell."""
        return (*self.moments.columns, *self.moments.constants) if self.moments.dropped_rows else self.columns

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
    def _plain(self) -> list[str]:
        """Columns that are those of the table, the outcome among them"""
        made = () if self._encoding is None else set(self._encoding.features.columns)
        return [name for name in self._looked_at if name not in made]

    @cached_property
    def _read(self) -> list[str]:
        """Columns of the table"""
        return [*(() if self._encoding is None else self._encoding.columns), *self._plain]

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
                f"{self.moments.counts[e]:,} in the moments. {SAME_ROWS}"
            )
