"""Moments of rows that arrive in Arrow record batches, wherever they come from."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import free_bytes
from ..data.checks import (
    DROP_HINT,
    check_missing_argument,
    check_scale,
    check_unique,
    encode_labels,
    most_first,
    nearest,
    quoted,
    rows_text,
    warn,
    with_counts,
)
from ..data.columns import (
    ADVICE,
    COUNTED_ROWS,
    Choices,
    Levels,
    Refusal,
    as_text,
    beyond_double,
    counts_rows,
    doubtful,
    in_natural_order,
    joined,
    known_columns,
    not_listed,
    reads_as_number,
    refuse,
)
from ..data.encoding import Encoding, Learner
from ..data.environments import ALL_ENVIRONMENTS, EnvironmentChoice
from ..data.missing import MISSING_WORDS, NO_ROWS, WORTH_A_WARNING, WORTH_SAYING, Gaps, dropped_message
from ..data.outcomes import OutcomeKind, at_two_values, number_kind
from ..data.settings import listed_names
from ..data.terms import Dummies
from ..exceptions import DataError, WrongTypeError
from ..kernels.dispatch import centre_groups, describe_groups, put, sort_groups
from .moments import Moments, assembled
from .parts import Part, Running, in_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from .moments import Moments

_COUNTERS = ("rows_missing", "rows_infinite", "dropped", "left_out")


class Tally:
    """n_rows : seen so far; rows_missing, rows_infinite : {label: rows with such values}; None: rows without a label;
    dropped : {label: rows that lack something}; left_out : {label: rows that do not count}; gaps : of which columns
    rows lack values together"""

    def __init__(self, n_columns: int) -> None:
        self.n_rows = 0
        self._n_columns = n_columns
        # {label: (2, r) missing and infinite values of each column}
        self._values: dict[Hashable, Integers] = {}
        self.rows_missing: Counter[Hashable] = Counter()
        self.rows_infinite: Counter[Hashable] = Counter()
        self.dropped: Counter[Hashable] = Counter()
        self.left_out: Counter[Hashable] = Counter()
        self.gaps = Gaps()
        # {label: (2, r) lowest and highest value of each column in rows that do not count}
        self._ranges: dict[Hashable, Floats] = {}

    @property
    def missing(self) -> Integers:
        """(r,) values of each column"""
        return self._total[0]

    @property
    def infinite(self) -> Integers:
        """(r,) values of each column"""
        return self._total[1]

    @property
    def _total(self) -> Integers:
        return sum(self._values.values(), np.zeros((2, self._n_columns), np.int64))

    @property
    def unlabelled(self) -> int:
        return self.left_out[None]

    def screen(self, block: Floats, starts: Integers, labels: Sequence[Hashable]) -> Mask:
        """Count what is missing or infinite in a block (r, n) that is sorted by group, rows without a label last;
        (n,) the rows that count."""
        missing, infinite = np.isnan(block), np.isinf(block)
        lacks, beyond = np.asarray(missing.any(axis=0)), np.asarray(infinite.any(axis=0))
        unlabelled = np.arange(block.shape[1]) >= starts[len(labels)]
        kept = ~(lacks | beyond | unlabelled)
        for g, label in enumerate((*labels, None)):
            rows = slice(starts[g], starts[g + 1])
            if kept[rows].all():
                continue
            found = np.stack([missing[:, rows].sum(axis=1), infinite[:, rows].sum(axis=1)])
            self._values[label] = self._values.get(label, 0) + found
            self._look_at_gaps(block[:, rows][:, ~kept[rows]], label)
            counted = ((self.rows_missing, lacks), (self.rows_infinite, beyond), (self.dropped, lacks | unlabelled))
            for counter, wrong in (*counted, (self.left_out, ~kept)):
                if wrong[rows].any():
                    counter[label] += int(wrong[rows].sum())
        return kept

    def _look_at_gaps(self, block: Floats, label: Hashable) -> None:
        """(r, n) rows of an environment that do not count"""
        missing = np.isnan(block)
        lacks = missing.any(axis=0)
        if label is not None and lacks.any():
            self.gaps.add(missing[:, lacks].T, label)
        self._widen(label, np.fmin.reduce(block, axis=1), np.fmax.reduce(block, axis=1))

    def _widen(self, label: Hashable, lowest: Floats, highest: Floats) -> None:
        low, high = self._ranges.get(label, (lowest, highest))
        self._ranges[label] = np.stack([np.fmin(low, lowest), np.fmax(high, highest)])

    def vary(self, j: int, ends: Sequence[tuple[float, float]]) -> bool:
        """Whether column j, of numbers that have these lowest and highest values in the rows that count, has two values
        in all rows."""
        low, high = np.array([*ends, *(found[:, j] for found in self._ranges.values())]).T
        return bool(np.fmin.reduce(low) < np.fmax.reduce(high))

    def merged(self, other: Tally) -> Tally:
        both = Tally(self._n_columns)
        both.n_rows = self.n_rows + other.n_rows
        both._values = dict(self._values)
        for label, found in other._values.items():
            both._values[label] = both._values.get(label, 0) + found
        both.gaps = self.gaps.merged(other.gaps)
        both._ranges = dict(self._ranges)
        for label, (lowest, highest) in other._ranges.items():
            both._widen(label, lowest, highest)
        for name in _COUNTERS:
            setattr(both, name, getattr(self, name) + getattr(other, name))
        return both

    def relabelled(self, new: Mapping[Hashable, Hashable], n_rows: int) -> Tally:
        """Of the n_rows rows of these environments, under new labels, and of those without a label."""
        new = {**new, None: None}
        chosen = Tally(self._n_columns)
        chosen.n_rows = n_rows
        for label, found in self._values.items():
            if label in new:
                chosen._values[new[label]] = chosen._values.get(new[label], 0) + found
        chosen.gaps = self.gaps.relabelled(new)
        for label, (lowest, highest) in self._ranges.items():
            if label in new:
                chosen._widen(new[label], lowest, highest)
        for name in _COUNTERS:
            for label, count in getattr(self, name).items():
                if label in new:
                    getattr(chosen, name)[new[label]] += count
        return chosen

    def complain(
        self,
        columns: Sequence[str],
        environment: str,
        missing: str,
        words: Collection[str],
        environments: Sequence[Hashable],
        features: Sequence[str],
        excluded: Sequence[str],
    ) -> None:
        """Raise about what was counted; words: columns of levels that were read from a file; environments: those of
        which rows are left; features: columns that may be left out; excluded: those that are."""
        if self.n_rows == 0:
            raise DataError(NO_ROWS)
        if self.infinite.any():
            where = _located(columns, self.infinite, self.rows_infinite)
            raise DataError(f"infinite values (inf) in {where}. Replace them or remove those rows before fitting.")
        if missing == "error" and self.unlabelled:
            raise DataError(
                f"environment column {environment!r} has no label in {rows_text(self.unlabelled)}. {DROP_HINT}, or "
                "fill in the labels."
            )
        if missing == "error" and self.missing.any():
            where = _located(columns, self.missing, self.rows_missing)
            read = [name for name, count in zip(columns, self.missing, strict=True) if count and name in words]
            told = f" In {quoted(read)}, {MISSING_WORDS}" if read else ""
            advice = self._advice(columns, features, excluded)
            raise DataError(f"missing values (NaN) in {where}. {DROP_HINT}, or impute them first.{advice}{told}")
        if not environments:
            empty = [name for name, count in zip(columns, self.missing, strict=True) if count == self.n_rows]
            advice = f"{quoted(empty)} is missing in every row: leave it out" if empty else "impute them instead"
            few = self._advice(columns, features, excluded)
            raise DataError(f"no rows are left: all {rows_text(self.n_rows)} have missing values; {advice}.{few}")

    def tell_dropped(
        self,
        columns: Sequence[str],
        environments: Sequence[Hashable],
        features: Sequence[str],
        excluded: Sequence[str],
    ) -> None:
        """Warn of rows that were left out; as in `complain`."""
        if self.dropped:
            advice = self._advice(columns, features, excluded, share=WORTH_A_WARNING)
            warn(dropped_message(self.dropped, environments, self.n_rows) + (advice and f".{advice}"))

    def _advice(
        self, columns: Sequence[str], features: Sequence[str], excluded: Sequence[str], share: float = WORTH_SAYING
    ) -> str:
        n_lost = sum(self.dropped.values())
        return self.gaps.advice(columns, features, self.n_rows - n_lost, n_lost, excluded=excluded, share=share)


def _located(columns: Sequence[str], counts: Integers, rows: Counter[Hashable]) -> str:
    where = most_first(columns, counts)
    labels = [label for label in rows if label is not None]
    inside = with_counts(labels, [rows[label] for label in labels])
    return f"{where}; in environment {inside}" if inside else where


# Different values that are kept: no count takes more.
_MOST = 1 << 20
# Below this, numbers are told apart by their place.
_SMALL = 1 << 16


class WholeNumbers:
    """values : (k,) sorted, each once; None once a number was not whole or below 0, or there were too many"""

    def __init__(self) -> None:
        self.values: Floats | None = np.empty(0)

    def add(self, numbers: Floats) -> None:
        """(n,) from one on"""
        if self.values is None:
            return
        if numbers.min() < 0.0 or (numbers != np.rint(numbers)).any():
            self.values = None
            return
        small = numbers.max() < _SMALL
        found = np.flatnonzero(np.bincount(numbers.astype(np.intp))) if small else np.unique(numbers)
        self._join(found.astype(np.float64))

    def absorb(self, other: WholeNumbers) -> None:
        if other.values is None:
            self.values = None
        else:
            self._join(other.values)

    def _join(self, found: Floats) -> None:
        if self.values is None:
            return
        both = np.union1d(self.values, found)
        self.values = both if len(both) <= _MOST else None

    @property
    def n_values(self) -> int | None:
        return None if self.values is None else len(self.values)


NUMBERS, LEVELS, TEXT_AS_NUMBERS, NOTHING = "numbers", "levels", "text as numbers", "nothing"


def kind_of(array: pa.Array, name: str, categorical: bool, numeric: bool) -> str | Refusal:
    """How a column is read, or why it cannot be; NOTHING where all of its values are missing."""
    from pyarrow import types

    kind = _stored(array).type
    plain = kind.value_type if types.is_dictionary(kind) else kind
    if len(array) == array.null_count:
        return NOTHING
    if numeric:
        return TEXT_AS_NUMBERS
    if categorical and _hashable(plain):
        return LEVELS
    if types.is_dictionary(kind) or _is_text(kind):
        return LEVELS
    if types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return NUMBERS
    example = f"dtype {kind}, for example {_first(array)!r}"
    if types.is_temporal(kind):
        return Refusal(f"is not numeric ({example}) but holds dates or times", categorical=True)
    return Refusal(f"is not numeric ({example})", categorical=_hashable(plain))


def as_batches(rows: Any) -> list[pa.RecordBatch]:
    """A record batch, or whatever gives such: tables of pyarrow, pandas, polars and others."""
    import pyarrow as pa

    if isinstance(rows, pa.RecordBatch):
        return [rows]
    if not isinstance(rows, pa.Table) and not hasattr(rows, "__arrow_c_stream__"):
        raise WrongTypeError(
            f"rows come as record batches or tables, not as {type(rows).__name__}: pass a pyarrow.RecordBatch or a "
            "data frame."
        )
    return list((rows if isinstance(rows, pa.Table) else pa.table(rows)).to_batches())


def is_plain(array: pa.Array) -> bool:
    """Whether a column is float64 without a missing value, as most are."""
    from pyarrow import lib

    return bool(array.type.id == lib.Type_DOUBLE and array.null_count == 0)


def as_numbers(array: pa.Array, name: str) -> Floats:
    """(n,) with NaN where a value is missing; whole numbers that float64 cannot tell apart raise."""
    import pyarrow as pa
    from pyarrow import types

    array = _stored(array)
    if types.is_null(array.type):
        return np.full(len(array), np.nan)
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if not types.is_float64(array.type):
        try:
            array = array.cast(pa.float64())
        except pa.ArrowInvalid:
            raise DataError(beyond_double(name, _largest(array))) from None
    return np.array(array.to_numpy(zero_copy_only=False), dtype=np.float64)


def as_codes(array: pa.Array) -> tuple[NDArray[np.intp], list[Any]]:
    """Positions (n,), -1 where missing, in a list of the different values that occur."""
    import pyarrow as pa
    from pyarrow import types

    array = _stored(array)
    if not types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    used = np.flatnonzero(np.bincount(codes + 1, minlength=len(array.dictionary) + 1)[1:])
    values = array.dictionary.take(pa.array(used)).to_pylist()
    present = [value is not None and value == value for value in values]  # NaN is no value
    lookup = np.full(len(array.dictionary) + 1, -1, np.intp)
    lookup[used[present]] = np.arange(sum(present))
    return lookup[codes], [value for value, there in zip(values, present, strict=True) if there]


def numbers_of_text(array: pa.Array, name: str) -> Floats:
    """(n,) of a column that may hold numbers as text."""
    from pyarrow import types

    if not types.is_dictionary(_stored(array).type) and not _is_text(_stored(array).type):
        return as_numbers(array, name)
    codes, values = as_codes(array)
    wrong = next((value for value in values if not reads_as_number(value)), None)
    if wrong is not None:
        refuse({name: Refusal(f"is in numeric=, but {wrong!r} is not a number", claimed=True)}, in_table=True)
    return np.array([*map(float, values), np.nan])[codes]


def levels_of(array: pa.Array, values: list[Any]) -> Levels:
    """The levels that a piece of a column has; its different values are given."""
    from pyarrow import types

    texts: dict[str, frozenset[str]] = {}
    for value in values:
        text = as_text(value)
        texts[text] = texts.get(text, frozenset()) | ({value} if isinstance(value, str) else frozenset())
    array = _stored(array)
    declared = types.is_dictionary(array.type)
    written = {text: ways for text, ways in texts.items() if ways}
    if declared and array.type.ordered:
        listed = dict.fromkeys(as_text(value) for value in array.dictionary.to_pylist() if value is not None)
        return Levels(tuple(listed), True, declared, written)
    return Levels(tuple(in_natural_order(texts)), False, declared, written)


def _stored(array: pa.Array) -> pa.Array:
    """Of a type that a library defines, what it is made of."""
    return getattr(array, "storage", array)


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _hashable(kind: pa.DataType) -> bool:
    from pyarrow import types

    return not types.is_nested(kind)


def _first(array: pa.Array) -> Any:
    return next(value.as_py() for value in array if value.is_valid)


def _largest(array: pa.Array) -> Any:
    import pyarrow.compute as pc

    ends = pc.min_max(array).as_py()
    return max(ends.values(), key=abs)


# Text with more different values, which nobody calls levels, is a list of names.
MOST_LEVELS = 1000
# Values (n,) of each column, and the positions (n,) of the rows' environments
Piece = tuple[list[Floats], NDArray[np.int64]]


def in_blocks(pieces: list[Piece], rows: int) -> Iterator[list[Piece]]:
    """All of them where they have as many rows, or fewer; else blocks of so many rows, as levels on the way demand."""
    if sum(len(codes) for _, codes in pieces) <= rows:
        yield from [pieces] if pieces else []
        return
    for values, codes in pieces:
        for start in range(0, len(codes), rows):
            chosen = slice(start, start + rows)
            yield [([column[chosen] for column in values], codes[chosen])]


def too_many_levels(levels: Levels) -> Refusal:
    shown = f"is not numeric but has more than {MOST_LEVELS} different values (for example {levels.texts[0]!r})"
    return Refusal(shown, categorical=True)


def changed_kind(name: str, known: str) -> str:
    if known == LEVELS:
        return (
            f"column {name!r} holds text, or categories, in some rows and numbers in others: store it in one way, or "
            f"take its values as levels, categorical={[name]!r}."
        )
    return (
        f"column {name!r} holds numbers, or true and false, in the first rows of the file, and other values later on: "
        f"mend these, or take its values as levels, categorical={[name]!r}."
    )


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
        pass

        return screened(self, outcome, groups, is_text, partial=partial).moments(partial)


# Share by which the scatter of a column that counts rows may be off.
_ROUNDING = 1e-9
_CLASSES = 2


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

    @property
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
        return number_kind(self.outcome, n, low, high, mean, self.rows.whole_numbers.n_values)

    def moments(self, partial: bool = False) -> Moments:
        """partial : without the complaints of `Moments.checked`"""
        rows, encoding, features = self.rows, self.encoding, _features(self.rows, self.outcome)
        _check_numeric(rows, self.outcome)
        parts = rows.parts
        names, places, d = _places(rows.wide_columns, features, self.outcome, encoding)
        laid_out = (_in_places(part, places, d) for part in parts.values())
        moments = assembled(names, names.index(self.outcome), tuple(parts), laid_out)
        grouped = {} if encoding is None else dict(encoding.features.groups)
        moments = replace(moments, groups=grouped, encoding=encoding, dropped_rows=dict(rows.tally.dropped))
        moments = replace(moments, environment_notes=self.notes, merged=self.merged)
        if rows.outcome == self.outcome and not partial:
            moments = replace(moments, kind=self.outcome_kind)
        return moments if partial else moments.checked(rows.environment)


def _features(rows: MomentsAccumulator, outcome: str) -> tuple[str, ...]:
    return tuple(name for name in rows.columns if name != outcome)


def screened(
    rows: MomentsAccumulator,
    outcome: str,
    groups: Any,
    is_text: bool,
    choice: EnvironmentChoice = ALL_ENVIRONMENTS,
    partial: bool = False,
    excluded: Sequence[str] = (),
) -> Screened:
    """With the complaints that only all rows can justify; partial: of which some are elsewhere; excluded: columns that
    the user left out."""
    if outcome not in rows.columns:
        raise DataError(f"outcome column {outcome!r} is not among the columns; {nearest(outcome, rows.columns)}")
    features = _features(rows, outcome)
    choices = replace(rows.choices, groups=Choices.of(features, groups=groups).groups, excluded=tuple(excluded))
    _refuse_splines(choices)
    hollow = {} if partial else _one_valued(rows)
    rows, notes, merged = _regrouped(rows, choice)
    parts, columns = rows.parts, rows.wide_columns
    learner = Learner(features, choices)
    learner.tell(
        rows.tally.n_rows,
        {name: levels for name, levels in rows.levels.items() if name in features},
        {name: [level for column, level in columns if column == name and level is not None] for name in rows.levels},
        _learnt(parts, columns, features),
        {name: refusal for name, refusal in {**hollow, **rows.refused}.items() if name in features},
        {name for name, n in zip(rows.columns, rows.tally.missing, strict=True) if n == rows.tally.n_rows > 0},
        _row_numbers(parts, columns),
    )
    if len(getattr(rows.levels.get(outcome), "texts", ())) != _CLASSES:
        _check_numeric(rows, outcome)
    _check_stated(choices, parts, columns)
    learner.check()
    words = [name for name in rows.levels if is_text]
    rows.tally.complain(rows.columns, rows.environment, rows.missing, words, tuple(parts), features, excluded)
    for part in parts.values():
        check_scale([column.name for column in columns], part.minimum, part.maximum)
    small, more = choice.too_small(tuple(parts), _counts(parts), rows.tally.dropped)
    if small:
        rows = rows.relabelled({label: label for label in rows.environments if label not in small})
        learner.learn_of(_learnt(rows.parts, columns, features))
    rows.tally.tell_dropped(rows.columns, tuple(rows.parts), features, excluded)
    learner.warn()
    return Screened(rows, outcome, learner.encoding((outcome, rows.environment)), (*notes, *more), merged)


def _one_valued(rows: MomentsAccumulator) -> dict[str, Refusal]:
    """Columns with one value besides missing ones: they say nothing, and the rows that go for them cannot come back."""
    parts, found = rows.parts.values(), {}
    at = {name: place for place, (name, level) in enumerate(rows.wide_columns) if level is None}
    for j in np.flatnonzero(rows.tally.missing).tolist():
        name = rows.columns[j]
        if name in rows.levels:
            varies = len(rows.levels[name].texts) > 1
        else:
            ends = [(part.minimum[at[name]], part.maximum[at[name]]) for part in parts] if name in at else []
            varies = name not in at or rows.tally.vary(j, ends)
        if not varies:
            found[name] = Refusal(f"has one value only, which is missing in {rows_text(int(rows.tally.missing[j]))}")
    return found


def _regrouped(
    rows: MomentsAccumulator, choice: EnvironmentChoice
) -> tuple[MomentsAccumulator, tuple[str, ...], dict[Hashable, Hashable]]:
    """After environments were left out and merged; sentences about it, and {label: new label} of those merged"""
    if not choice.regroups:
        return rows, (), {}
    new, notes = choice.renamed(rows.environments, rows.counts)
    names = set(choice.merge)
    return rows.relabelled(new), notes, {label: name for label, name in new.items() if name in names}


def _counts(parts: Mapping[Hashable, Part]) -> Integers:
    return np.array([part.n_rows for part in parts.values()], np.int64)


def _refuse_splines(choices: Choices) -> None:
    for name in choices.splines:
        raise DataError(
            f"spline({name!r}) needs quantiles of all rows, which one look at rows that stay where they are does not "
            "give: use Moments.from_chunks(read_chunks(file, ...)), which reads the file twice."
        )


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
        places = {level: j for j, (column, level) in enumerate(columns) if column == name and level not in stated}
        counts = [round(sum(p.n_rows * (p.centre[j] + p.rest[j]) for p in parts.values())) for j in places.values()]
        strange = with_counts(list(places), counts)
        if strange:
            raise DataError(not_listed(name, strange))


def _learnt(
    parts: Mapping[Hashable, Part], columns: tuple[Column, ...], features: tuple[str, ...]
) -> dict[str, dict[str, set[Hashable]]]:
    """{column: {level: environments that have it}}"""
    learnt: dict[str, dict[str, set[Hashable]]] = {}
    for place, (name, level) in enumerate(columns):
        where = {label for label, part in parts.items() if part.maximum[place] > 0.0}
        if level is not None and name in features:
            learnt.setdefault(name, {})
            if where:
                learnt[name][level] = where
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
        if columns[j].level is None and abs(squares / (n * (n * n - 1.0) / 12.0) - 1.0) < _ROUNDING:
            found[columns[j].name] = counts_rows(low[j], high[j])
    return found


def _places(
    columns: tuple[Column, ...], features: tuple[str, ...], outcome: str, encoding: Encoding | None
) -> tuple[tuple[str, ...], Integers, int]:
    """Names of the d columns of the moments; where in them each column of the accumulator belongs, or -1; d"""
    names = (*(features if encoding is None else encoding.features.columns), outcome)
    wanted = {} if encoding is None else dict(_level_columns(encoding))
    at = {name: place for place, name in enumerate(names)}
    found = [at.get(name if level is None else wanted.get((name, level), ""), -1) for name, level in columns]
    return names, np.array(found, np.intp), len(names)


def _level_columns(encoding: Encoding) -> Iterator[tuple[tuple[str, str], str]]:
    """((column of the table, level), column of the moments)"""
    for column, term in encoding.of_levels.items():
        assert isinstance(term, Dummies)
        compared = term.levels[len(term.levels) - len(term.names) :]
        yield from (((column, level), name) for level, name in zip(compared, term.names, strict=True))


def _in_places(part: Part, places: Integers, d: int) -> Part:
    """Its columns at these places among d, without those at -1."""
    if np.array_equal(places, np.arange(d)):
        return part
    kept = np.flatnonzero(places >= 0)
    chosen = Part(
        part.n_rows,
        part.centre[kept],
        part.rest[kept],
        part.minimum[kept],
        part.maximum[kept],
        part.at_ends[:, kept],
        part.rounding[kept],
        part.scatter[np.ix_(kept, kept)],
    )
    return in_columns(chosen, places[kept], d)
