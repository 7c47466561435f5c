"""Moments of rows that arrive in Arrow record batches, wherever they come from."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers
from .._tools.memory import free_bytes
from ..data.checks import check_missing_argument, check_unique, encode_labels, nearest
from ..data.choices import Choices, known_columns, listed_names
from ..data.levels import Levels, as_text, joined
from ..data.raw import Refusal, doubtful, refuse
from ..exceptions import DataError
from ..kernels.by_size import centre_groups, describe_groups, put, sort_groups
from .arrow_columns import (
    LEVELS,
    NOTHING,
    NUMBERS,
    TEXT_AS_NUMBERS,
    as_batches,
    as_codes,
    as_numbers,
    is_plain,
    kind_of,
    levels_of,
    numbers_of_text,
)
from .parts import Part
from .pieces import MOST_LEVELS, Piece, changed_kind, in_blocks, too_many_levels
from .running import Running
from .tally import Tally
from .whole_numbers import WholeNumbers

if TYPE_CHECKING:
    import pyarrow as pa

    from .moments import Moments

# What a block of rows takes: large enough for products of matrices at their best, small enough for any machine.
_BLOCK_BYTES = 1 << 24
_FEWEST_ROWS = 256
# Where there are many columns: each block reads and writes the products of all pairs of them.
_ROWS_PER_COLUMN = 6
# Second moments of which it is worth asking whether they fit into memory
_MANY_NUMBERS = 1 << 26


class Column(NamedTuple):
    """A column of the moments: one of the table or, where `level` is given, whether a row has that level of it."""

    name: str
    level: str | None = None


class MomentsAccumulator:
    """Counts, means, ranges and products of columns in each environment, of rows that arrive in pieces.

    columns : names of the features and of the outcome; environment : name of the column of labels
    missing : "error" or "drop", as in `Moments.from_rows`; complaints are made at the end, once, by `moments`
    categorical, numeric : as in `Moments.from_rows`; levels are found on the way
    outcome : the column of which is kept, beside moments, which whole numbers it takes

    Rows are kept until a block of them is full (16 to 48 MB, and the batch that fills it), then only their moments are.
    Accumulators of different rows can be merged, and sent elsewhere with pickle.
    """

    def __init__(
        self,
        columns: Sequence[str],
        environment: str,
        *,
        missing: str = "error",
        categorical: Any = "auto",
        numeric: Sequence[str] = (),
        outcome: str | None = None,
    ) -> None:
        self.columns = tuple(listed_names("columns", columns))
        check_unique([*self.columns, environment], "columns and environment")
        check_missing_argument(missing)
        known_columns("outcome", [] if outcome is None else [outcome], self.columns)
        self.environment = environment
        self.missing = missing
        self.outcome = outcome
        self.choices = Choices.of(self.columns, categorical, numeric)
        self.tally = Tally(len(self.columns))
        self.refused: dict[str, Refusal] = {}
        self.levels: dict[str, Levels] = {}
        self._kinds: dict[str, str] = {}
        self._wide: dict[Column, int] = {}
        self._environments: dict[Hashable, int] = {}
        self._running: dict[Hashable, Running] = {}
        self._whole: dict[Hashable, WholeNumbers] = {}
        self._pending: list[Piece] = []
        self._n_pending = 0

    def __repr__(self) -> str:
        return (
            f"MomentsAccumulator({self.tally.n_rows} rows, {len(self.columns)} columns, "
            f"{len(self._environments)} environments)"
        )

    def add(self, batch: Any, copy: bool = True) -> MomentsAccumulator:
        """Count the rows of a record batch, or of a table, which has the columns and that of the environments; returns
        the accumulator. Without a copy, nobody may change the batch's memory before the accumulator is asked."""
        for piece in as_batches(batch):
            rows = self._rows_per_block
            most = 2 * rows  # a batch that is not much larger is not cut
            for start in range(0, piece.num_rows, most):
                self._take(piece if piece.num_rows <= most else piece.slice(start, most), copy)
                if self._n_pending >= rows:
                    self._settle()
        return self

    @property
    def _rows_per_block(self) -> int:
        d = max(len(self._wide), len(self.columns))
        rows = _BLOCK_BYTES // (8 * d)
        return max(_FEWEST_ROWS, rows, min(_ROWS_PER_COLUMN * d, 3 * rows))

    def _take(self, batch: pa.RecordBatch, copied: bool) -> None:
        place = {name: j for j, name in enumerate(batch.schema.names)}
        lacking = next((name for name in (*self.columns, self.environment) if name not in place), None)
        if lacking is not None:
            raise DataError(f"a batch of rows lacks the column {lacking!r}; {nearest(lacking, list(place))}")
        codes = self._codes(batch.column(place[self.environment]))
        arrays = batch.columns
        values = [self._values(arrays[place[name]], name) for name in self.columns]
        self._pending.append((list(map(np.array, values)) if copied else values, codes))
        self._n_pending += batch.num_rows
        self.tally.n_rows += batch.num_rows

    def _codes(self, labels: pa.Array) -> NDArray[np.int64]:
        """(n,) positions among the environments, -1 where there is no label"""
        codes, values = as_codes(labels)
        recoded, found = encode_labels(values)
        places = [self._environments.setdefault(label, len(self._environments)) for label in found]
        return np.array([*places, -1], np.int64)[np.append(recoded, -1)][codes]

    def _values(self, array: pa.Array, name: str) -> Floats:
        if self._kinds.get(name) == NUMBERS and is_plain(array):
            return np.asarray(array.to_numpy())
        kind = kind_of(array, name, name in self.choices.categorical, name in self.choices.numeric)
        if isinstance(kind, Refusal):
            self.refused.setdefault(name, kind)
        if isinstance(kind, Refusal) or name in self.refused:
            return np.zeros(len(array))
        if kind == NOTHING:
            return np.full(len(array), np.nan)
        known = self._kinds.setdefault(name, kind)
        if known != kind:
            raise DataError(changed_kind(name, known))
        if kind == LEVELS:
            return self._level_codes(array, name)
        if kind == NUMBERS:
            self._wide.setdefault(Column(name), len(self._wide))
            return as_numbers(array, name)
        assert kind == TEXT_AS_NUMBERS
        self._wide.setdefault(Column(name), len(self._wide))
        return numbers_of_text(array, name)

    def _level_codes(self, array: pa.Array, name: str) -> Floats:
        """(n,) places of the columns of levels, NaN where missing"""
        codes, values = as_codes(array)
        self.levels[name] = joined(self.levels.get(name), levels_of(array, values))
        columns = [Column(name, as_text(value)) for value in values]
        self._check_few(name, columns)
        places = [self._wide.setdefault(column, len(self._wide)) for column in columns]
        return np.array([*places, np.nan])[codes]

    def _check_few(self, name: str, found: Iterable[Column]) -> None:
        """Raise where a column is a list of names: products of all of its levels would fill any memory."""
        if name in self.choices.categorical:
            return
        n_levels = len({column for column in (*self._wide, *found) if column.name == name})
        if n_levels > MOST_LEVELS:
            levels = self.levels[name]
            more_rows = 2 * len(levels.texts)  # than would make the number of levels doubtful
            refuse(
                {**self.refused, name: doubtful(levels, more_rows, ".astype") or too_many_levels(levels)}, in_table=True
            )

    def settled(self) -> MomentsAccumulator:
        """The accumulator, after it has turned all rows into moments."""
        self._settle()
        for running in self._running.values():
            running.settle()
        return self

    def _settle(self) -> None:
        pending, self._pending, self._n_pending = self._pending, [], 0
        for pieces in in_blocks(pending, 3 * self._rows_per_block):
            self._settle_block(pieces)

    def _settle_block(self, pieces: list[Piece]) -> None:
        block, starts, places = self._block(pieces)
        kept: Any = slice(None)
        G = len(starts) - 2
        centre, rest, minimum, maximum = np.zeros((4, G + 1, len(block)))
        finite = describe_groups(block, starts, centre, minimum, maximum)
        if not finite or starts[G] < starts[G + 1]:
            kept = self.tally.screen(block, starts, tuple(self._environments))
            block = np.ascontiguousarray(block[:, kept])
            starts = np.concatenate([[0], np.cumsum(kept)])[starts]
            finite = False
        if tuple(self._wide) != tuple(map(Column, self.columns)):
            block, finite = self._widened(block), False
        if not finite:
            centre, rest, minimum, maximum = np.zeros((4, G + 1, len(block)))
            describe_groups(block, starts, centre, minimum, maximum)
        self._look_at_outcome(block, starts)
        at_ends = np.zeros((G + 1, 2, len(block)), np.int64)
        centre_groups(block, starts, centre, minimum, maximum, rest, at_ends)
        present = np.flatnonzero(starts[:G] < starts[1 : G + 1])
        self._check_memory(len(present))
        labels = tuple(self._environments)
        if sum(labels[g] not in self._running for g in present) > 1:
            # In the order of their first rows, as the environments of a table are.
            row_at = np.empty_like(places)
            row_at[places] = np.arange(len(places))
            present = present[np.argsort(row_at[kept][starts[present]])]
        for g in present.tolist():
            rows = slice(int(starts[g]), int(starts[g + 1]))
            running = self._of(labels[g])
            running.add(block, rows, centre[g], rest[g], minimum[g], maximum[g], at_ends[g])

    def _check_memory(self, n_more: int) -> None:
        n, d = len(self._running) + n_more, len(self._wide)
        free = free_bytes() if n * d * d > _MANY_NUMBERS else None
        if free is not None and 8 * n_more * d * d > free:
            raise DataError(
                f"environment column {self.environment!r} has {n} labels or more, and the second moments of {d} "
                "columns in each of them do not fit into memory: choose a column with fewer labels, or fewer features."
            )

    def _look_at_outcome(self, block: Floats, starts: NDArray[np.int64]) -> None:
        place = None if self.outcome is None else self._wide.get(Column(self.outcome))
        for g, label in enumerate(self._environments if place is not None else ()):
            if starts[g] < starts[g + 1]:
                self._whole.setdefault(label, WholeNumbers()).add(block[place, starts[g] : starts[g + 1]])

    def _block(self, pieces: list[Piece]) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
        """(r, n) rows sorted by environment, those without a label last; where each begins; (n,) each row's place"""
        codes = np.concatenate([codes for _, codes in pieces])
        n, n_groups = len(codes), len(self._environments) + 1
        starts, places = np.empty(n_groups + 1, np.int64), np.empty(n, np.int64)
        sort_groups(np.where(codes < 0, n_groups - 1, codes), starts, places)
        block = np.empty((len(self.columns), n))
        begin = 0
        for values, piece in pieces:
            for j, column in enumerate(values):
                put(column, places[begin : begin + len(piece)], block, j)
            begin += len(piece)
        return block, starts, places

    def _widened(self, block: Floats) -> Floats:
        """(d, n) with a row for each level that was met; columns that never had a value are gone with their rows."""
        rows = dict(zip(self.columns, block, strict=True))
        wide = np.empty((len(self._wide), block.shape[1]))
        for (name, level), place in self._wide.items():
            wide[place] = rows[name] if level is None else rows[name] == place
        return wide

    def _of(self, label: Hashable) -> Running:
        d = len(self._wide)
        known = self._running.get(label)
        running = Running(d) if known is None else known.in_columns(np.arange(len(known.centre)), d)
        self._running[label] = running
        return running

    def merge(self, other: MomentsAccumulator) -> MomentsAccumulator:
        """One of the rows of both; neither is changed, so that a task that runs twice counts its rows once."""
        self._settle()
        return copy.deepcopy(self).absorb(other)

    def absorb(self, other: MomentsAccumulator) -> MomentsAccumulator:
        """As `merge`, in place: for whoever knows that it is done once."""
        self._check_alike(other)
        self._settle()
        other._settle()
        self.tally = self.tally.merged(other.tally)
        self.refused, self._kinds = {**other.refused, **self.refused}, {**other._kinds, **self._kinds}
        for name, levels in other.levels.items():
            self.levels[name] = joined(self.levels.get(name), levels)
            self._check_few(name, other._wide)
        for label in other._environments:
            self._environments.setdefault(label, len(self._environments))
        places = [self._wide.setdefault(column, len(self._wide)) for column in other._wide]
        for label, running in other._running.items():
            own = np.array(places[: len(running.centre)], np.intp)
            self._of(label).absorb(running.in_columns(own, len(self._wide)))
        for label, numbers in other._whole.items():
            self._whole.setdefault(label, WholeNumbers()).absorb(numbers)
        return self

    def split(self) -> Iterator[tuple[Hashable | None, MomentsAccumulator]]:
        """What is of no environment in particular, under None, then each environment: merged, they are this again."""
        self._settle()
        rest = copy.copy(self)
        rest._running, rest._whole = {}, {}
        yield None, rest
        for label, running in self._running.items():
            one = MomentsAccumulator.__new__(MomentsAccumulator)
            one.__dict__.update(self.__dict__, tally=Tally(len(self.columns)), refused={}, levels={}, _kinds={})
            one._environments, one._running = {label: 0}, {label: running}
            one._whole = {key: numbers for key, numbers in self._whole.items() if key == label}
            yield label, one

    def relabelled(self, new: Mapping[Hashable, Hashable]) -> MomentsAccumulator:
        """One of the rows of these environments, {label: new label}; those with the same new one become one."""
        self._settle()
        chosen = copy.copy(self)
        chosen._environments, chosen._running, chosen._whole = {}, {}, {}
        for label in self._environments:
            if label in new:
                chosen._environments.setdefault(new[label], len(chosen._environments))
        for label in self._running:
            if label in new:
                chosen._of(new[label]).absorb(self._of(label))
        for label, numbers in self._whole.items():
            if label in new:
                chosen._whole.setdefault(new[label], WholeNumbers()).absorb(numbers)
        counts = dict(zip(self.environments, self.counts, strict=True))
        n_rows = sum(n for label, n in counts.items() if label in new) + self.tally.unlabelled
        chosen.tally = self.tally.relabelled(new, n_rows)
        chosen.levels = {name: chosen._occurring(name, levels) for name, levels in self.levels.items()}
        return chosen

    def _occurring(self, name: str, levels: Levels) -> Levels:
        """Those that some row has."""
        runnings = [self._of(label) for label in self._running]
        met = {
            column.level
            for column, place in self._wide.items()
            if column.name == name and any(running.maximum[place] > 0.0 for running in runnings)
        }
        return levels._replace(texts=tuple(text for text in levels.texts if text in met))

    def _check_alike(self, other: MomentsAccumulator) -> None:
        for setting in ("columns", "environment", "missing", "choices", "outcome"):
            if getattr(self, setting) != getattr(other, setting):
                raise DataError(f"cannot merge accumulators that differ in {setting}: make both with the same.")
        for name, kind in other._kinds.items():
            if self._kinds.get(name, kind) != kind:
                raise DataError(changed_kind(name, self._kinds[name]))

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return self.__dict__

    @property
    def environments(self) -> tuple[Hashable, ...]:
        """Labels in the order in which they first came, also of environments of which no row counts"""
        return tuple(self._environments)

    @property
    def counts(self) -> Integers:
        """(E,) rows of each, those that do not count among them"""
        self._settle()
        counted = {label: running.n_rows for label, running in self._running.items()}
        return np.array([counted.get(label, 0) + self.tally.left_out[label] for label in self._environments], np.int64)

    @property
    def whole_numbers(self) -> WholeNumbers:
        """Those that the outcome takes."""
        self._settle()
        total = WholeNumbers()
        for numbers in self._whole.values():
            total.absorb(numbers)
        return total

    @property
    def parts(self) -> dict[Hashable, Part]:
        """{label: moments of its rows}, in the order of their first rows; columns as in `wide_columns`"""
        self._settle()
        return {label: self._of(label).part() for label in self._running}

    @property
    def wide_columns(self) -> tuple[Column, ...]:
        return tuple(self._wide)

    def moments(self, outcome: str, groups: Any = None, is_text: bool = False, partial: bool = False) -> Moments:
        """Of all rows that were added, after the complaints that only all rows can justify. `partial` leaves those that
        other rows may settle to `Moments.checked`."""
        from .finishing import screened

        return screened(self, outcome, groups, is_text, partial=partial).moments(partial)
