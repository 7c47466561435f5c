"""Moments of rows that arrive in Arrow record batches, wherever they come from."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Fields, Floats, Integers, Labels, Mask, Names, Places
from .._tools.parallel import free_bytes
from ..data.basis import Dummies, SplineBasis
from ..data.checks import MISSING, check_known, check_scale, nearest, quoted
from ..data.columns import (
    ADVICE,
    MOST_WORDS,
    Choices,
    Levels,
    Refusal,
    coded,
    column_kind,
    doubtful,
    joined,
    reads_as_number,
    refuse,
    resolve_columns,
)
from ..data.encoding import ColumnSummary, Encoding, learn_encoding
from ..data.labels import encode_labels, level_of, tell_alike
from ..data.missing import Tally
from ..data.outcomes import OutcomeKind, at_two_values, number_kind
from ..data.settings import ALL_ENVIRONMENTS, Columns, Environments
from ..data.sources import TEXT, kind_of
from ..data.structure import refuse_design
from ..data.weights import Weights, repeated
from ..exceptions import DataError, SettingError, use
from .moments import EnvironmentMoments, Moments, add_rows, assembled, in_columns, merged, widened
from .sample import MAX_ROWS, MIN_ROWS, Keys, RowSample

if TYPE_CHECKING:
    import pyarrow as pa

# Rows that are turned into moments at once take at least so much, and more where columns are many.
_BLOCK_BYTES = 1 << 22
_FEWEST_ROWS = 256
_ROWS_PER_COLUMN = 6
# Second moments of which it is worth asking whether they fit into memory
_MANY_NUMBERS = 1 << 26
# Text with more different values, which nobody calls levels, is a list of names.
MOST_LEVELS = 1000
# Different whole numbers of the outcome that are kept: no count takes more.
_MOST_VALUES = 1 << 20
_SEED = 20_261_116


# Of a batch: positions (n,) among the labels of environments, -1 where there is none, values (n,)
# of each column, and keys (n,) by which rows are sampled
_Piece = tuple[NDArray[np.int64], list[Floats], Keys]


class MomentsColumn(NamedTuple):
    """One of the table or, where `level` is given, whether a row has that level of it, or `curve`
    of its spline."""

    name: str
    level: str | None = None
    curve: int = 0


@dataclass(frozen=True)
class Wanted:
    """What is asked of rows; names are those of columns.
    settings, choice : how columns are read, and which environments are used
    partial : whether there are other rows elsewhere
    features : names of columns, once it is known which there are
    splines : {column: its spline, None before its knots are known}"""

    outcome: str
    environment: str
    settings: Columns = field(default_factory=Columns)
    choice: Environments = ALL_ENVIRONMENTS
    missing: str = "error"
    partial: bool = False
    features: Names = ()
    splines: Mapping[str, SplineBasis | None] = field(default_factory=dict)

    def among(self, available: Sequence[str], where: str) -> Wanted:
        """Checked against the columns that there are."""
        check_known("missing", self.missing, MISSING)
        for setting, value in needing_the_table(self.missing, self.settings).items():
            what = f"{setting}={value!r} needs the whole table, and {where} is read in pieces"
            raise SettingError(f"{what}: use MultiEnvironmentData.from_table, or --no-stream.")
        refuse_design(self.environment, f"reading {where} in pieces")
        asked = self.outcome, self.environment, self.settings
        outcome, environment, features = resolve_columns(available, *asked, where)
        checked = replace(self, outcome=outcome, environment=environment, features=features)
        return replace(checked, splines=dict.fromkeys(checked.choices.splines))

    @cached_property
    def choices(self) -> Choices:
        """Checked against the features"""
        return Choices.of(self.settings, self.features)

    @property
    def columns(self) -> Names:
        return (*self.features, self.outcome)

    @property
    def read(self) -> Names:
        """The columns that are read."""
        weights = self.settings.weights
        return (*self.columns, self.environment, *([] if weights is None else [weights]))

    def accumulated(
        self,
        batches: Iterable[pa.RecordBatch] = (),
        limits: Mapping[Hashable, float] = MappingProxyType({}),
    ) -> MomentsAccumulator:
        rows = MomentsAccumulator(self)
        rows.limits |= limits
        return rows.extend(batches)

    def with_knots(self, rows: MomentsAccumulator) -> Wanted:
        """After a first pass over the rows, which says where the knots of the splines are."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the second pass warns of the same
            encoding = self.screened(rows).encoding
        assert encoding is not None
        return replace(
            self,
            splines={term.column: term for term in encoding.terms if isinstance(term, SplineBasis)},
        )

    def screened(self, rows: MomentsAccumulator) -> CheckedRows:
        """Make the complaints that need all rows, or all but those elsewhere if `partial`."""
        choices = self.choices
        features = self.features
        alike = tell_alike(rows.written_labels, self.environment)
        notes: Names = ()
        if self.choice.regroups:
            new, notes = self.choice.renamed(rows.environments, rows.counts)
            rows = rows.relabelled(new)
        parts = rows.parts
        columns = rows.wide_columns
        all_levels = rows.levels_among(frozenset(columns))
        levels = {name: each for name, each in all_levels.items() if name in features}
        missing = rows.tally.missing
        empty = {name for name, n in missing.items() if n == rows.tally.n_rows > 0}
        if parts and not self.partial:
            low = np.min([part.minimum for part in parts.values()], axis=0)
            high = np.max([part.maximum for part in parts.values()], axis=0)
            varying = {columns[j].name for j in np.flatnonzero(low < high)}
            empty |= {name for name, n in missing.items() if n and name not in varying}
        summary = ColumnSummary(rows.tally.n_rows, levels, rows.refused, empty)
        if len(getattr(rows.levels.get(self.outcome), "texts", ())) != 2:
            _check_numeric(rows)
        summary.check(features, choices, streamed=True)
        rows.tally.refuse_missing(features, self.environment, self.missing, choices.excluded)
        for part in parts.values():
            check_scale([column.name for column in columns], part.minimum, part.maximum)
        counts = np.array([part.n_rows for part in parts.values()], np.int64)
        small, more = self.choice.too_small(tuple(parts), counts)
        if small:
            rows = rows.relabelled(
                {label: label for label in rows.environments if label not in small}
            )
        learnt: dict[str, dict[str, set[Hashable]]] = {
            name: {} for name in rows.levels if name in features
        }
        for label, part in rows.parts.items():
            for name, level, _ in _met(columns, [part]):
                if name in learnt and level is not None:
                    learnt[name].setdefault(level, set()).add(label)
        rows.tally.warn_of_dropped(features, tuple(rows.parts), choices.excluded)
        splines = {**self.splines, **rows.kept_values}
        taken = self.outcome, self.environment
        encoding = learn_encoding(features, choices, summary, learnt, splines, taken)
        return CheckedRows(rows, encoding, (*alike, *notes, *more))


def needing_the_table(missing: str, settings: Columns) -> Fields:
    """{setting: value} of those that need the whole table, which rows in pieces do not show"""
    whole = {"missing": "level"} if missing == "level" else {}
    return whole | {
        name: value for name in ("below_limit", "na") if (value := getattr(settings, name))
    }


class _Environment(NamedTuple):
    """values : {column of a spline without knots: its values}, and of the outcome the numbers that
    it takes, each once; NaN where one is not whole, below 0, or they are too many"""

    moments: EnvironmentMoments
    values: Mapping[str, Floats]


class MomentsAccumulator:
    """Counts, means, ranges and products of columns in each environment, of rows that arrive in
    pieces. Levels are found on the way; complaints are made at the end, once, by
    `Wanted.screened`.

    Of a batch its moments are kept, and a sample of its rows. Accumulators of different rows can
    be merged, and sent elsewhere with pickle.
    """

    def __init__(self, wanted: Wanted) -> None:
        weights = wanted.settings.weights
        self.wanted = wanted
        self.weights = None if weights is None else Weights(weights)
        self.columns = wanted.columns
        self.choices = wanted.choices
        self.tally = Tally(self.columns)
        self.refused: dict[str, Refusal] = {}
        self.levels: dict[str, Levels] = {}
        self._wide: dict[MomentsColumn, int] = {}
        self._labels: dict[Hashable, int] = {}
        self.written_labels: set[str] = set()
        self._environments: dict[Hashable, _Environment] = {}
        # Keys of rows above which other rows of their environment keep them out of the sample
        self.limits: dict[Hashable, float] = {}
        self._rng: np.random.Generator | None = None
        self._drawn = [RowSample(np.empty(0, np.intp), np.empty(0, np.float32), np.empty((0, 0)))]
        self._n_drawn = 0

    def extend(self, batches: Iterable[pa.RecordBatch]) -> MomentsAccumulator:
        """Count the rows of batches, which have the columns, those of the environments and of
        weights, in blocks of 4 to 48 MB; returns the accumulator."""
        pieces: list[_Piece] = []
        for batch in chain.from_iterable(map(self._as_counted, batches)):
            d = max(len(self._wide), len(self.columns))
            room = _BLOCK_BYTES // (8 * d)
            fewest = max(_FEWEST_ROWS, room, min(_ROWS_PER_COLUMN * d, 12 * room))
            most = max(fewest, 8 * room)
            for start in range(0, batch.num_rows, most):
                piece = batch.slice(start, most)
                arrays = dict(zip(piece.schema.names, piece.columns, strict=True))
                environment = self.wanted.environment
                lacking = next(
                    (name for name in (*self.columns, environment) if name not in arrays), None
                )
                if lacking is not None:
                    raise DataError(
                        f"a batch of rows lacks the column {lacking!r}; "
                        f"{nearest(lacking, list(arrays))}"
                    )
                self.tally.n_rows += piece.num_rows
                codes = self._codes(arrays[environment])
                values = [self._values(arrays[name], name) for name in self.columns]
                pieces.append((codes, values, self._keys(values)))
                if sum(len(codes) for codes, *_ in pieces) >= fewest:
                    self._count(pieces)
                    pieces = []
        self._count(pieces)
        return self

    def _keys(self, values: Sequence[Floats]) -> Keys:
        """(n,) random numbers of the next rows, which do not depend on how batches are cut; other
        ones for rows that begin with other values"""
        if self._rng is None:
            first = np.array([column[0] for column in values], float)
            self._rng = np.random.Generator(np.random.SFC64([_SEED, *first.view(np.uint64)]))
        return self._rng.random(len(values[0]), dtype=np.float32)

    def _as_counted(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Its rows as often as they count"""
        if self.weights is None:
            return [batch]
        batches, counted = repeated(batch, self.weights.column)
        self.weights += counted
        return batches

    def _codes(self, labels: pa.Array) -> NDArray[np.int64]:
        """(n,) positions among the labels of environments, -1 where there is none"""
        codes, values = _distinct(labels)
        found = values.to_pylist()
        self.written_labels.update(label for label in found if isinstance(label, str))
        recoded, different = encode_labels(found)
        places = [self._labels.setdefault(label, len(self._labels)) for label in different]
        return np.array([*places, -1], np.int64)[np.append(recoded, -1)][codes]

    def _values(self, array: pa.Array, name: str) -> Floats:
        """(n,) numbers, or places of the columns of levels; NaN where missing"""
        if name in self.refused:
            return np.zeros(len(array))
        chosen = name in self.choices.categorical
        if (
            type(array).__name__ == "DoubleArray" and not array.null_count and not chosen
        ):  # as most are
            self._add_numbers(name)
            return np.asarray(array.to_numpy())
        import pyarrow as pa
        from pyarrow import types

        if len(array) == array.null_count:
            return np.full(len(array), np.nan)
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
        if MomentsColumn(name) not in self._wide:
            basis = self.wanted.splines.get(name)
            for curve in range(len(basis.names) if basis else 1):
                self._wide[MomentsColumn(name, curve=curve)] = len(self._wide)
            self._check_column(name)

    def _level_places(self, array: pa.Array, values: pa.Array, name: str) -> Floats:
        """(k,) places of the columns of the different values of a column, NaN where these are
        missing"""
        declared = hasattr(array, "dictionary")
        ordered = array.dictionary.to_pylist() if declared and array.type.ordered else []
        found, levels = coded(
            values.to_pylist(), [level_of(value) for value in ordered if value is not None]
        )
        self.levels[name] = joined(self.levels.get(name), levels._replace(declared=declared))
        columns = [
            None if np.isnan(k) else MomentsColumn(name, levels.texts[int(k)]) for k in found
        ]
        places = [
            np.nan if c is None else self._wide.setdefault(c, len(self._wide)) for c in columns
        ]
        self._check_column(name)
        return np.array(places)

    def _check_column(self, name: str) -> None:
        """Raise where a column changes its kind, or is a list of names: products of all of its
        levels would fill any memory."""
        levels = self.levels.get(name)
        if levels is None:
            return
        if MomentsColumn(name) in self._wide:
            words = [text for text in levels.texts if not reads_as_number(text)]
            what = (
                f"column {name!r} holds numbers in some rows and text in others "
                f"({quoted(words or levels.texts, 4)})"
            )
            raise DataError(
                what, *([use(na=words[:MOST_WORDS])] if words else []), use(categorical=[name])
            )
        if (
            sum(column.name == name for column in self._wide) > MOST_LEVELS
            and name not in self.choices.categorical
        ):
            more_rows = 2 * len(levels.texts)  # than would make the number of levels doubtful
            many = (
                f"is not numeric but has more than {MOST_LEVELS} different values (for example "
                f"{levels.texts[0]!r})"
            )
            doubt = doubtful(name, levels, more_rows) or Refusal(many, (use(categorical=[name]),))
            refuse({**self.refused, name: doubt}, streamed=True)

    def _count(self, pieces: Sequence[_Piece]) -> None:
        if not pieces:
            return
        codes = np.concatenate([codes for codes, *_ in pieces])
        keys = np.concatenate([keys for *_, keys in pieces])
        columns = list(zip(*(values for _, values, _ in pieces), strict=True))
        if (codes < 0).any() or not self._count_complete(codes, columns, keys):
            whole = list(map(np.concatenate, columns))
            kept = self.tally.screen(np.column_stack(whole), codes, self.environments)
            self._count_complete(codes[kept], [(column[kept],) for column in whole], keys[kept])

    def _count_complete(
        self,
        codes: NDArray[np.int64],
        columns: Sequence[Sequence[Floats]],
        keys: Keys,
    ) -> bool:
        """False, and nothing is counted, where a value is missing or infinite; columns : each in
        pieces"""
        if not len(codes):
            return True
        sizes = np.bincount(codes)
        present = np.flatnonzero(sizes)
        # Sorted by environment, with one more place after the rows of each, which `add_rows` fills.
        extended = np.append(codes, present).astype(
            np.min_scalar_type(len(self._labels))
        )  # fast for few
        order = np.argsort(extended, kind="stable")
        ends = np.cumsum(sizes[present] + 1) - 1
        begins = ends - sizes[present]
        block = np.empty((len(self._wide), len(order)))
        kept = {}
        for name, pieces in zip(self.columns, columns, strict=True):
            place = self._wide.get(MomentsColumn(name))
            values = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
            ordered = values.take(order, mode="wrap", out=None if place is None else block[place])
            if place is None and np.isnan(ordered).any():
                return False
            splines = self.wanted.splines
            if place is not None and (
                name == self.wanted.outcome or splines.get(name, name) is None
            ):
                kept[name] = ordered.copy()
            self._widen(name, ordered, block)
        edges = np.column_stack([begins, ends]).ravel()
        lowest, highest = (
            end.reduceat(block, edges, axis=1)[:, ::2] for end in (np.minimum, np.maximum)
        )
        if not (np.isfinite(lowest).all() and np.isfinite(highest).all()):
            return False
        every = self.environments
        labels = [every[code] for code in present]
        self._check_memory(labels)
        drawn = np.append(self._may_be_drawn(codes, keys), np.zeros(len(present), bool))
        at = np.flatnonzero(drawn.take(order))
        sampled = order[at]
        self._draw(RowSample(codes[sampled], keys[sampled], block[:, at].T))
        for g in np.argsort(
            order[begins]
        ):  # by their first rows, as the environments of a table are
            rows = slice(begins[g], ends[g])
            own = {name: column[rows] for name, column in kept.items()}
            known = self._environments.get(labels[g])
            before = None if known is None else widened(known.moments, len(block))
            moments = add_rows(
                before, block[:, begins[g] : ends[g] + 1], lowest[:, g], highest[:, g]
            )
            self._keep(labels[g], moments, own)
        return True

    def _may_be_drawn(self, codes: Integers, keys: Keys) -> Mask:
        """(n,) which rows of environments `codes` may be in the sample"""
        limits = np.array([self.limits.get(label, 1.0) for label in self._labels], np.float32)
        return np.asarray(keys <= limits[codes])

    def _draw(self, rows: RowSample) -> None:
        """Sample some of these rows, with the columns of this accumulator."""
        self._drawn.append(rows)
        self._n_drawn += rows.n_rows
        if self._n_drawn > 2 * max(MAX_ROWS, MIN_ROWS * len(self._labels)):
            self.sample()

    def sample(self) -> RowSample:
        """Of the rows that count; environments as in `environments`, columns as in
        `wide_columns`"""
        d = len(self._wide)
        parts = (part.in_columns(np.arange(part.values.shape[1]), d) for part in self._drawn)
        found = RowSample.joined(*parts).bounded()
        self._drawn = [found]
        self._n_drawn = found.n_rows
        labels = self.environments
        highest = np.zeros(len(labels), np.float32)
        np.maximum.at(highest, found.places, found.keys)
        for e in np.flatnonzero(np.bincount(found.places) >= found.size):
            self.limits[labels[e]] = highest[e]
        return found

    def _widen(self, name: str, values: Floats, block: Floats) -> None:
        """Into the block (d, n): which rows have each level of a column (n,) that was met, and
        curves of its spline. Columns that never had a value are gone with their rows."""
        basis = self.wanted.splines.get(name)
        for curve, own in enumerate([] if basis is None else basis.encode(values).T):
            block[self._wide[MomentsColumn(name, curve=curve)]] = own
        for level in getattr(self.levels.get(name), "texts", ()):
            place = self._wide.get(MomentsColumn(name, level))
            if place is not None:
                np.equal(values, place, out=block[place])

    def _keep(
        self, label: Hashable, moments: EnvironmentMoments, more: Mapping[str, Floats]
    ) -> None:
        """Values of more rows of an environment, all of whose rows have these moments"""
        both = dict(self._environments[label].values) if label in self._environments else {}
        for name, values in more.items():
            all_values = np.append(both.get(name, values[:0]), values)
            of_outcome = name == self.wanted.outcome
            both[name] = _whole_numbers(all_values) if of_outcome else all_values
        self._environments[label] = _Environment(moments, both)

    def _absorb(self, label: Hashable, rows: _Environment, moments: EnvironmentMoments) -> None:
        """More rows of an environment, which have these moments in all columns of this
        accumulator"""
        known = self._environments.get(label)
        if known is None:
            moments = moments._replace(scatter=moments.scatter.copy())
        else:
            before = widened(known.moments, len(self._wide))
            moments = merged(before, moments, out=np.require(before.scatter, requirements="W"))
        self._keep(label, moments, rows.values)

    def _check_memory(self, labels: Collection[Hashable]) -> None:
        n_more = len({*labels} - self._environments.keys())
        d = len(self._wide)
        n = len(self._environments) + n_more
        free = free_bytes() if n * d * d > _MANY_NUMBERS else None
        if free is not None and 8 * n_more * d * d > free:
            what = f"environment column {self.wanted.environment!r} has {n} labels or more"
            why = f"the second moments of {d} columns in each of them do not fit into memory"
            raise DataError(
                f"{what}, and {why}: choose a column with fewer labels, or fewer features."
            )

    def merge(self, other: MomentsAccumulator) -> MomentsAccumulator:
        """One of the rows of both; neither is changed, so that a task that runs twice counts its
        rows once."""
        return copy.deepcopy(self).absorb(other)

    def absorb(self, other: MomentsAccumulator) -> MomentsAccumulator:
        """As `merge`, in place; the other one, which was made with the same settings, is not
        changed."""
        self.tally.absorb(other.tally)
        self.weights = self.weights and other.weights and self.weights + other.weights
        self.refused = {**other.refused, **self.refused}
        self.written_labels |= other.written_labels
        for label in other._labels:
            self._labels.setdefault(label, len(self._labels))
        places = np.array(
            [self._wide.setdefault(column, len(self._wide)) for column in other._wide], np.intp
        )
        labels = np.array([self._labels[label] for label in other._labels], np.intp)
        d = len(self._wide)
        for part in other._drawn:
            more = part.choosing(labels)
            more = more.at(np.flatnonzero(self._may_be_drawn(more.places, more.keys)))
            self._draw(more.in_columns(places[: part.values.shape[1]], d))
        for name, levels in other.levels.items():
            self.levels[name] = joined(self.levels.get(name), levels)
        for name in self.levels:
            self._check_column(name)
        for label, rows in other._environments.items():
            self._absorb(
                label,
                rows,
                in_columns(rows.moments, places[: len(rows.moments.centre)], len(self._wide)),
            )
        return self

    def relabelled(self, new: Mapping[Hashable, Hashable]) -> MomentsAccumulator:
        """One of the rows of these environments, {label: new label}; those with the same new one
        become one."""
        chosen = copy.copy(self)
        labels = dict.fromkeys(new[label] for label in self._labels if label in new)
        chosen._labels = {label: j for j, label in enumerate(labels)}
        chosen._environments = {}
        for label, moments in self.parts.items():
            if label in new:
                chosen._absorb(new[label], self._environments[label], moments)
        sample = self.sample()
        codes = np.array([chosen._labels.get(new.get(label), -1) for label in self._labels])
        chosen._drawn = [sample.choosing(codes).bounded()]
        chosen.limits = {}
        counts = dict(zip(self.environments, self.counts, strict=True))
        n_rows = sum(n for label, n in counts.items() if label in new) + self.tally.left_out.get(
            None, 0
        )
        chosen.tally = self.tally.relabelled(new, n_rows)
        chosen.levels = chosen.levels_among(_met(chosen.wide_columns, chosen.parts.values()))
        return chosen

    @property
    def environments(self) -> Labels:
        """Labels in the order in which they first came, also of environments of which no row
        counts"""
        return tuple(self._labels)

    @property
    def counts(self) -> Integers:
        """(E,) rows of each, those that do not count among them"""
        counted = {label: rows.moments.n_rows for label, rows in self._environments.items()}
        left_out = self.tally.left_out
        return np.array(
            [counted.get(label, 0) + left_out.get(label, 0) for label in self._labels], np.int64
        )

    @property
    def kept_values(self) -> dict[str, Floats]:
        """{column of a spline without knots: its values in rows that count}, and of the outcome
        as `_Environment`"""
        parts = [rows.values for rows in self._environments.values()]
        return {
            name: np.concatenate([part[name] for part in parts if name in part])
            for name in parts[0]
        }

    def levels_among(self, columns: Collection[MomentsColumn]) -> dict[str, Levels]:
        """{column: its levels that are among these columns}"""
        return {
            name: levels._replace(
                texts=tuple(text for text in levels.texts if MomentsColumn(name, text) in columns)
            )
            for name, levels in self.levels.items()
        }

    @property
    def parts(self) -> dict[Hashable, EnvironmentMoments]:
        """{label: moments of its rows}, in the order of their first rows; columns as in
        `wide_columns`"""
        return {
            label: widened(rows.moments, len(self._wide))
            for label, rows in self._environments.items()
        }

    @property
    def wide_columns(self) -> tuple[MomentsColumn, ...]:
        return tuple(self._wide)


def _whole_numbers(values: Floats) -> Floats:
    """The different ones; NaN where one is not whole or below 0, or there are too many"""
    if not ((values >= 0.0) & (values == np.rint(values))).all():
        return np.array([np.nan])
    distinct = np.unique(values)
    return distinct if len(distinct) <= _MOST_VALUES else np.array([np.nan])


def _distinct(array: pa.Array) -> tuple[Places, pa.Array]:
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
class CheckedRows:
    """Checked rows; whether the outcome has two classes, or is constant in an environment, is
    checked later.
    rows : of the environments that are left; notes : about the others"""

    rows: MomentsAccumulator
    encoding: Encoding | None
    notes: Names

    @cached_property
    def outcome_kind(self) -> OutcomeKind:
        """As `invariance.data.outcomes` tells it of the same rows in memory"""
        rows = self.rows
        outcome = rows.wanted.outcome
        levels = rows.levels.get(outcome)
        if levels is not None:
            two = " and ".join(map(repr, levels.texts))
            return OutcomeKind("classes", f"{outcome} has two values: {two}")
        j = rows.wide_columns.index(MomentsColumn(outcome))
        pool = reduce(merged, (part.of_column(j) for part in rows.parts.values()))
        n, (centre,), (rest,), (low,), (high,), ((scatter,),) = pool
        mean = float(centre + rest)
        if at_two_values(n, low, high, mean, scatter):
            return OutcomeKind("classes", f"{outcome} has two values: {low:g} and {high:g}")
        whole = _whole_numbers(rows.kept_values[outcome])
        n_values = None if np.isnan(whole).any() else len(whole)
        variance = float(scatter) / n
        return number_kind(outcome, n, float(low), float(high), mean, variance, n_values)

    def moments(self, partial: bool = False) -> Moments:
        """partial : without the complaints of `Moments.checked`"""
        rows = self.rows
        encoding = self.encoding
        wanted = rows.wanted
        _check_numeric(rows)
        parts = rows.parts
        features = wanted.features if encoding is None else encoding.features.columns
        names = (*features, wanted.outcome)
        places = _places(rows.wide_columns, names, encoding)
        order = {label: e for e, label in enumerate(parts)}
        codes = np.array([order.get(label, -1) for label in rows.environments])
        sample = rows.sample().choosing(codes).in_columns(places, len(names))
        moments = assembled(
            names,
            len(features),
            tuple(parts),
            (in_columns(part, places, len(names)) for part in parts.values()),
            groups={} if encoding is None else dict(encoding.features.groups),
            encoding=encoding,
            dropped_rows=rows.tally.dropped,
            environment_notes=self.notes,
            kind=None if partial else self.outcome_kind,
            weights=rows.weights,
            sample=sample.bounded(),
        )
        return moments if partial else moments.checked(wanted.environment)


def _met(
    columns: Sequence[MomentsColumn], parts: Collection[EnvironmentMoments]
) -> list[MomentsColumn]:
    """Columns of levels that some row has"""
    return [
        column for j, column in enumerate(columns) if any(part.maximum[j] > 0.0 for part in parts)
    ]


def _check_numeric(rows: MomentsAccumulator) -> None:
    outcome = rows.wanted.outcome
    refusal = rows.refused.get(outcome)
    levels = rows.levels.get(outcome)
    if levels is not None:
        refusal = Refusal(f"is not numeric (for example {levels.texts[0]!r})")
    if refusal is not None:
        raise DataError(f"column {outcome!r} {refusal.reason}: {ADVICE['outcome']}.")


def _places(
    columns: tuple[MomentsColumn, ...], names: Names, encoding: Encoding | None
) -> Integers:
    """Where in the columns of the moments each column of the accumulator belongs, or -1"""
    at = {MomentsColumn(name): place for place, name in enumerate(names)}
    for term in () if encoding is None else encoding.terms:
        if isinstance(term, Dummies):
            compared = zip(
                term.levels[len(term.levels) - len(term.names) :], term.names, strict=True
            )
            at |= {MomentsColumn(term.column, level): names.index(n) for level, n in compared}
        elif isinstance(term, SplineBasis):
            at |= {
                MomentsColumn(term.column, curve=k): names.index(n)
                for k, n in enumerate(term.names)
            }
    return np.array([at.get(column, -1) for column in columns], np.intp)
