"""Moments of rows that arrive in Arrow record batches, wherever they come from."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers
from .._tools.parallel import free_bytes
from ..data.checks import (
    check_missing_argument,
    check_scale,
    check_unique,
    encode_labels,
    nearest,
    rows_text,
    with_counts,
)
from ..data.columns import (
    ADVICE,
    COUNTED_ROWS,
    Choices,
    Levels,
    Refusal,
    as_text,
    coded,
    column_kind,
    counts_rows,
    doubtful,
    joined,
    known_columns,
    not_listed,
    refuse,
)
from ..data.encoding import Encoding, Learner
from ..data.environments import ALL_ENVIRONMENTS, Environments
from ..data.missing import Tally
from ..data.outcomes import OutcomeKind, at_two_values, number_kind
from ..data.record_batches import TEXT, kind_of
from ..data.settings import listed_names
from ..data.terms import Dummies, SplineBasis
from ..exceptions import DataError, WrongTypeError, use
from ..kernels.dispatch import centre_groups, describe_groups, put, sort_groups
from .moments import Moments, assembled
from .parts import Part, Running, in_columns

if TYPE_CHECKING:
    import pyarrow as pa

# What a block of rows takes: large enough for products of matrices at their best, small enough for any machine.
_BLOCK_BYTES = 1 << 24
_FEWEST_ROWS = 256
# Where there are many columns: each block reads and writes the products of all pairs of them.
_ROWS_PER_COLUMN = 6
# Second moments of which it is worth asking whether they fit into memory
_MANY_NUMBERS = 1 << 26
# Text with more different values, which nobody calls levels, is a list of names.
MOST_LEVELS = 1000
# Different whole numbers of the outcome that are kept: no count takes more; and those that are counted by their place.
_MOST_VALUES, _SMALL = 1 << 20, 1 << 16
# Share by which the scatter of a column that counts rows may be off.
_ROUNDING = 1e-9

# Values (n,) of each column, and the positions (n,) of the rows' environments
Piece = tuple[list[Floats], NDArray[np.int64]]


class Column(NamedTuple):
    """A column of the moments: one of the table or, where `level` is given, whether a row has that level of it, or
    `curve` of its spline."""

    name: str
    level: str | None = None
    curve: int = 0


@dataclass
class _Rows:
    """Those of one environment. whole : (k,) numbers that the outcome takes, sorted, each once; None once one was not
    whole or below 0, or there were too many; values : {column of a spline without knots: its values}"""

    running: Running
    whole: Floats | None = field(default_factory=lambda: np.empty(0))
    values: dict[str, list[Floats]] = field(default_factory=dict)

    def look(self, outcome: Floats) -> None:
        """(n,) values of the outcome, from one on"""
        if self.whole is None:
            return
        if outcome.min() < 0.0 or (outcome != np.rint(outcome)).any():
            self.whole = None
            return
        small = outcome.max() < _SMALL
        self._join(np.flatnonzero(np.bincount(outcome.astype(np.intp))) if small else np.unique(outcome))

    def _join(self, found: Any) -> None:
        both = None if self.whole is None or found is None else np.union1d(self.whole, found)
        self.whole = both if both is not None and len(both) <= _MOST_VALUES else None

    def absorb(self, other: _Rows, running: Running) -> None:
        """running : that of the other, with the columns of this one"""
        self.running.absorb(running)
        self._join(other.whole)
        for name, values in other.values.items():
            self.values[name] = self.values.get(name, []) + values


class MomentsAccumulator:
    """Counts, means, ranges and products of columns in each environment, of rows that arrive in pieces.

    columns : names of the features and of the outcome; environment : name of the column of labels
    missing : "error" or "drop", as in `Moments.from_rows`; complaints are made at the end, once, by `moments`
    categorical, numeric : as in `Moments.from_rows`; levels are found on the way
    outcome : the column whose whole numbers are kept, besides moments
    splines : {column: its basis}; None where its knots are not placed, so that its values are kept

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
        splines: Mapping[str, SplineBasis | None] = MappingProxyType({}),
    ) -> None:
        self.columns = tuple(listed_names("columns", columns))
        check_unique([*self.columns, environment], "columns and environment")
        check_missing_argument(missing)
        known_columns("outcome", [] if outcome is None else [outcome], self.columns)
        self.environment = environment
        self.missing = missing
        self.outcome = outcome
        self.splines = dict(splines)
        self.choices = Choices.of(self.columns, categorical, numeric)
        self.tally = Tally(len(self.columns))
        self.refused: dict[str, Refusal] = {}
        self.levels: dict[str, Levels] = {}
        self._kinds: dict[str, str] = {}
        self._wide: dict[Column, int] = {}
        self._environments: dict[Hashable, int] = {}
        self._rows: dict[Hashable, _Rows] = {}
        self._pending: list[Piece] = []

    def __repr__(self) -> str:
        return (
            f"MomentsAccumulator({self.tally.n_rows} rows, {len(self.columns)} columns, "
            f"{len(self._environments)} environments)"
        )

    def add(self, batch: Any, copy: bool = True) -> MomentsAccumulator:
        """Count the rows of a record batch, or of a table, which has the columns and that of the environments; returns
        the accumulator. Without a copy, nobody may change the batch's memory before the accumulator is asked."""
        for piece in _batches(batch):
            rows = self._rows_per_block
            most = 2 * rows  # a batch that is not much larger is not cut
            for start in range(0, piece.num_rows, most):
                self._take(piece if piece.num_rows <= most else piece.slice(start, most), copy)
                if _n_rows(self._pending) >= rows:
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
        self.tally.n_rows += batch.num_rows

    def _codes(self, labels: pa.Array) -> NDArray[np.int64]:
        """(n,) positions among the environments, -1 where there is no label"""
        codes, values = _distinct(labels)
        recoded, found = encode_labels(values.to_pylist())
        places = [self._environments.setdefault(label, len(self._environments)) for label in found]
        return np.array([*places, -1], np.int64)[np.append(recoded, -1)][codes]

    def _values(self, array: pa.Array, name: str) -> Floats:
        """(n,) numbers, or places of the columns of levels; NaN where missing"""
        from pyarrow import lib, types

        if name in self.refused:
            return np.zeros(len(array))
        chosen = name in self.choices.categorical
        plain = array.type.id == lib.Type_DOUBLE and array.null_count == 0 and not chosen  # as most are
        if plain and self._kinds.get(name) == "numbers":
            return np.asarray(array.to_numpy())
        if len(array) == array.null_count:
            return np.full(len(array), np.nan)
        if plain:
            self._add_numbers(name)
            return np.asarray(array.to_numpy())
        array = getattr(array, "storage", array)  # of a type that a library defines
        is_text = kind_of(array.type) == TEXT or hasattr(array, "dictionary")
        by_levels = is_text or (chosen and not types.is_nested(array.type))
        codes, values = _distinct(array) if by_levels else (None, array)
        if by_levels and name not in self.choices.numeric:
            return np.append(self._level_places(array, values, name), np.nan)[codes]
        series = nw.from_native(_chunked(values), series_only=True)
        read = column_kind(series, name, self.choices)
        if isinstance(read, Refusal):
            self.refused[name] = read
            return np.zeros(len(array))
        self._add_numbers(name)
        numbers = read(series, name)
        return np.append(numbers, np.nan)[codes] if by_levels else np.array(numbers)

    def _add_numbers(self, name: str) -> None:
        """A column of numbers, and the curves of its spline"""
        self._check_kind(name, "numbers")
        self._wide.setdefault(Column(name), len(self._wide))
        basis = self.splines.get(name)
        for curve in range(1, len(basis.names) if basis else 0):
            self._wide.setdefault(Column(name, curve=curve), len(self._wide))

    def _level_places(self, array: pa.Array, values: pa.Array, name: str) -> Floats:
        """(k,) places of the columns of the different values of a column, NaN where these are missing"""
        self._check_kind(name, "levels")
        declared = hasattr(array, "dictionary")
        ordered = array.dictionary.to_pylist() if declared and array.type.ordered else []
        found, levels = coded(values.to_pylist(), [as_text(value) for value in ordered if value is not None])
        self.levels[name] = joined(self.levels.get(name), levels._replace(declared=declared))
        columns = [None if np.isnan(k) else Column(name, levels.texts[int(k)]) for k in found]
        self._check_few(name, filter(None, columns))
        return np.array([np.nan if c is None else self._wide.setdefault(c, len(self._wide)) for c in columns])

    def _check_kind(self, name: str, kind: str) -> None:
        known = self._kinds.setdefault(name, kind)
        if known != kind:
            raise DataError(f"column {name!r} holds numbers in some rows and text in others", use(categorical=[name]))

    def _check_few(self, name: str, found: Iterable[Column]) -> None:
        """Raise where a column is a list of names: products of all of its levels would fill any memory."""
        if name in self.choices.categorical:
            return
        n_levels = len({column for column in (*self._wide, *found) if column.name == name})
        if n_levels > MOST_LEVELS:
            levels = self.levels[name]
            more_rows = 2 * len(levels.texts)  # than would make the number of levels doubtful
            many = f"is not numeric but has more than {MOST_LEVELS} different values (for example {levels.texts[0]!r})"
            doubt = doubtful(levels, more_rows) or Refusal(many, categorical=True)
            refuse({**self.refused, name: doubt}, in_table=True)

    def settled(self) -> MomentsAccumulator:
        """The accumulator, after it has turned all rows into moments."""
        self._settle()
        for rows in self._rows.values():
            rows.running.settle()
        return self

    def _settle(self) -> None:
        pending, self._pending = self._pending, []
        most = 3 * self._rows_per_block
        if _n_rows(pending) <= most:
            if pending:
                self._settle_block(pending)
            return
        for values, codes in pending:  # levels on the way have made blocks smaller
            for start in range(0, len(codes), most):
                rows = slice(start, start + most)
                self._settle_block([([column[rows] for column in values], codes[rows])])

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
        unplaced = {name: block[self.columns.index(name)] for name, basis in self.splines.items() if basis is None}
        if tuple(self._wide) != tuple(map(Column, self.columns)):
            block, finite = self._widened(block), False
        if not finite:
            centre, rest, minimum, maximum = np.zeros((4, G + 1, len(block)))
            describe_groups(block, starts, centre, minimum, maximum)
        present = np.flatnonzero(starts[:G] < starts[1 : G + 1])
        self._check_memory(len(present))
        labels = tuple(self._environments)
        if sum(labels[g] not in self._rows for g in present) > 1:
            # In the order of their first rows, as the environments of a table are.
            row_at = np.empty_like(places)
            row_at[places] = np.arange(len(places))
            present = present[np.argsort(row_at[kept][starts[present]])]
        spans = [slice(int(starts[g]), int(starts[g + 1])) for g in present]
        rows = [self._of(labels[g]) for g in present]
        outcome = None if self.outcome is None else self._wide.get(Column(self.outcome))
        for own, span in zip(rows, spans, strict=True):
            if outcome is not None:
                own.look(block[outcome, span])
            for name, values in unplaced.items():
                own.values.setdefault(name, []).append(values[span].copy())
        at_ends = np.zeros((G + 1, 2, len(block)), np.int64)
        centre_groups(block, starts, centre, minimum, maximum, rest, at_ends)
        for g, own, span in zip(present, rows, spans, strict=True):
            own.running.add(block, span, centre[g], rest[g], minimum[g], maximum[g], at_ends[g])

    def _check_memory(self, n_more: int) -> None:
        n, d = len(self._rows) + n_more, len(self._wide)
        free = free_bytes() if n * d * d > _MANY_NUMBERS else None
        if free is not None and 8 * n_more * d * d > free:
            raise DataError(
                f"environment column {self.environment!r} has {n} labels or more, and the second moments of {d} "
                "columns in each of them do not fit into memory: choose a column with fewer labels, or fewer features."
            )

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
        """(d, n) with a row for each level that was met and each curve of a spline; columns that never had a value are
        gone with their rows."""
        rows = dict(zip(self.columns, block, strict=True))
        curves = {name: basis.encode(rows[name]) for name, basis in self.splines.items() if basis is not None}
        wide = np.empty((len(self._wide), block.shape[1]))
        for (name, level, curve), place in self._wide.items():
            if curve:
                wide[place] = curves[name][:, curve]
            else:
                wide[place] = rows[name] if level is None else rows[name] == place
        return wide

    def _of(self, label: Hashable) -> _Rows:
        d = len(self._wide)
        rows = self._rows.setdefault(label, _Rows(Running(0)))
        known = rows.running
        rows.running = known.in_columns(np.arange(len(known.centre)), d) if known.n_rows else Running(d)
        return rows

    def merge(self, other: MomentsAccumulator) -> MomentsAccumulator:
        """One of the rows of both; neither is changed, so that a task that runs twice counts its rows once."""
        self._settle()
        return copy.deepcopy(self).absorb(other)

    def absorb(self, other: MomentsAccumulator) -> MomentsAccumulator:
        """As `merge`, in place: for whoever knows that it is done once."""
        for setting in ("columns", "environment", "missing", "choices", "outcome", "splines"):
            if getattr(self, setting) != getattr(other, setting):
                raise DataError(f"cannot merge accumulators that differ in {setting}: make both with the same.")
        for name, kind in other._kinds.items():
            self._check_kind(name, kind)
        self._settle()
        other._settle()
        self.tally.absorb(other.tally)
        self.refused = {**other.refused, **self.refused}
        for name, levels in other.levels.items():
            self.levels[name] = joined(self.levels.get(name), levels)
            self._check_few(name, other._wide)
        for label in other._environments:
            self._environments.setdefault(label, len(self._environments))
        places = [self._wide.setdefault(column, len(self._wide)) for column in other._wide]
        for label, rows in other._rows.items():
            own = np.array(places[: len(rows.running.centre)], np.intp)
            self._of(label).absorb(rows, rows.running.in_columns(own, len(self._wide)))
        return self

    def split(self) -> Iterator[tuple[Hashable | None, MomentsAccumulator]]:
        """What is of no environment in particular, under None, then each environment: merged, they are this again."""
        self._settle()
        rest = copy.copy(self)
        rest._rows = {}
        yield None, rest
        for label, rows in self._rows.items():
            one = copy.copy(self)
            one.tally, one.refused, one.levels, one._kinds = Tally(len(self.columns)), {}, {}, {}
            one._environments, one._rows = {label: 0}, {label: rows}
            yield label, one

    def relabelled(self, new: Mapping[Hashable, Hashable]) -> MomentsAccumulator:
        """One of the rows of these environments, {label: new label}; those with the same new one become one."""
        self._settle()
        chosen = copy.copy(self)
        chosen._environments, chosen._rows = {}, {}
        for label in self._environments:
            if label in new:
                chosen._environments.setdefault(new[label], len(chosen._environments))
        for label in self._rows:
            if label in new:
                rows = self._of(label)
                chosen._of(new[label]).absorb(rows, rows.running)
        counts = dict(zip(self.environments, self.counts, strict=True))
        n_rows = sum(n for label, n in counts.items() if label in new) + self.tally.left_out.get(None, 0)
        chosen.tally = self.tally.relabelled(new, n_rows)
        chosen.levels = {name: chosen._occurring(name, levels) for name, levels in self.levels.items()}
        return chosen

    def _occurring(self, name: str, levels: Levels) -> Levels:
        """Those that some row has."""
        runnings = [self._of(label).running for label in self._rows]
        met = {
            column.level
            for column, place in self._wide.items()
            if column.name == name and any(running.maximum[place] > 0.0 for running in runnings)
        }
        return levels._replace(texts=tuple(text for text in levels.texts if text in met))

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
        counted = {label: rows.running.n_rows for label, rows in self._rows.items()}
        left_out = self.tally.left_out
        return np.array([counted.get(label, 0) + left_out.get(label, 0) for label in self._environments], np.int64)

    @property
    def n_whole_numbers(self) -> int | None:
        """How many the outcome takes; None where not all of its values are whole numbers from 0 on"""
        self._settle()
        total = _Rows(Running(0))
        for rows in self._rows.values():
            total._join(rows.whole)
        return None if total.whole is None else len(total.whole)

    @property
    def kept_values(self) -> dict[str, Floats]:
        """{column of a spline without knots: its values in rows that count}"""
        self._settle()
        names = [name for name, basis in self.splines.items() if basis is None]
        return {name: np.concatenate([v for rows in self._rows.values() for v in rows.values[name]]) for name in names}

    @property
    def parts(self) -> dict[Hashable, Part]:
        """{label: moments of its rows}, in the order of their first rows; columns as in `wide_columns`"""
        self._settle()
        return {label: self._of(label).running.part() for label in self._rows}

    @property
    def wide_columns(self) -> tuple[Column, ...]:
        return tuple(self._wide)

    def moments(self, outcome: str, groups: Any = None, is_text: bool = False, partial: bool = False) -> Moments:
        """Of all rows that were added, after the complaints that only all rows can justify. `partial` leaves those that
        other rows may settle to `Moments.checked`."""
        return screened(self, outcome, groups, is_text, partial=partial).moments(partial)


def _n_rows(pieces: Iterable[Piece]) -> int:
    return sum(len(codes) for _, codes in pieces)


def _batches(rows: Any) -> list[pa.RecordBatch]:
    """A record batch, or whatever gives such: tables of pyarrow, pandas, polars and others."""
    import pyarrow as pa

    if isinstance(rows, pa.RecordBatch):
        return [rows]
    if not isinstance(rows, pa.Table) and not hasattr(rows, "__arrow_c_stream__"):
        raise WrongTypeError(f"rows are record batches or tables, not {type(rows).__name__}: pass a data frame.")
    return list((rows if isinstance(rows, pa.Table) else pa.table(rows)).to_batches())


def _chunked(array: pa.Array) -> pa.ChunkedArray:
    import pyarrow as pa

    return pa.chunked_array([array])


def _distinct(array: pa.Array) -> tuple[NDArray[np.intp], pa.Array]:
    """Positions (n,), -1 where missing, among the different values that occur; and these values"""
    import pyarrow as pa

    array = getattr(array, "storage", array)
    if not hasattr(array, "dictionary"):
        array = array.dictionary_encode()
    codes = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    used = np.flatnonzero(np.bincount(codes + 1, minlength=len(array.dictionary) + 1)[1:])
    lookup = np.full(len(array.dictionary) + 1, -1, np.intp)
    lookup[used] = np.arange(len(used))
    return lookup[codes], array.dictionary.take(pa.array(used))


@dataclass(frozen=True, eq=False)
class Screened:
    """Rows after all complaints, but those about an outcome of two classes, or one that is constant somewhere.

    rows : of the environments that are left; notes : about the others; merged : {label: new label}
    """

    rows: MomentsAccumulator
    outcome: str
    encoding: Encoding | None
    notes: tuple[str, ...]
    merged: Mapping[Hashable, Hashable]

    @cached_property
    def outcome_kind(self) -> OutcomeKind:
        """As `invariance.data.outcomes` tells it of the same rows in memory"""
        levels = self.rows.levels.get(self.outcome)
        if levels is not None:
            return OutcomeKind("classes", f"{self.outcome} has two values: {' and '.join(map(repr, levels.texts))}")
        j = self.rows.wide_columns.index(Column(self.outcome))
        parts = list(self.rows.parts.values())
        n, low = sum(part.n_rows for part in parts), float(min(part.minimum[j] for part in parts))
        high, means = float(max(part.maximum[j] for part in parts)), [part.centre[j] + part.rest[j] for part in parts]
        mean = sum(part.n_rows * m for part, m in zip(parts, means, strict=True)) / n
        between = sum(part.n_rows * (m - mean) ** 2 for part, m in zip(parts, means, strict=True))
        if at_two_values(n, low, high, mean, sum(part.scatter[j, j] for part in parts) + between):
            return OutcomeKind("classes", f"{self.outcome} has two values: {low:g} and {high:g}")
        return number_kind(self.outcome, n, low, high, mean, self.rows.n_whole_numbers)

    def moments(self, partial: bool = False) -> Moments:
        """partial : without the complaints of `Moments.checked`"""
        rows, encoding = self.rows, self.encoding
        _check_numeric(rows, self.outcome)
        parts = rows.parts
        features = tuple(name for name in rows.columns if name != self.outcome)
        names = (*(features if encoding is None else encoding.features.columns), self.outcome)
        places = _places(rows.wide_columns, names, encoding)
        moments = assembled(
            names,
            names.index(self.outcome),
            tuple(parts),
            (_in_places(part, places, len(names)) for part in parts.values()),
            groups={} if encoding is None else dict(encoding.features.groups),
            encoding=encoding,
            dropped_rows=rows.tally.dropped,
            environment_notes=self.notes,
            merged=self.merged,
            kind=self.outcome_kind if rows.outcome == self.outcome and not partial else None,
        )
        return moments if partial else moments.checked(rows.environment)


def screened(
    rows: MomentsAccumulator,
    outcome: str,
    groups: Any,
    is_text: bool,
    choice: Environments = ALL_ENVIRONMENTS,
    partial: bool = False,
    excluded: Sequence[str] = (),
) -> Screened:
    """With the complaints that only all rows can justify; partial: of which some are elsewhere; excluded: columns that
    the user left out."""
    if outcome not in rows.columns:
        raise DataError(f"outcome column {outcome!r} is not among the columns; {nearest(outcome, rows.columns)}")
    features = tuple(name for name in rows.columns if name != outcome)
    choices = replace(rows.choices, groups=Choices.of(features, groups=groups).groups, excluded=tuple(excluded))
    one_valued = {} if partial else _one_valued(rows)
    notes: tuple[str, ...] = ()
    merged: dict[Hashable, Hashable] = {}
    if choice.regroups:
        new, notes = choice.renamed(rows.environments, rows.counts)
        names = set(choice.merge)
        merged = {label: name for label, name in new.items() if name in names}
        rows = rows.relabelled(new)
    parts, columns = rows.parts, rows.wide_columns
    learner = Learner(features, choices)
    learner.tell(
        rows.tally.n_rows,
        {name: levels for name, levels in rows.levels.items() if name in features},
        {name: [column.level for column in columns if column.name == name and column.level] for name in rows.levels},
        {name: refusal for name, refusal in {**one_valued, **rows.refused}.items() if name in features},
        {name for name, n in zip(rows.columns, rows.tally.missing, strict=True) if n == rows.tally.n_rows > 0},
        _row_numbers(parts, columns),
    )
    if len(getattr(rows.levels.get(outcome), "texts", ())) != 2:
        _check_numeric(rows, outcome)
    _check_stated(choices, parts, columns)
    learner.check()
    words = [name for name in rows.levels if is_text]
    rows.tally.complain(rows.columns, features, rows.environment, rows.missing, words, excluded)
    for part in parts.values():
        check_scale([column.name for column in columns], part.minimum, part.maximum)
    counts = np.array([part.n_rows for part in parts.values()], np.int64)
    small, more = choice.too_small(tuple(parts), counts, rows.tally.dropped)
    if small:
        rows = rows.relabelled({label: label for label in rows.environments if label not in small})
    learner.learn_of(_learnt(rows.parts, columns, features), {**rows.splines, **rows.kept_values})
    rows.tally.warn_of_dropped(rows.columns, features, tuple(rows.parts), excluded)
    learner.warn()
    return Screened(rows, outcome, learner.encoding((outcome, rows.environment)), (*notes, *more), merged)


def _one_valued(rows: MomentsAccumulator) -> dict[str, Refusal]:
    """Columns with missing values and one other value: they say nothing, and rows dropped for them are gone."""
    parts, found = list(rows.parts.values()), {}
    at = {column.name: place for place, column in enumerate(rows.wide_columns) if column == Column(column.name)}
    for j in np.flatnonzero(rows.tally.missing).tolist():
        name = rows.columns[j]
        if name in rows.levels:
            varies = len(rows.levels[name].texts) > 1
        else:
            ends = [(part.minimum[at[name]], part.maximum[at[name]]) for part in parts] if name in at else []
            varies = not ends or min(low for low, _ in ends) < max(high for _, high in ends)
        if not varies:
            found[name] = Refusal(f"has one value only, which is missing in {rows_text(int(rows.tally.missing[j]))}")
    return found


def _check_numeric(rows: MomentsAccumulator, outcome: str) -> None:
    refusal = rows.refused.get(outcome)
    if refusal is not None:
        raise DataError(f"column {outcome!r} {refusal.reason}: {ADVICE['outcome']}.")
    levels = rows.levels.get(outcome)
    if levels is not None:
        raise DataError(f"column {outcome!r} is not numeric (for example {levels.texts[0]!r}): {ADVICE['outcome']}.")


def _check_stated(choices: Choices, parts: Mapping[Hashable, Part], columns: tuple[Column, ...]) -> None:
    """Where the user lists the levels of a column, no others may occur."""
    for name, stated in choices.levels.items():
        places = {c.level: j for j, c in enumerate(columns) if c.name == name and c.level not in stated}
        counts = [round(sum(p.n_rows * (p.centre[j] + p.rest[j]) for p in parts.values())) for j in places.values()]
        strange = with_counts(list(places), counts)
        if strange:
            raise DataError(not_listed(name, strange))


def _learnt(
    parts: Mapping[Hashable, Part], columns: tuple[Column, ...], features: tuple[str, ...]
) -> dict[str, dict[str, set[Hashable]]]:
    """{column: {level: environments that have it}}"""
    learnt: dict[str, dict[str, set[Hashable]]] = {}
    for place, column in enumerate(columns):
        where = {label for label, part in parts.items() if part.maximum[place] > 0.0}
        if column.level is not None and column.name in features:
            learnt.setdefault(column.name, {})
            if where:
                learnt[column.name][column.level] = where
    return learnt


def _row_numbers(parts: Mapping[Hashable, Part], columns: tuple[Column, ...]) -> dict[str, Refusal]:
    """Columns that count the rows: the n whole numbers in a row have a scatter of their own, n(n² − 1)/12."""
    n = sum(part.n_rows for part in parts.values())
    if n < COUNTED_ROWS:
        return {}
    low = np.min([part.minimum for part in parts.values()], axis=0)
    high = np.max([part.maximum for part in parts.values()], axis=0)
    found = {}
    for j in np.flatnonzero(high - low == n - 1).tolist():
        middle = (low[j] + high[j]) / 2.0
        squares = sum(
            part.scatter[j, j] + part.n_rows * ((part.centre[j] - middle) + part.rest[j]) ** 2
            for part in parts.values()
        )
        is_number = columns[j] == Column(columns[j].name)
        if is_number and abs(squares / (n * (n * n - 1.0) / 12.0) - 1.0) < _ROUNDING:
            found[columns[j].name] = counts_rows(low[j], high[j])
    return found


def _places(columns: tuple[Column, ...], names: tuple[str, ...], encoding: Encoding | None) -> Integers:
    """Where in the columns of the moments each column of the accumulator belongs, or -1"""
    at = {Column(name): place for place, name in enumerate(names)}
    for term in () if encoding is None else encoding.terms:
        if isinstance(term, Dummies):
            compared = term.levels[len(term.levels) - len(term.names) :]
            at |= {Column(term.column, level): names.index(n) for level, n in zip(compared, term.names, strict=True)}
        elif isinstance(term, SplineBasis):
            at |= {Column(term.column, curve=k): names.index(n) for k, n in enumerate(term.names)}
    return np.array([at.get(column, -1) for column in columns], np.intp)


def _in_places(part: Part, places: Integers, d: int) -> Part:
    """Its columns at these places among d, without those at -1."""
    if np.array_equal(places, np.arange(d)):
        return part
    kept = np.flatnonzero(places >= 0)
    vectors: list[Any] = [values[..., kept] for values in part[1:-1]]
    return in_columns(Part._make([part.n_rows, *vectors, part.scatter[np.ix_(kept, kept)]]), places[kept], d)
