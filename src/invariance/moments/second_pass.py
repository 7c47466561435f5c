"""A second pass over the rows of moments: factors of the columns, fourth powers, and a sample of
rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import one_thread, ordered_map
from .._tools.progress import LOGGER, ProgressBar, ProgressMode
from .._tools.text import in_quotes
from ..data.checks import nearest, quoted
from ..data.columns import RawTable, text_as_numbers
from ..data.encoding import Encoding
from ..data.features import Features
from ..data.labels import label_of
from ..data.multi_environment import MultiEnvironmentData
from ..data.sources import RowSource, RowTask, source_of
from ..data.weights import repeated
from ..exceptions import DataError
from .fourth_moments import FourthMoments, FourthSum, most_columns, orthonormal

if TYPE_CHECKING:
    import pyarrow as pa

    from .moments import Moments

# Rows of an environment that are factored together, at least
_FACTORED_ROWS = 256
# Products over the same rows differ by rounding, which is less.
_SAME = 1e-6
_SEED = 20_261_116
# Of so many rows quantiles are known well enough for a picture; so many numbers are kept in all.
_MOST_ROWS = 10_000
_MOST_NUMBERS = 4_000_000
_FEWEST_ROWS = 100


@dataclass(frozen=True, eq=False)
class SampledRows:
    """columns : k names; places (n,) : environments; values (n, k) : rows, those of an environment
    as they were read"""

    columns: tuple[str, ...]
    places: NDArray[np.intp]
    values: Floats

    def choosing(self, kept: Integers) -> SampledRows:
        """Of the environments at the places `kept`, which ascend."""
        left = np.isin(self.places, kept)
        return SampledRows(
            self.columns, np.searchsorted(kept, self.places[left]), self.values[left]
        )


@dataclass(frozen=True, eq=False)
class SecondPassResult:
    """What rows tell besides their second moments, None where they were not read for it.
    roots : (E, m, d) factors of the centred products of all columns; fourths, sample : of some
        columns
    n_readings : how often the rows were read"""

    roots: Floats | None = None
    fourths: FourthMoments | None = None
    sample: SampledRows | None = None
    n_readings: int = 0

    def of_columns(self, order: Integers) -> SecondPassResult:
        """Of the columns of the moments at these places."""
        return self._with_roots(lambda roots: roots[:, :, order])

    def choosing(self, kept: Integers) -> SecondPassResult:
        """Of the environments at these places, which ascend."""
        return replace(
            self._with_roots(lambda roots: roots[kept]),
            fourths=None if self.fourths is None else self.fourths.choosing(kept),
            sample=None if self.sample is None else self.sample.choosing(kept),
        )

    def wider(self, k: int) -> SecondPassResult:
        """With k more columns that are constant in every environment."""
        return self._with_roots(lambda roots: np.pad(roots, ((0, 0), (0, 0), (0, k))))

    def _with_roots(self, change: Callable[[Floats], Floats]) -> SecondPassResult:
        return self if self.roots is None else replace(self, roots=change(self.roots))


def sampled_data(moments: Moments, columns: Collection[str]) -> MultiEnvironmentData | None:
    """The rows of the sample, with these columns of features; None where they were not sampled."""
    sample = None if moments.second is None else moments.second.sample
    if sample is None or not {*columns, moments.outcome_name} <= set(sample.columns):
        return None
    names = tuple(name for name in sample.columns if name in columns)
    groups = {
        name: tuple(c for c in members if c in columns) for name, members in moments.groups.items()
    }
    features = Features.of(names, {name: members for name, members in groups.items() if members})
    return MultiEnvironmentData(
        X=np.ascontiguousarray(sample.values[:, [sample.columns.index(name) for name in names]]),
        y=sample.values[:, sample.columns.index(moments.outcome_name)].copy(),
        environment_index=sample.places,
        feature_names=features.names,
        environments=moments.environments,
        outcome_name=moments.outcome_name,
        grouping=features,
        encoding=moments.encoding,
    )


class SampleSum:
    """Collects the `most` rows of each environment to which chance gives the smallest numbers: so
    any task can draw on its own, and what several drew is the sample of them all."""

    def __init__(self, counts: Integers, k: int, most: int) -> None:
        self._most = most
        self._kept = [[(np.empty(0), np.empty((0, k)))] for _ in counts]  # chances and rows of each
        self._limits = np.minimum(
            1.0, 2.0 * most / counts
        )  # chances above these are not among the smallest

    def add(self, e: int, values: Floats, deviations: Floats, chances: Floats) -> None:
        drawn = np.flatnonzero(chances < self._limits[e])
        self._kept[e].append((chances[drawn], values.T[drawn]))

    def merge(self, other: SampleSum) -> None:
        for own, parts in zip(self._kept, other._kept, strict=True):
            own += parts

    def sample(self, columns: tuple[str, ...]) -> SampledRows:
        sampled = []
        for parts in self._kept:
            chances, values = (np.concatenate(listed) for listed in zip(*parts, strict=True))
            sampled.append(values[np.sort(np.argsort(chances)[: self._most])])
        places = np.repeat(np.arange(len(sampled)), [*map(len, sampled)])
        return SampledRows(columns, places, np.concatenate(sampled))


class RootSum:
    """Collects, of k columns in E environments, the factors (E, k, k)."""

    def __init__(self, n_environments: int, k: int) -> None:
        self._k = k
        self._kept: list[list[Floats]] = [[] for _ in range(n_environments)]

    def add(self, e: int, values: Floats, deviations: Floats, chances: Floats) -> None:
        self._take(e, [deviations.T])

    def merge(self, other: RootSum) -> None:
        for e, parts in enumerate(other._kept):
            self._take(e, [_factor(parts, self._k)] if parts else [])

    def _take(self, e: int, parts: list[Floats]) -> None:
        kept = self._kept[e]
        kept += parts
        if sum(map(len, kept)) > max(_FACTORED_ROWS, 4 * self._k):
            kept[:] = [_factor(kept, self._k)]

    @property
    def roots(self) -> Floats:
        return np.array([_factor(parts, self._k) for parts in self._kept])


def _factor(parts: list[Floats], k: int) -> Floats:
    return np.asarray(np.linalg.qr(np.vstack([np.zeros((k, k)), *parts]), mode="r"))


class SecondPass:
    """Reads the rows that moments were computed from once more, or twice where second moments
    cannot decide every subset: for the factors of the columns, and then for fourth powers in the
    coordinates that these give.
    environment : the column of their labels; file_options : how files are written, as `source_of`
        takes it
    most_features : columns of features of which sums of fourth powers can be kept"""

    def __init__(
        self,
        moments: Moments,
        rows: Any,
        environment: str,
        n_jobs: int | None,
        file_options: Mapping[str, Any],
        progress: ProgressMode = False,
    ) -> None:
        words = () if moments.encoding is None else tuple(moments.encoding.of_levels)
        self._source = source_of(rows, **file_options, words=words, warn_unnamed=False)
        self._moments = moments
        self._environment = environment
        self._n_jobs = n_jobs
        self._progress = progress
        self.most_features = most_columns(moments.n_environments) - 1
        available = self._source.schema.names
        if environment not in available:
            what = f"{self._source.name} lacks the column of environments {environment!r}"
            raise DataError(f"{what}; {nearest(environment, available)}")
        lacking = [
            name for name in self._reading(moments, moments.columns).read if name not in available
        ]
        if lacking:
            raise _other_rows(self._source, f"it lacks the column {lacking[0]!r}")

    def with_factors(self) -> Moments:
        """The moments, with what decides subsets of nearly dependent columns."""
        if not self._source.rereadable:
            what = (
                f"columns nearly depend on each other: {self._source.name} is read twice, "
                "which can be done once"
            )
            raise DataError(f"{what}. Pass a file, a folder or a table.")
        n = self._moments.n_environments
        columns = self._moments.columns
        (found,) = self._reading(self._moments, columns).collect(lambda: [RootSum(n, len(columns))])
        return replace(self._moments, second=SecondPassResult(found.roots, n_readings=1))

    def with_fourth_moments(self, moments: Moments, columns: Collection[str]) -> Moments:
        """The moments, with fourth powers and a sample of these columns and of the outcome."""
        known = moments.second or SecondPassResult()
        names = tuple(
            name for name in moments.columns if name in columns or name == moments.outcome_name
        )
        coordinates, whitening = orthonormal(moments, moments.places(names), known.roots)
        E = moments.n_environments
        k = len(names)
        kept = min(_MOST_ROWS, max(_FEWEST_ROWS, _MOST_NUMBERS // (E * k)))

        def start() -> list[Any]:
            return [FourthSum(moments.counts, whitening), SampleSum(moments.counts, k, kept)]

        fourth, sample = self._reading(moments, names).collect(start)
        fourths = FourthMoments(names, moments.counts, coordinates, fourth.products)
        self._check(fourths, fourth.seconds, moments)
        roots = known.roots
        if roots is None and names == moments.columns:
            # The coordinates are nearly orthonormal: from their products factors keep the digits
            # that columns have.
            within = fourth.seconds[:, 1:, 1:]
            absent = np.einsum("ejj->ej", within) == 0.0
            roots = (
                np.linalg.cholesky(within + absent[:, None] * np.eye(k)).swapaxes(1, 2)
                @ coordinates
            )
        n_readings = known.n_readings + 1
        return replace(
            moments, second=SecondPassResult(roots, fourths, sample.sample(names), n_readings)
        )

    def _reading(self, moments: Moments, columns: tuple[str, ...]) -> _Reading:
        return _Reading(
            moments, self._source, self._environment, columns, self._n_jobs, self._progress
        )

    def _check(self, fourths: FourthMoments, seconds: Floats, moments: Moments) -> None:
        """Raise where means or second moments are not those that are known; seconds: of the
        coordinates of all rows"""
        at = moments.places(fourths.columns)
        for e, label in enumerate(moments.environments):
            columns = block_diag(np.sqrt(moments.counts[e]), fourths.coordinates[e])
            found = columns.T @ seconds[e] @ columns
            expected = np.zeros_like(found)
            expected[0, 0], expected[1:, 1:] = moments.counts[e], moments.scatter[e][np.ix_(at, at)]
            scale = np.sqrt(np.diagonal(expected))
            off = np.abs(found - expected) > _SAME * np.outer(scale, scale)
            alone = (off[0] | np.diagonal(off))[1:]
            wrong = alone if alone.any() else np.any(off, axis=0)[1:]
            if wrong.any():
                names = [fourths.columns[j] for j in np.flatnonzero(wrong)]
                found_in = f"in environment {in_quotes(label)} other values are in {quoted(names)}"
                raise _other_rows(self._source, found_in)


def _other_rows(source: RowSource, found: str) -> DataError:
    what = f"{source.name} is not what the moments were computed from: {found}"
    return DataError(f"{what}. Pass the same rows, or compute the moments again.")


@dataclass(frozen=True, eq=False)
class _Reading:
    """One reading of some columns of the moments."""

    moments: Moments
    source: RowSource
    environment: str
    columns: tuple[str, ...]
    n_jobs: int | None
    progress: ProgressMode

    def collect(self, start: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        """What the collectors make of all rows; start: makes those of a task.
        Tasks are fixed, and merged in their order: the result does not depend on n_jobs."""
        tasks = list(enumerate(self.source.tasks(self.environment, self.read)))
        total = start()
        counts = np.zeros(self.moments.n_environments, np.int64)

        LOGGER.info(
            "second reading of %s, for the tails of residuals and for intervals", self.source.name
        )
        with (
            ProgressBar(f"Reading {self.source.name} again", len(tasks), self.progress) as bar,
            one_thread(),
        ):
            for collectors, found in ordered_map(
                partial(self._read_task, start), tasks, self.n_jobs, 2
            ):
                counts += found
                for whole, part in zip(total, collectors, strict=True):
                    whole.merge(part)
                bar.advance()
        for label, n, known in zip(
            self.moments.environments, counts, self.moments.counts, strict=True
        ):
            if n != known:
                raise _other_rows(
                    self.source,
                    f"environment {in_quotes(label)} has {n:,} complete rows, not {known:,}",
                )
        return total

    def _read_task(
        self, start: Any, numbered: tuple[int, RowTask]
    ) -> tuple[Sequence[Any], NDArray[np.int64]]:
        (number, task), at = numbered, self.moments.places(self.columns)
        centre = self.moments.centre[:, at]
        rest = self.moments.rest[:, at]
        constant = ~self.moments.varies[:-1, at]
        collectors = start()
        # One number for each row, in their order: what is drawn does not depend on batches.
        rng = np.random.default_rng([_SEED, number])
        counts = np.zeros(self.moments.n_environments, np.int64)
        for places, values in self._batches(task):
            sizes = np.bincount(places, minlength=len(counts))
            chances = rng.random(len(places))
            first = 0
            counts += sizes
            order = np.argsort(
                places.astype(np.min_scalar_type(len(counts))), kind="stable"
            )  # fast for few
            values = values.take(order, axis=1)
            chances = chances[order]
            for e in np.flatnonzero(sizes).tolist():
                own = slice(first, first + sizes[e])
                deviations = values[:, own] - centre[e][:, None]
                deviations -= rest[e][:, None]
                deviations[constant[e]] = 0.0
                for collector in collectors:
                    collector.add(e, values[:, own], deviations, chances[own])
                first = own.stop
        return collectors, counts

    def _batches(self, task: RowTask) -> Iterator[tuple[NDArray[np.intp], Floats]]:
        """Environments (n,) and values (k, n) of complete rows of environments that are known"""
        import pyarrow as pa

        batches: Iterable[pa.RecordBatch] = task.batches([self.environment, *self.read])
        if self.moments.weights is not None:
            batches = (batch for batch, _ in repeated(batches, self.moments.weights.column))
        for batch in batches:
            table = pa.Table.from_batches([batch])
            places = self._places(table.column(self.environment))
            # Rows of other environments may hold levels that the encoding does not know.
            known = np.flatnonzero(places >= 0)
            if len(known):
                whole, values = self._complete(
                    table if len(known) == len(places) else table.take(known)
                )
                yield places[known[whole]], values

    def _places(self, labels: pa.ChunkedArray) -> NDArray[np.intp]:
        """(n,) -1 for rows without a label, and for other environments"""
        exact, written = self._known
        coded = labels.combine_chunks().dictionary_encode()
        labels = map(label_of, coded.dictionary.to_pylist())
        found = [exact.get(label, written.get(str(label), -1)) for label in labels]
        return np.array([*found, -1], dtype=np.intp)[
            coded.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
        ]

    @cached_property
    def _known(self) -> tuple[dict[Hashable, int], dict[str, int]]:
        """{label of the rows: place}, and the same of labels as text; rows that have the label of a
        merged environment belong to it only where they were merged into it."""
        places: dict[Hashable, int] = {
            label: e for e, label in enumerate(self.moments.environments)
        }
        merged = self.moments.merged
        made = set(merged.values())
        known = {label: e for label, e in places.items() if label not in made}
        known |= {label: places[new] for label, new in merged.items() if new in places}
        return known, {str(label): e for label, e in known.items()}

    def _complete(self, table: pa.Table) -> tuple[Mask, Floats]:
        """(n,) which rows have values in all columns `_needed`; their values (k, m) in `columns`"""
        import narwhals as nw

        frame = nw.from_native(table, eager_only=True)
        encoding = self._encoding
        plain = np.array([text_as_numbers(frame[name], name) for name in self._plain])
        raw = RawTable((), np.empty((len(table), 0))) if encoding is None else encoding.read(frame)
        whole = np.asarray(~(np.isnan(plain).any(axis=0) | np.isnan(raw.values).any(axis=1)))
        plain = plain if whole.all() else plain[:, whole]
        if tuple(self._plain) == self.columns:
            return whole, plain
        columns = dict(zip(self._plain, plain, strict=True))
        if encoding is not None:
            encoded = encoding.encode(replace(raw, values=raw.values[whole]))
            columns |= zip(encoding.features.columns, encoded.T, strict=True)
        return whole, np.array([columns[name] for name in self.columns])

    @cached_property
    def _needed(self) -> tuple[str, ...]:
        """All columns where rows were left out for missing values: which of them, any column may
        tell."""
        return (
            (*self.moments.columns, *self.moments.constants)
            if self.moments.dropped_rows
            else self.columns
        )

    @cached_property
    def _encoding(self) -> Encoding | None:
        """That of the features of which columns are needed; None where all columns are those of the
        table"""
        whole = self.moments.encoding
        needed = set(self._needed)
        if whole is None:
            return None
        members = tuple(
            own
            for own in whole.members
            if needed & {name for term in own[1] for name in term.names}
        )
        used = {term.column for _, terms in members for term in terms}
        return replace(
            whole, columns=tuple(name for name in whole.columns if name in used), members=members
        )

    @cached_property
    def _plain(self) -> list[str]:
        """Columns that are those of the table, the outcome among them"""
        made = () if self._encoding is None else set(self._encoding.features.columns)
        return [name for name in self._needed if name not in made]

    @property
    def read(self) -> list[str]:
        """Columns of the table"""
        weights = [] if self.moments.weights is None else [self.moments.weights.column]
        return [*(() if self._encoding is None else self._encoding.columns), *self._plain, *weights]
