"""Moments of rows that arrive in Arrow record batches, wherever they come from."""

from __future__ import annotations

import copy
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
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
from ..data.encoding import Encoding, Found, learn_encoding
from ..data.missing import Tally
from ..data.outcomes import OutcomeKind, at_two_values, number_kind
from ..data.settings import ALL_ENVIRONMENTS, Columns, Environments, listed_names
from ..data.sources import TEXT, kind_of
from ..data.terms import Dummies, SplineBasis
from ..exceptions import DataError, WrongTypeError, use
from .moments import Moments, assembled
from .parts import Part, in_columns, merged, of_columns

if TYPE_CHECKING:
    import pyarrow as pa

# What rows take that are turned into moments at once; some more where columns are many, whose products take long.
_BLOCK_BYTES = 1 << 24
_FEWEST_ROWS = 256
_ROWS_PER_COLUMN = 6
# Second moments of which it is worth asking whether they fit into memory
_MANY_NUMBERS = 1 << 26
# Text with more different values, which nobody calls levels, is a list of names.
MOST_LEVELS = 1000
# Different whole numbers of the outcome that are kept: no count takes more.
_MOST_VALUES = 1 << 20
# Share by which the scatter of a column that counts rows may be off.
_ROUNDING = 1e-9


class Column(NamedTuple):
    """A column of the moments: one of the table or, where `level` is given, whether a row has that level of it, or
    `curve` of its spline."""

    name: str
    level: str | None = None
    curve: int = 0


@dataclass(frozen=True, eq=False)
class _Rows:
    """Those of one environment. whole : (k,) numbers that the outcome takes, sorted, each once; None once one was not
    whole or below 0, or there were too many; values : {column of a spline without knots: its values}"""

    part: Part
    whole: Floats | None
    values: Mapping[str, Floats]

    def merge(self, other: _Rows) -> _Rows:
        d = len(other.part.centre)
        values = {name: np.concatenate([kept, other.values[name]]) for name, kept in self.values.items()}
        return _Rows(merged(_widened(self.part, d), other.part), _union(self.whole, other.whole), values)


class _Sorted(NamedTuple):
    """Rows of a batch, sorted by environment. columns : (n,) values of each; groups : {environment: its rows}, in the
    order of their first rows"""

    columns: list[Floats]
    groups: dict[int, slice]

    @property
    def n_rows(self) -> int:
        return len(self.columns[0])


def _widened(part: Part, d: int) -> Part:
    """With columns that were met later, which are 0 in its rows, up to d"""
    return in_columns(part, np.arange(len(part.centre)), d)


def _union(first: Floats | None, second: Floats | None) -> Floats | None:
    both = None if first is None or second is None else np.union1d(first, second)
    return both if both is not None and len(both) <= _MOST_VALUES else None


class MomentsAccumulator:
    """Counts, means, ranges and products of columns in each environment, of rows that arrive in pieces.

    columns : names of the features and of the outcome; environment : name of the column of labels
    missing : "error" or "drop", as in `Moments.from_rows`; complaints are made at the end, once, by `moments`
    categorical, numeric : as in `Moments.from_rows`; levels are found on the way
    outcome : the column whose whole numbers are kept, besides moments
    splines : {column: its basis}; None where its knots are not placed, so that its values are kept

    Of a batch only its moments are kept. Accumulators of different rows can be merged, and sent elsewhere with pickle.
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
        self.choices = Choices.of(Columns(categorical=categorical, numeric=numeric), self.columns)
        self.tally = Tally(len(self.columns))
        self.refused: dict[str, Refusal] = {}
        self.levels: dict[str, Levels] = {}
        self._wide: dict[Column, int] = {}
        self._environments: dict[Hashable, int] = {}
        self._rows: dict[Hashable, _Rows] = {}

    def __repr__(self) -> str:
        return (
            f"MomentsAccumulator({self.tally.n_rows} rows, {len(self.columns)} columns, "
            f"{len(self._environments)} environments)"
        )

    def add(self, batch: Any) -> MomentsAccumulator:
        """Count the rows of a record batch, or of a table, which has the columns and that of the environments; returns
        the accumulator. `extend` takes less time for many small ones."""
        return self.extend([batch])

    def extend(self, batches: Iterable[Any]) -> MomentsAccumulator:
        """As `add`, of many batches, whose rows are collected to blocks of 16 to 48 MB."""
        waiting: list[_Sorted] = []
        for batch in (piece for each in batches for piece in _batches(each)):
            d = max(len(self._wide), len(self.columns))
            most = _BLOCK_BYTES // (8 * d)
            most = max(_FEWEST_ROWS, most, min(_ROWS_PER_COLUMN * d, 3 * most))
            for start in range(0, batch.num_rows, most):
                waiting.append(self._read(batch.slice(start, most)))
                if sum(piece.n_rows for piece in waiting) >= most:
                    self._count(waiting)
                    waiting = []
        self._count(waiting)
        return self

    def _read(self, batch: pa.RecordBatch) -> _Sorted:
        names = dict.fromkeys(batch.schema.names)
        lacking = next((name for name in (*self.columns, self.environment) if name not in names), None)
        if lacking is not None:
            raise DataError(f"a batch of rows lacks the column {lacking!r}; {nearest(lacking, list(names))}")
        codes = self._codes(batch.column(self.environment))
        values = [self._values(batch.column(name), name) for name in self.columns]
        self.tally.n_rows += batch.num_rows
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite([column.sum() for column in values]).all()
        if (codes < 0).any() or not finite:
            kept = self.tally.screen(np.column_stack(values), codes, self.environments)
            values, codes = [column[kept] for column in values], codes[kept]
        order = np.argsort(codes.astype(np.min_scalar_type(len(self._environments))), kind="stable")  # fast for few
        ends = np.append(np.flatnonzero(np.diff(codes[order], prepend=-1)), len(order)).tolist()
        groups = sorted(map(slice, ends, ends[1:]), key=lambda rows: order[rows.start])
        return _Sorted([column[order] for column in values], {int(codes[order[rows.start]]): rows for rows in groups})

    def _codes(self, labels: pa.Array) -> NDArray[np.int64]:
        """(n,) positions among the environments, -1 where there is no label"""
        codes, values = _distinct(labels)
        recoded, found = encode_labels(values.to_pylist())
        places = [self._environments.setdefault(label, len(self._environments)) for label in found]
        return np.array([*places, -1], np.int64)[np.append(recoded, -1)][codes]

    def _values(self, array: pa.Array, name: str) -> Floats:
        """(n,) numbers, or places of the columns of levels; NaN where missing"""
        import pyarrow as pa
        from pyarrow import types

        if name in self.refused:
            return np.zeros(len(array))
        if len(array) == array.null_count:
            return np.full(len(array), np.nan)
        chosen = name in self.choices.categorical
        if types.is_float64(array.type) and array.null_count == 0 and not chosen:  # as most are
            self._add_numbers(name)
            return np.asarray(array.to_numpy())
        array = getattr(array, "storage", array)  # of a type that a library defines
        is_text = kind_of(array.type) == TEXT or hasattr(array, "dictionary")
        by_levels = is_text or (chosen and not types.is_nested(array.type))
        codes, values = _distinct(array) if by_levels else (None, array)
        if by_levels and name not in self.choices.numeric:
            return np.append(self._level_places(array, values, name), np.nan)[codes]
        series = nw.from_native(pa.chunked_array([values]), series_only=True)
        read = column_kind(series, name, self.choices)
        if isinstance(read, Refusal):
            self.refused[name] = read
            return np.zeros(len(array))
        self._add_numbers(name)
        numbers = read(series, name)
        return np.append(numbers, np.nan)[codes] if by_levels else np.array(numbers)

    def _add_numbers(self, name: str) -> None:
        """A column of numbers, and the curves of its spline"""
        if Column(name) in self._wide:
            return
        self._wide[Column(name)] = len(self._wide)
        basis = self.splines.get(name)
        for curve in range(1, len(basis.names) if basis else 0):
            self._wide.setdefault(Column(name, curve=curve), len(self._wide))
        self._check_column(name)

    def _level_places(self, array: pa.Array, values: pa.Array, name: str) -> Floats:
        """(k,) places of the columns of the different values of a column, NaN where these are missing"""
        declared = hasattr(array, "dictionary")
        ordered = array.dictionary.to_pylist() if declared and array.type.ordered else []
        found, levels = coded(values.to_pylist(), [as_text(value) for value in ordered if value is not None])
        self.levels[name] = joined(self.levels.get(name), levels._replace(declared=declared))
        columns = [None if np.isnan(k) else Column(name, levels.texts[int(k)]) for k in found]
        places = [np.nan if c is None else self._wide.setdefault(c, len(self._wide)) for c in columns]
        self._check_column(name)
        return np.array(places)

    def _check_column(self, name: str) -> None:
        """Raise where a column changes its kind, or is a list of names: products of all of its levels would fill any
        memory."""
        if name in self.levels and Column(name) in self._wide:
            raise DataError(f"column {name!r} holds numbers in some rows and text in others", use(categorical=[name]))
        n_levels = sum(column.name == name for column in self._wide)
        if n_levels > MOST_LEVELS and name not in self.choices.categorical:
            levels = self.levels[name]
            more_rows = 2 * len(levels.texts)  # than would make the number of levels doubtful
            many = f"is not numeric but has more than {MOST_LEVELS} different values (for example {levels.texts[0]!r})"
            doubt = doubtful(name, levels, more_rows) or Refusal(many, (use(categorical=[name]),))
            refuse({**self.refused, name: doubt}, of_file=True)

    def _count(self, pieces: Sequence[_Sorted]) -> None:
        # In the order of their first rows, as the environments of a table are.
        codes = list(dict.fromkeys(code for piece in pieces for code in piece.groups))
        if not self._wide or not codes:
            return
        environments = self.environments
        labels = [environments[code] for code in codes]
        self._check_memory(labels)
        segments = [(piece.columns, piece.groups[code]) for code in codes for piece in pieces if code in piece.groups]
        block, kept = np.empty((len(self._wide), sum(piece.n_rows for piece in pieces))), {}
        for j, name in enumerate(self.columns):
            place = self._wide.get(Column(name))
            own = None if place is None else block[place]
            values = np.concatenate([columns[j][rows] for columns, rows in segments], out=own)
            self._widen(name, values, block)
            if place is not None and (name == self.outcome or self.splines.get(name, name) is None):
                kept[name] = values.copy()
        start = 0
        for code, label in zip(codes, labels, strict=True):
            n = sum(rows.stop - rows.start for rows in (piece.groups.get(code, slice(0, 0)) for piece in pieces))
            rows = slice(start, start + n)
            values = {name: column[rows] for name, column in kept.items()}
            whole = _whole_numbers(values.pop(self.outcome)) if self.outcome in values else np.empty(0)
            self._add_rows(label, _Rows(of_columns(block[:, rows]), whole, values))
            start += n

    def _widen(self, name: str, values: Floats, block: Floats) -> None:
        """Into the block (d, n): which rows have each level of a column (n,) that was met, and curves of its spline.
        Columns that never had a value are gone with their rows."""
        basis = self.splines.get(name)
        for curve, own in enumerate([] if basis is None else basis.encode(values).T):
            block[self._wide[Column(name, curve=curve)]] = own
        for level in getattr(self.levels.get(name), "texts", ()):
            place = self._wide.get(Column(name, level))
            if place is not None:
                np.equal(values, place, out=block[place])

    def _add_rows(self, label: Hashable, rows: _Rows) -> None:
        self._rows[label] = self._rows[label].merge(rows) if label in self._rows else rows

    def _check_memory(self, labels: Collection[Hashable]) -> None:
        n_more, d = len({*labels} - self._rows.keys()), len(self._wide)
        n = len(self._rows) + n_more
        free = free_bytes() if n * d * d > _MANY_NUMBERS else None
        if free is not None and 8 * n_more * d * d > free:
            raise DataError(
                f"environment column {self.environment!r} has {n} labels or more, and the second moments of {d} "
                "columns in each of them do not fit into memory: choose a column with fewer labels, or fewer features."
            )

    def merge(self, other: MomentsAccumulator) -> MomentsAccumulator:
        """One of the rows of both; neither is changed, so that a task that runs twice counts its rows once."""
        for setting in ("columns", "environment", "missing", "choices", "outcome", "splines"):
            if getattr(self, setting) != getattr(other, setting):
                raise DataError(f"cannot merge accumulators that differ in {setting}: make both with the same.")
        both = copy.copy(self)
        both.tally = copy.deepcopy(self.tally)
        both.tally.absorb(other.tally)
        both.refused = {**other.refused, **self.refused}
        both.levels = dict(self.levels)
        both._wide = {column: j for j, column in enumerate(dict.fromkeys((*self._wide, *other._wide)))}
        both._environments = {e: j for j, e in enumerate(dict.fromkeys((*self._environments, *other._environments)))}
        both._rows = dict(self._rows)
        for name, levels in other.levels.items():
            both.levels[name] = joined(self.levels.get(name), levels)
        for name in both.levels:
            both._check_column(name)
        places = np.array([both._wide[column] for column in other._wide], np.intp)
        for label, rows in other._rows.items():
            part = in_columns(rows.part, places[: len(rows.part.centre)], len(both._wide))
            both._add_rows(label, replace(rows, part=part))
        return both

    def relabelled(self, new: Mapping[Hashable, Hashable]) -> MomentsAccumulator:
        """One of the rows of these environments, {label: new label}; those with the same new one become one."""
        chosen = copy.copy(self)
        labels = dict.fromkeys(new[label] for label in self._environments if label in new)
        chosen._environments, chosen._rows = {label: j for j, label in enumerate(labels)}, {}
        for label, rows in self._rows.items():
            if label in new:
                chosen._add_rows(new[label], replace(rows, part=_widened(rows.part, len(self._wide))))
        counts = dict(zip(self.environments, self.counts, strict=True))
        n_rows = sum(n for label, n in counts.items() if label in new) + self.tally.left_out.get(None, 0)
        chosen.tally = self.tally.relabelled(new, n_rows)
        met = _met(chosen.wide_columns, chosen.parts.values())
        chosen.levels = {
            name: levels._replace(texts=tuple(text for text in levels.texts if Column(name, text) in met))
            for name, levels in self.levels.items()
        }
        return chosen

    @property
    def environments(self) -> tuple[Hashable, ...]:
        """Labels in the order in which they first came, also of environments of which no row counts"""
        return tuple(self._environments)

    @property
    def counts(self) -> Integers:
        """(E,) rows of each, those that do not count among them"""
        counted = {label: rows.part.n_rows for label, rows in self._rows.items()}
        left_out = self.tally.left_out
        return np.array([counted.get(label, 0) + left_out.get(label, 0) for label in self._environments], np.int64)

    @property
    def n_whole_numbers(self) -> int | None:
        """How many the outcome takes; None where not all of its values are whole numbers from 0 on"""
        whole = reduce(_union, [rows.whole for rows in self._rows.values()])
        return None if whole is None else len(whole)

    @property
    def kept_values(self) -> dict[str, Floats]:
        """{column of a spline without knots: its values in rows that count}"""
        names = [name for name, basis in self.splines.items() if basis is None]
        return {name: np.concatenate([rows.values[name] for rows in self._rows.values()]) for name in names}

    @property
    def parts(self) -> dict[Hashable, Part]:
        """{label: moments of its rows}, in the order of their first rows; columns as in `wide_columns`"""
        return {label: _widened(rows.part, len(self._wide)) for label, rows in self._rows.items()}

    @property
    def wide_columns(self) -> tuple[Column, ...]:
        return tuple(self._wide)

    def moments(self, outcome: str, groups: Any = None, partial: bool = False) -> Moments:
        """Of all rows that were added, after the complaints that only all rows can justify. `partial` leaves those that
        other rows may settle to `Moments.checked`."""
        return screened(self, outcome, Columns(groups=groups), partial=partial).moments(partial)


def _whole_numbers(values: Floats) -> Floats | None:
    """The different ones, or None where one is not whole or below 0"""
    return None if values.min() < 0.0 or (values != np.rint(values)).any() else _union(np.empty(0), values)


def _batches(rows: Any) -> list[pa.RecordBatch]:
    """A record batch, or whatever gives such: tables of pyarrow, pandas, polars and others."""
    import pyarrow as pa

    if isinstance(rows, pa.RecordBatch):
        return [rows]
    if not isinstance(rows, pa.Table) and not hasattr(rows, "__arrow_c_stream__"):
        raise WrongTypeError(f"rows are record batches or tables, not {type(rows).__name__}: pass a data frame.")
    return list((rows if isinstance(rows, pa.Table) else pa.table(rows)).to_batches())


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
    """Checked rows; whether the outcome has two classes, or is constant in an environment, is checked later.

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
        pool = reduce(merged, self.rows.parts.values())
        n, low, high, mean = pool.n_rows, *(float(v[j]) for v in (pool.minimum, pool.maximum, pool.centre + pool.rest))
        if at_two_values(n, low, high, mean, pool.scatter[j, j]):
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
            (in_columns(part, places, len(names)) for part in parts.values()),
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
    settings: Columns,
    choice: Environments = ALL_ENVIRONMENTS,
    partial: bool = False,
) -> Screened:
    """Checks that need all rows; partial: whether some of them are elsewhere; settings: groups of features, and what
    the user left out"""
    if outcome not in rows.columns:
        raise DataError(f"outcome column {outcome!r} is not among the columns; {nearest(outcome, rows.columns)}")
    features, excluded = tuple(name for name in rows.columns if name != outcome), tuple(settings.exclude)
    groups = Choices.of(Columns(groups=settings.groups), features).groups
    choices = replace(rows.choices, groups=groups, excluded=excluded)
    one_valued = {} if partial else _one_valued(rows)
    notes: tuple[str, ...] = ()
    into: dict[Hashable, Hashable] = {}
    if choice.regroups:
        new, notes = choice.renamed(rows.environments, rows.counts)
        into = {label: name for label, name in new.items() if name in set(choice.merge)}
        rows = rows.relabelled(new)
    parts, columns = rows.parts, rows.wide_columns
    met = {name: {column.level for column in columns if column.name == name} for name in rows.levels}
    levels = {
        name: each._replace(texts=tuple(text for text in each.texts if text in met[name]))
        for name, each in rows.levels.items()
        if name in features
    }
    empty = {name for name, n in zip(rows.columns, rows.tally.missing, strict=True) if n == rows.tally.n_rows > 0}
    row_numbers = {name: doubt for name, doubt in _row_numbers(rows).items() if name in features}
    found = Found(rows.tally.n_rows, levels, {**one_valued, **rows.refused}, empty, row_numbers)
    if len(getattr(rows.levels.get(outcome), "texts", ())) != 2:
        _check_numeric(rows, outcome)
    _check_stated(choices, rows)
    found.check(features, choices)
    rows.tally.complain(rows.columns, features, rows.environment, rows.missing, excluded)
    for part in parts.values():
        check_scale([column.name for column in columns], part.minimum, part.maximum)
    counts = np.array([part.n_rows for part in parts.values()], np.int64)
    small, more = choice.too_small(tuple(parts), counts, rows.tally.dropped)
    if small:
        rows = rows.relabelled({label: label for label in rows.environments if label not in small})
    learnt: dict[str, dict[str, set[Hashable]]] = {name: {} for name in rows.levels if name in features}
    for label, part in rows.parts.items():
        for name, level, _ in _met(columns, [part]):
            if name in learnt and level is not None:
                learnt[name].setdefault(level, set()).add(label)
    rows.tally.warn_of_dropped(rows.columns, features, tuple(rows.parts), excluded)
    splines = {**rows.splines, **rows.kept_values}
    encoding = learn_encoding(features, choices, found, learnt, splines, (outcome, rows.environment))
    return Screened(rows, outcome, encoding, (*notes, *more), into)


def _met(columns: Sequence[Column], parts: Collection[Part]) -> list[Column]:
    """Columns of levels that some row has"""
    return [column for j, column in enumerate(columns) if any(part.maximum[j] > 0.0 for part in parts)]


def _one_valued(rows: MomentsAccumulator) -> dict[str, Refusal]:
    """Columns with missing values and one other value: they say nothing, and rows dropped for them are gone."""
    found, parts = {}, rows.parts.values()
    for j in np.flatnonzero(rows.tally.missing).tolist():
        name = rows.columns[j]
        if name in rows.levels:
            varies = len(rows.levels[name].texts) > 1
        else:
            at = rows.wide_columns.index(Column(name)) if Column(name) in rows.wide_columns else None
            ends = set() if at is None else {float(end) for p in parts for end in (p.minimum[at], p.maximum[at])}
            varies = len(ends) != 1
        if not varies:
            found[name] = Refusal(f"has one value only, which is missing in {rows_text(int(rows.tally.missing[j]))}")
    return found


def _check_numeric(rows: MomentsAccumulator, outcome: str) -> None:
    refusal, levels = rows.refused.get(outcome), rows.levels.get(outcome)
    if levels is not None:
        refusal = Refusal(f"is not numeric (for example {levels.texts[0]!r})")
    if refusal is not None:
        raise DataError(f"column {outcome!r} {refusal.reason}: {ADVICE['outcome']}.")


def _check_stated(choices: Choices, rows: MomentsAccumulator) -> None:
    """Where the user lists the levels of a column, no others may occur."""
    parts = rows.parts.values()
    for name, stated in choices.levels.items():
        places = {c.level: j for j, c in enumerate(rows.wide_columns) if c.name == name and c.level not in stated}
        counts = [round(sum(p.n_rows * (p.centre[j] + p.rest[j]) for p in parts)) for j in places.values()]
        strange = with_counts(list(places), counts)
        if strange:
            raise DataError(not_listed(name, strange))


def _row_numbers(rows: MomentsAccumulator) -> dict[str, Refusal]:
    """Columns that count the rows: the n whole numbers in a row have a scatter of their own, n(n² − 1)/12."""
    parts = rows.parts.values()
    n = sum(part.n_rows for part in parts)
    if n < COUNTED_ROWS:
        return {}
    pool, found = reduce(merged, parts), {}
    for j in np.flatnonzero(pool.maximum - pool.minimum == n - 1).tolist():
        name, low, high = rows.wide_columns[j].name, pool.minimum[j], pool.maximum[j]
        squares = pool.scatter[j, j] + n * ((pool.centre[j] - (low + high) / 2.0) + pool.rest[j]) ** 2
        counts = abs(squares / (n * (n * n - 1.0) / 12.0) - 1.0) < _ROUNDING
        if counts and rows.wide_columns[j] == Column(name):
            found[name] = counts_rows(low, high)
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
