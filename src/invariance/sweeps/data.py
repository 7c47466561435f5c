"""The data of a sweep: second moments of all columns, and rows that perturb some outcomes."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import narwhals as nw
import numpy as np

from .._tools.arrays import Fields, Floats, Integers, Mask, Names
from .._tools.parallel import n_workers, one_thread
from .._tools.progress import ProgressMode
from ..data.checks import (
    SMALLEST_ENVIRONMENT,
    check_lengths,
    largest_size,
    nearest,
    quoted,
    rows_text,
    warn,
)
from ..data.columns import aligned, as_frame, free_name, label_list
from ..data.labels import encode_labels, level_of
from ..data.multi_environment import MultiEnvironmentData
from ..data.reading import TableFile, column_names, read_columns
from ..data.settings import Columns, Environments
from ..data.sources import RowSource, kind_of
from ..exceptions import DataError, SettingError, use
from ..models.gaussian import check_memory, moments_bytes
from ..moments.accumulator import Wanted
from ..moments.from_rows import of_source
from ..moments.moments import Moments, of_fewer_rows

_COLUMNS_AT_ONCE = 64
# What is left of a column's scatter when rows are removed must be known to this relative accuracy:
# far better than the smallest pivot that second moments may decide by.
_RESOLVED = 2e-11
# Between columns that are perturbed together.
_SEVERAL = re.compile(r"(\s*[;,|+&/]\s*)")


@dataclass(frozen=True, eq=False)
class SweepData:
    """Hold the moments of all columns, and rows that perturb outcomes.

    moments : of all rows, whichever column is the outcome
    rows : the same rows with the same outcome; None if all rows are used for every outcome
    perturbing : {outcome: positions among `rows` of the rows that perturb it, not used for it}
    identity : the origin of the data, in values that JSON can hold
    """

    moments: Moments
    rows: MultiEnvironmentData | None = None
    perturbing: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    identity: Mapping[str, Any] = field(default_factory=dict)

    def moments_for(self, outcome: str) -> tuple[Moments, Names]:
        """Return the moments of rows that do not perturb the outcome, and sentences on others."""
        perturbing = self.perturbing.get(outcome, ())
        emptied = np.flatnonzero(self._counts_without(perturbing) == 0) if perturbing else ()
        gone = [self.moments.environments[e] for e in emptied]
        if gone:
            told = f"Environment {quoted(gone)} left out: all its rows perturb {outcome!r}."
            moments, notes = self._without(gone, outcome).moments_for(outcome)
            return moments, (told, *notes)
        notes = self.left_out(outcome)
        left = self.reduced(outcome)
        if left is not None:
            return left, notes
        data = self._rows
        kept = np.delete(np.arange(data.n_rows), self.perturbing[outcome])
        X = np.ascontiguousarray(data.X[kept])
        index = data.environment_index[kept]
        rows = replace(data, X=X, y=data.y[kept], environment_index=index)
        remaining = Moments.from_data(rows).with_outcome(outcome)
        far = "Second moments come from the remaining rows: what was left out is far from them."
        return of_fewer_rows(remaining, ~remaining.varies[-1]), (*notes, far)

    def reduced(self, outcome: str, scatter: bool = True) -> Moments | None:
        """Return the moments of all rows minus the rows that perturb the outcome.

        None if the difference has too few digits. scatter : False does not compute it if the
        dropped rows do not make a column constant.
        """
        whole = self.moments
        rows = self.perturbing.get(outcome, ())
        if outcome in whole.constants:
            raise DataError(
                f"outcome {outcome!r} is constant: every row is {whole.constants[outcome]:g}."
            )
        turned = whole.with_outcome(outcome)
        if not rows:
            return turned if scatter else replace(turned, scatter=turned.scatter[:, :0, :0])
        counts = self._counts_without(rows)
        small = [whole.environments[e] for e in np.flatnonzero(counts < SMALLEST_ENVIRONMENT)]
        if small:
            fewer = (
                f"fewer than {SMALLEST_ENVIRONMENT} rows are left of environment {quoted(small)}"
            )
            what = f"without {rows_text(len(rows))} that perturb {outcome!r}, {fewer}"
            raise DataError(f"{what}: leave that environment out or merge it with another.")
        vectors, centre, rest = self.removal(outcome)
        minimum, maximum = self._ranges_without(rows)
        constant = np.vstack([minimum == maximum, minimum.min(axis=0) == maximum.max(axis=0)])
        before = np.diagonal(whole.scatter, axis1=1, axis2=2)
        left = np.where(constant, 0.0, before - np.sum(vectors**2, axis=0))
        rounding = np.finfo(float).eps * (np.sqrt(whole.group_counts[:, None]) + 8.0) * before
        if not (constant | (rounding <= _RESOLVED * left)).all():
            return None
        remaining = replace(
            turned,
            counts=counts,
            centre=np.where(constant[:-1], minimum, centre[:-1]),
            rest=np.where(constant[:-1], 0.0, rest[:-1]),
            minimum=minimum,
            maximum=maximum,
            scatter=whole.scatter[:, :0, :0],
            sample=None,
            kind=None,
        )
        became_constant = turned.varies[-1] & ~remaining.varies[-1]
        if not scatter and not became_constant.any() and not turned.features.grouped:
            return remaining
        remaining = replace(remaining, scatter=_less_products(whole.scatter, vectors, constant))
        return of_fewer_rows(remaining, became_constant)

    def _without(self, gone: Sequence[Hashable], outcome: str) -> SweepData:
        """Return the data of the other environments."""
        kept = [label for label in self.moments.environments if label not in gone]
        if not kept:
            raise DataError(f"every row perturbs {outcome!r}: nothing is left to fit.")
        places = [self.moments.environments.index(label) for label in kept]
        old = np.flatnonzero(np.isin(self._rows.environment_index, places))
        left = tuple(np.flatnonzero(np.isin(old, self.perturbing[outcome])).tolist())
        rows = self._rows.choosing(kept) if left else None
        return SweepData(self.moments.choosing(kept), rows, {outcome: left} if left else {})

    def largest_size(self, outcome: str) -> int:
        """Return the largest size of subsets that the rows not perturbing the outcome can fit."""
        turned = replace(self.moments, outcome=self.moments.columns.index(outcome))
        counts = self._counts_without(self.perturbing[outcome])
        left = counts > 0
        return largest_size(counts[left], turned.varying_widths[:-1][left]) if left.any() else 0

    def left_out(self, outcome: str) -> Names:
        """Return a sentence about the rows that perturb the outcome, if there are any."""
        n = len(self.perturbing.get(outcome, ()))
        return (f"{rows_text(n)} that perturb{'s' * (n == 1)} {outcome!r} left out.",) * (n > 0)

    def removal(self, outcome: str) -> tuple[Floats, Floats, Floats]:
        """Return vectors and means that remove the rows which perturb the outcome.

        The products of vectors (R, E + 1, d), summed, are subtracted from the scatter of each
        environment and of the pool; the means of the remaining rows are centre + rest (E + 1, d).
        """
        whole = self.moments
        counts = whole.group_counts.copy()
        rows = self.perturbing.get(outcome, ())
        centre = np.vstack([whole.centre, whole.centre[0]])
        rest = np.vstack([whole.rest, whole.rest[0] - whole.gaps[0]])
        vectors = np.zeros((len(rows), *centre.shape))
        for vector, row in zip(vectors, rows, strict=True):
            values = np.append(self._rows.X[row], self._rows.y[row])
            for g in (self._rows.environment_index[row], -1):
                deviation = (values - centre[g]) - rest[g]
                vector[g] = deviation * np.sqrt(counts[g] / (counts[g] - 1.0))
                rest[g] -= deviation / (counts[g] - 1.0)
                counts[g] -= 1.0
        return vectors, centre, rest

    def _ranges_without(self, rows: Sequence[int]) -> tuple[Floats, Floats]:
        """Return the lowest and highest values (E, d) of the remaining rows."""
        data = self._rows
        minimum = self.moments.minimum.copy()
        maximum = self.moments.maximum.copy()
        gone = np.column_stack([data.X[list(rows)], data.y[list(rows)]])
        for e in np.unique(data.environment_index[list(rows)]):
            kept = np.setdiff1d(data.rows(e), rows)
            for j in np.flatnonzero(((gone == minimum[e]) | (gone == maximum[e])).any(axis=0)):
                values = data.y[kept] if j == data.X.shape[1] else data.X[kept, j]
                minimum[e, j] = values.min()
                maximum[e, j] = values.max()
        return minimum, maximum

    def _counts_without(self, rows: Sequence[int]) -> Integers:
        """Return the numbers of remaining rows of each environment, (E,)."""
        data = self._rows
        gone = np.bincount(data.environment_index[list(rows)], minlength=data.n_environments)
        return data.counts - gone

    @property
    def _rows(self) -> MultiEnvironmentData:
        assert self.rows is not None
        return self.rows


def _less_products(scatter: Floats, vectors: Floats, constant: Mask) -> Floats:
    """scatter (G, d, d) without products of the vectors (R, G, d), and without columns that are
    constant (G, d)"""
    left = np.empty_like(scatter)
    right = np.moveaxis(vectors, 1, 0)
    for start in range(0, scatter.shape[1], _COLUMNS_AT_ONCE):
        own = slice(start, start + _COLUMNS_AT_ONCE)
        np.subtract(scatter[:, own], right[:, :, own].swapaxes(1, 2) @ right, out=left[:, own])
    for group, flags in zip(left, constant, strict=True):
        group[flags] = group[:, flags] = 0.0
    return left


def check_processes(data: SweepData, processes: int, frees_baselines: bool = False) -> None:
    """Raise if the memory does not suffice for this number of processes.

    Each needs what they share and, in addition to the moments in memory, its own copy for an
    outcome that excludes rows. frees_baselines : whether second moments within environments are
    needed as well.
    """
    scatter = data.moments.scatter.nbytes * (2 if frees_baselines else 1)
    shared = scatter + (0 if data.rows is None else data.rows.X.nbytes)
    needed = shared * (processes > 1) + scatter * processes * bool(data.perturbing)
    needed += data.moments.scatter.nbytes * frees_baselines
    remedies = [use(n_jobs=1)] * (processes > 1) + [use(baseline="shared")] * frees_baselines
    check_memory(f"processes (n_jobs={processes})", needed, *remedies)


def read_sweep_data(
    table: Any,
    labels: Any = None,
    perturbed: Any = None,
    columns: Columns | None = None,
    select: Environments | None = None,
    missing: str | None = None,
    allow_unmeasured: bool = False,
) -> SweepData:
    """labels : of environments, one per row, or the name of their column; others as in `sweep`"""
    given = {"environments": labels, "columns": columns, "select": select, "missing": missing}
    if isinstance(table, Moments):
        _refuse_settings("moments are of rows that were read already", **given, perturbed=perturbed)
        names = ("counts", "centre", "rest", "minimum", "maximum", "scatter")
        numbers = [getattr(table, name) for name in names]
        return SweepData(replace(table, sample=None), identity=_data_identity(table, numbers, {}))
    if isinstance(table, MultiEnvironmentData):
        _refuse_settings("these data are read already", **given)
        for role in table.outcome_columns:
            raise SettingError(
                f"{role}= needs the rows, and a sweep keeps second moments only: fit that one "
                "alone."
            )
        data = table
        whom = _entries(perturbed, table.n_rows)
    else:
        how: Fields = {"select": select, "missing": missing or "error"}
        data, whom = _rows_of(table, labels, perturbed, columns or Columns(), how)
    held = moments_bytes(data) * (data.n_environments + 2) / (data.n_environments + 1)
    what = f"second moments of {data.features.n_columns + 1:,} columns"
    check_memory(what, held + data.X.nbytes * (whom is not None))
    with one_thread():
        moments = Moments.from_data(data)
    perturbing = {} if whom is None else _perturbing(whom, moments.columns, allow_unmeasured)
    arrays = data.X, data.y, data.environment_index.astype(np.int64)
    return SweepData(
        moments,
        data if perturbing else None,
        perturbing,
        _data_identity(moments, arrays, perturbing),
    )


def _rows_of(
    table: Any, labels: Any, perturbed: Any, columns: Columns, how: Mapping[str, Any]
) -> tuple[MultiEnvironmentData, list[str | None] | None]:
    """Return the rows, with any column as the outcome, and the column that each row perturbs.

    The latter is None if perturbations are not given.
    """
    if labels is None:
        raise SettingError(
            "a sweep needs environments: labels, or the name of their column",
            use(environments="site"),
        )
    labels, perturbed = aligned(table, environments=labels, perturbed=perturbed)
    is_file = isinstance(table, str | os.PathLike)
    table = TableFile.of(table) if is_file else as_frame(table)
    names = column_names(table) if is_file else list(table.columns)
    roles = {"environment": labels, "perturbed": perturbed}
    named = {role: name for role, name in roles.items() if isinstance(name, str)}
    for role, name in named.items():
        if name not in names:
            raise DataError(f"{role} column {name!r} is not in the table; {nearest(name, names)}")
    if is_file:
        categorical = () if isinstance(columns.categorical, str) else columns.categorical
        texts = [name for name in (*categorical, named.get("perturbed")) if name in names]
        table = as_frame(read_columns(table, names, labels=named.get("environment"), as_text=texts))
    whom = _entries(table[perturbed].to_list() if "perturbed" in named else perturbed, len(table))
    # Its number stands for the outcome of each row, and tells afterwards which rows are left.
    number = free_name("row number", names)
    added: Fields = {number: np.arange(len(table), dtype=float)}
    environment = named.get("environment") or free_name("environment", names)
    if "environment" not in named:
        added[environment] = label_list(labels)
        check_lengths({"the table": len(table), "environments": len(added[environment])})
    frame = table.with_columns(
        nw.new_series(name, added[name], backend=table.implementation) for name in added
    )
    if "perturbed" in named and perturbed != environment:
        # Gone rather than excluded: what is excluded is repeated in advice on other columns.
        frame = frame.drop(perturbed)
        columns = replace(columns, exclude=[name for name in columns.exclude if name != perturbed])
    data = MultiEnvironmentData.from_table(
        frame.to_native(), number, environment, columns=columns, **how
    )
    kept = data.y.astype(np.intp)
    return _with_a_column_as_outcome(data), None if whom is None else [whom[row] for row in kept]


def _entries(perturbed: Any, n_rows: int) -> list[str | None] | None:
    if perturbed is None:
        return None
    entries = label_list(perturbed, "perturbed")
    check_lengths({"the table": n_rows, "perturbed": len(entries)})
    codes, labels = encode_labels(entries)
    names = list(map(level_of, labels))
    return [None if code < 0 else names[code] for code in codes]


def _perturbing(
    whom: Sequence[str | None], columns: Sequence[str], allow_unmeasured: bool
) -> dict[str, tuple[int, ...]]:
    """{column: rows that perturb it, alone or with others}"""
    known = set(columns)
    rows = dict[str, list[int]]()
    unknown = dict[str, list[int]]()
    for row, entry in enumerate(whom):
        for name in dict.fromkeys(_names_in(entry or "", known)):
            (rows if name in known else unknown).setdefault(name, []).append(row)
    perturbing = {name: tuple(found) for name, found in rows.items()}
    if not unknown:
        return perturbing
    n_rows = len({row for found in unknown.values() for row in found})
    what = (
        f"perturbed names no column by {quoted(unknown, 4)} (names: {len(unknown):,}, in "
        f"{rows_text(n_rows)})"
    )
    if not rows:
        raise DataError(f"{what}, and no column at all; {nearest(next(iter(unknown)), columns)}")
    folded = {name.casefold(): name for name in columns}
    alike = [folded[name.casefold()] for name in unknown if name.casefold() in folded]
    guess = f"; did you mean {quoted(alike, 4)}?" if alike else ""
    if not allow_unmeasured:
        raise DataError(
            f"{what}{guess}", use(" to use these rows for every outcome", allow_unmeasured=True)
        )
    if alike:
        warn(f"{what}, which are used for every outcome{guess}")
    return perturbing


def _names_in(entry: str, known: Collection[str]) -> Iterator[str]:
    """Yield one or several names; names of columns may contain separators, as in HLA-A/B."""
    parts = _SEVERAL.split(entry.strip())  # names at even places
    start = 0
    while start < len(parts):
        ends = range(len(parts), start, -2)
        end = next((end for end in ends if "".join(parts[start:end]) in known), start + 1)
        if parts[start] or end > start + 1:
            yield "".join(parts[start:end])
        start = end + 1


def _with_a_column_as_outcome(data: MultiEnvironmentData) -> MultiEnvironmentData:
    """Return the data with the last column that is a feature by itself as the outcome."""
    features = data.features
    encoding = data.encoding
    grouped = set(chain(*features.groups.values()))
    name = next((column for column in reversed(features.columns) if column not in grouped), None)
    if name is None:
        raise DataError(
            f"no column can be the outcome: {quoted(features.names)} are levels, splines or groups."
        )
    if len(features.names) < 2:
        raise DataError(
            f"{name!r} is the only column: a sweep needs another one to predict it from."
        )
    if encoding is not None:
        columns = tuple(column for column in encoding.columns if column != name)
        members = tuple(member for member in encoding.members if member[0] != name)
        encoding = replace(encoding, columns=columns, members=members)
    others = data.narrowed(np.array([feature != name for feature in features.names]))
    y = np.ascontiguousarray(data.X[:, features.columns.index(name)])
    return replace(others, y=y, outcome_name=name, encoding=encoding, constants=data.constants)


def _refuse_settings(why: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise SettingError(f"{name}= is for a table, and {why}. Leave {name}= out.")


def _data_identity(
    moments: Moments, arrays: Sequence[Any], perturbing: Mapping[str, tuple[int, ...]]
) -> Fields:
    groups = sorted(moments.groups.items())
    constants = sorted(moments.constants.items())
    labels = moments.columns, groups, moments.environments, constants
    return {
        "rows": moments.n_rows,
        "columns": len(moments.columns),
        "environments": [*map(str, moments.environments)],
        "data": _digest(*labels, *arrays),
        "perturbed": _digest(sorted(perturbing.items())) if perturbing else None,
    }


def _digest(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        is_array = isinstance(part, np.ndarray)
        digest.update(np.ascontiguousarray(part).data if is_array else repr(part).encode())
    return digest.hexdigest()[:32]


def moments_of_columns(
    source: RowSource,
    environment: str,
    settings: Columns,
    choice: Environments,
    missing: str,
    n_jobs: int | None,
    progress: ProgressMode,
) -> Moments:
    """Return the moments of all columns of rows that are read in pieces.

    A column that varies in every environment is the outcome.
    """
    kinds = {column.name: kind_of(column.type) for column in source.schema}
    named = settings.features or [
        name for name in kinds if name not in (environment, settings.weights)
    ]
    numbers = [name for name in named if kinds.get(name) in ("numbers", "true and false")]
    plain = [name for name in numbers if name not in (*settings.exclude, *settings.categorical)]
    if not plain:
        raise DataError(f"no column can be the outcome: {quoted(named)} are no numbers.")
    features = replace(settings, features=[name for name in named if name != plain[-1]])
    wanted = Wanted(plain[-1], environment, features, choice, missing).among(
        source.schema.names, source.name
    )
    rows = of_source(source, wanted, n_workers(n_jobs), progress)
    moments = wanted.screened(rows).moments(partial=True)
    possible = [name for name in plain if name in moments.possible_outcomes]
    varying = [name for name in possible if moments.varies[:-1, moments.columns.index(name)].all()]
    moments = replace(moments, sample=None)  # which no outcome of a sweep needs
    return moments.with_outcome((varying or possible)[-1]).checked(environment)
