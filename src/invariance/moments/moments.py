"""Centred second moments per environment and pooled: all that the Gaussian model needs of the
rows."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property, reduce
from inspect import signature
from itertools import accumulate, compress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._tools.arrays import Floats, Integers, Labels, Mask, Names, Places
from .._tools.names import Missing
from .._tools.progress import ProgressMode
from ..data.checks import (
    check_environments,
    check_spread,
    check_whole,
    did_you_mean,
    largest_size,
    nearest,
    quoted,
)
from ..data.columns import free_name
from ..data.duplicates import warn_of_equal_moments
from ..data.encoding import Encoding
from ..data.features import Features
from ..data.missing import announce_constant, losses
from ..data.multi_environment import MultiEnvironmentData, in_short
from ..data.outcomes import OutcomeKind
from ..data.settings import (
    Categorical,
    Columns,
    Environments,
    FileFormat,
    Merged,
    places_of,
    refuse_single,
    stated_once,
)
from ..data.site_level import SiteLevel, warn_of_site_level
from ..data.weights import Weights
from ..exceptions import DataError, WrongTypeError, use
from ..kernels.row_residuals import centred_rows
from .sample import RowSample

if TYPE_CHECKING:
    import pyarrow as pa

OF_COLUMNS = "centre", "rest", "minimum", "maximum"
_OF_NAMES = ("groups", "encoding", "constants", "dummies")
# Share of a column's scatter that others of its feature leave when they determine it, up to
# rounding.
_DEPENDENT = 1e-12
_EPSILON = float(np.finfo(float).eps)
_ROWS_AT_ONCE = 65_536
# Rows of a scatter that are filled together: they stay in a cache.
_STRIP = 64
# Numbers that are too large to square are refused once all rows were read.
_silently = np.errstate(over="ignore", invalid="ignore")


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """a + b, rounded, and what the rounding lost"""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def gaps_between(counts: Integers, centre: Floats, rest: Floats) -> Floats:
    """(E, d) how far the means centre + rest (E, d) of each environment are from those of all
    rows"""
    apart, lost = two_sum(centre, -centre[0])
    lost += rest - rest[0]
    pooled = (counts @ apart + counts @ lost) / counts.sum()
    return (apart - pooled) + lost


def filled_pool(counts: Integers, centre: Floats, rest: Floats, local: Floats) -> Floats:
    """(E + 1, d, d) centred products of each environment (E, d, d) and, last, over all rows"""
    scatter = np.concatenate([local, np.empty((1, *local.shape[1:]))])
    _fill_pool(scatter, counts, gaps_between(counts, centre, rest))
    return scatter


def _fill_pool(scatter: Floats, counts: Integers, gaps: Floats) -> None:
    """The last of scatter (E + 1, d, d), from the others and gaps (E, d) between their means and
    the pooled one"""
    for start in range(0, scatter.shape[1], _STRIP):
        rows = slice(start, start + _STRIP)
        pooled = scatter[-1, rows]
        pooled[:] = 0.0
        for n, gap in zip(counts, gaps, strict=True):
            pooled += (n * gap[rows])[:, None] * gap
        for local in scatter[:-1, rows]:
            pooled += local


class EnvironmentMoments(NamedTuple):
    """Of one environment's rows, or of some of them; arrays (d,) and scatter (d, d) as in
    `Moments`."""

    n_rows: int
    centre: Floats
    rest: Floats
    minimum: Floats
    maximum: Floats
    scatter: Floats

    def of_column(self, j: int) -> EnvironmentMoments:
        own = slice(j, j + 1)
        centre, rest, minimum, maximum = (vector[own] for vector in self[1:-1])
        squares = self.scatter[own, own]
        return EnvironmentMoments(self.n_rows, centre, rest, minimum, maximum, squares)


def of_rows(X: Floats, y: Floats, rows: Places) -> EnvironmentMoments:
    """Of the columns of X (N, p) and, last, of y (N,), at these rows"""
    blocks = (rows[start : start + _ROWS_AT_ONCE] for start in range(0, len(rows), _ROWS_AT_ONCE))
    return reduce(merged, (_of_block(X, y, block) for block in blocks))


@_silently
def _of_block(X: Floats, y: Floats, rows: Places) -> EnvironmentMoments:
    centre, rest, minimum, maximum = np.empty((4, X.shape[1] + 1))
    centred = centred_rows(X, y, rows, centre, rest, minimum, maximum)
    return EnvironmentMoments(
        len(rows), *two_sum(centre, rest), minimum, maximum, centred.T @ centred
    )


@cache
def _syrk() -> Any:
    """BLAS's dsyrk. That of scipy.linalg.blas would hold the interpreter's lock while it computes;
    ctypes lets go."""
    from numba.extending import get_cython_function_address

    address = get_cython_function_address("scipy.linalg.cython_blas", "dsyrk")
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 10)(address)


def _add_products(rows: Floats, scatter: Floats) -> None:
    """scatter (d, d) += rows (d, n) · their transpose, on and below the diagonal; numbers of a row
    lie together"""
    d, n, lead = map(ctypes.c_int, (*rows.shape, rows.strides[0] // rows.itemsize))
    order, depth, stride, one = (
        ctypes.byref(number) for number in (d, n, lead, ctypes.c_double(1.0))
    )
    _syrk()(
        b"U", b"T", order, depth, one, rows.ctypes.data, stride, one, scatter.ctypes.data, order
    )


@_silently
def add_rows(
    known: EnvironmentMoments | None, columns: Floats, minimum: Floats, maximum: Floats
) -> EnvironmentMoments:
    """With n more rows of this range: columns (d, n + 1) holds them and one more place, and is
    overwritten. They are added to the known scatter in place, of which only what is on and below
    the diagonal counts."""
    own = columns[:, :-1]
    last = columns[:, -1]
    n = columns.shape[1] - 1
    centre = np.where(minimum == maximum, minimum, np.add.reduce(own, axis=1) / n)
    own -= centre[:, None]
    rest = np.add.reduce(own, axis=1) / n
    # Half of a squared range is at most the scatter.
    if (n * rest**2 > 0.5 * _EPSILON * (maximum - minimum) ** 2).any():
        own -= rest[:, None]
    scatter = (
        np.zeros((len(own), len(own)))
        if known is None
        else np.require(known.scatter, requirements="W")
    )
    found = EnvironmentMoments(n, *two_sum(centre, rest), minimum, maximum, scatter)
    last[:] = 0.0
    if known is not None:
        found, gap, share = _joined(known, found, scatter)
        last[:] = np.sqrt(share) * gap
    _add_products(columns, scatter)
    return found


def _joined(
    a: EnvironmentMoments, b: EnvironmentMoments, scatter: Floats
) -> tuple[EnvironmentMoments, Floats, float]:
    """The rows of both, whose scatter is theirs and share · gap (d,) · its transpose"""
    n = a.n_rows + b.n_rows
    minimum = np.minimum(a.minimum, b.minimum)
    maximum = np.maximum(a.maximum, b.maximum)
    apart, lost = two_sum(b.centre, -a.centre)
    gap = np.where(minimum == maximum, 0.0, apart + (lost + (b.rest - a.rest)))
    centre, lost = two_sum(a.centre, gap * (b.n_rows / n))
    joined = EnvironmentMoments(n, *two_sum(centre, lost + a.rest), minimum, maximum, scatter)
    return joined, gap, a.n_rows * b.n_rows / n


@_silently
def merged(
    a: EnvironmentMoments, b: EnvironmentMoments, out: Floats | None = None
) -> EnvironmentMoments:
    """The rows of both (Chan, Golub & LeVeque 1983); out : array for the scatter, that of a if
    nobody needs it"""
    both, gap, share = _joined(a, b, np.add(a.scatter, b.scatter, out=out))
    for start in range(0, len(gap), _STRIP):
        own = slice(start, start + _STRIP)
        both.scatter[own] += share * (gap[own, None] * gap)
    return both


def mirror(scatter: Floats) -> None:
    """Above the diagonal of scatter (..., d, d) what is below it."""
    for start in range(0, scatter.shape[-1], _STRIP):
        own = slice(start, start + _STRIP)
        below = slice(start + _STRIP, None)
        square = scatter[..., own, own]
        square[:] = np.tril(square) + np.tril(square, -1).swapaxes(-1, -2)
        scatter[..., own, below] = scatter[..., below, own].swapaxes(-1, -2)


def in_columns(part: EnvironmentMoments, places: Integers, d: int) -> EnvironmentMoments:
    """With its columns at these places among d, without those at -1; no row of it has anything but
    0 in the others. Of the scatter only what is on and below the diagonal counts."""
    if np.array_equal(places, np.arange(d)):
        return part
    kept = np.flatnonzero(places >= 0)
    at = places[kept]
    centre, rest, minimum, maximum = vectors = np.zeros((4, d))
    vectors[:, at] = np.stack([part.centre, part.rest, part.minimum, part.maximum])[:, kept]
    scatter = np.zeros((d, d))
    whole = part.scatter.copy()
    mirror(whole)
    scatter[np.ix_(at, at)] = whole[np.ix_(kept, kept)]
    return EnvironmentMoments(part.n_rows, centre, rest, minimum, maximum, scatter)


def widened(part: EnvironmentMoments, d: int) -> EnvironmentMoments:
    """With columns that were met later, which are 0 in its rows, up to d"""
    return in_columns(part, np.arange(len(part.centre)), d)


@dataclass(frozen=True, eq=False)
class Moments:
    """Hold the second moments of d columns, features and outcome, in E environments.

    They are sufficient for linear Gaussian models: log Λ(z) depends on the data through them.

    Parameters
    ----------
    columns : tuple of str
        Names of the d columns.
    outcome : int
        Position of the outcome.
    environments : tuple
        Labels of the environments.
    counts : ndarray of shape (E,)
        Rows of each environment.
    centre, rest : ndarray of shape (E, d)
        The means are centre + rest, so that means far from zero, or from each other, keep their
        digits.
    minimum, maximum : ndarray of shape (E, d)
        Smallest and largest values, exactly equal if a column is constant in an environment.
    scatter : ndarray of shape (E + 1, d, d)
        Centred sums of products; the last one is over the pooled rows.
    groups : mapping of str to tuple of str, default={}
        {feature: its columns} of features that are not one column of the same name.
    encoding : Encoding, default=None
        How the columns were made from those of a table, if they are not the same.
    constants : mapping of str to float, default={}
        Dropped constant columns and their values.
    dropped_rows : mapping, default={}
        {label: rows dropped for missing values}; None stands for rows without a label.
    environment_notes : tuple of str, default=()
        Sentences about dropped and merged environments.
    sample : RowSample, default=None
        Rows of every environment, as `from_rows` draws them. None for moments from `from_data` or
        `from_arrow`.
    kind : OutcomeKind, default=None
        Kind of the outcome, if its values were checked one by one.
    weights : Weights, default=None
        Frequency weights.
    dummies : frozenset of str, default=frozenset()
        Columns known to contain 0 and 1 only.

    Examples
    --------
    >>> from invariance import BIP, Moments
    >>> from invariance.datasets import make_example
    >>> moments = Moments.from_data(make_example())
    >>> moments.scatter.shape
    (7, 9, 9)
    >>> BIP().fit(moments).selected_features_
    ('age', 'exercise', 'smoking')
    """

    columns: Names
    outcome: int
    environments: Labels
    counts: Integers
    centre: Floats
    rest: Floats
    minimum: Floats
    maximum: Floats
    scatter: Floats
    groups: Mapping[str, Names] = field(default_factory=dict)
    encoding: Encoding | None = None
    constants: Mapping[str, float] = field(default_factory=dict)
    dropped_rows: Mapping[Hashable, int] = field(default_factory=dict)
    environment_notes: Names = ()
    sample: RowSample | None = None
    kind: OutcomeKind | None = None
    weights: Weights | None = None
    dummies: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return in_short(self)

    @property
    def losses(self) -> Names:
        """Return sentences about what was dropped from the data, or counts more than once.

        Returns
        -------
        tuple of str
            Sentences, none if all of the data is used as given.
        """
        features = dict.fromkeys(self._owner(column) for column in self.constants)
        gone = [name for name in features if name not in self.feature_names]
        columns = [column for column in self.constants if self._owner(column) not in gone]
        return losses(self, gone, columns)

    @property
    def notes(self) -> Names:
        """Sentences about what the columns stand for, as `MultiEnvironmentData.notes`."""
        return () if self.encoding is None else self.encoding.notes

    @cached_property
    def sampled(self) -> MultiEnvironmentData | None:
        """The rows of the sample; None without one."""
        sample = self.sample
        if sample is None:
            return None
        return MultiEnvironmentData(
            X=np.ascontiguousarray(sample.values[:, self.feature_columns]),
            y=sample.values[:, self.outcome].copy(),
            environment_index=sample.places,
            feature_names=self.feature_names,
            environments=self.environments,
            outcome_name=self.outcome_name,
            grouping=self.features,
            encoding=self.encoding,
        )

    @property
    def all_rows(self) -> MultiEnvironmentData | None:
        """All rows, if the sample holds them."""
        return self.sampled if self.sample and self.sample.n_rows == self.n_rows else None

    @property
    def n_environments(self) -> int:
        return len(self.environments)

    @property
    def n_features(self) -> int:
        return self.features.n_features

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    @cached_property
    def feature_columns(self) -> Places:
        """(q,) indices of the columns of the features."""
        return np.delete(np.arange(len(self.columns)), self.outcome)

    @cached_property
    def features(self) -> Features:
        """The features, and which of the q columns each of them stands for."""
        return Features.of([self.columns[j] for j in self.feature_columns], self.groups)

    @property
    def feature_names(self) -> Names:
        return self.features.names

    @property
    def outcome_name(self) -> str:
        return self.columns[self.outcome]

    @cached_property
    def group_counts(self) -> Floats:
        """(E + 1,) rows of each environment and of the pool."""
        return np.append(self.counts, self.n_rows).astype(float)

    @property
    def means(self) -> Floats:
        """(E, d)"""
        return self.centre + self.rest

    @property
    def pooled_mean(self) -> Floats:
        """(d,)"""
        return self.centre[0] + (self.rest[0] - self.gaps[0])

    @cached_property
    def gaps(self) -> Floats:
        """(E, d) how far the means of each environment are from the pooled ones"""
        return gaps_between(self.counts, self.centre, self.rest)

    @cached_property
    def varies(self) -> Mask:
        """(E + 1, d) whether a column takes more than one value in each environment, and in the
        pool."""
        return np.vstack(
            [self.maximum > self.minimum, self.maximum.max(axis=0) > self.minimum.min(axis=0)]
        )

    @cached_property
    def site_level(self) -> SiteLevel:
        """The features' columns that are constant within every environment."""
        return SiteLevel.of_ranges(
            self.minimum[:, self.feature_columns], self.maximum[:, self.feature_columns]
        )

    @cached_property
    def present(self) -> Mask:
        """(E + 1, d) whether a column varies and, in a feature of several columns of 0 and 1, adds
        to those before it. The dummies of a category add up to a constant where the level that they
        are compared with does not occur. Of 0 and 1 second moments can tell; of other columns only
        the rows can, which decide for whole subsets."""
        if not self.features.grouped or not self.scatter.size:
            return self.varies
        present = self.varies.copy()
        starts = self.features.starts
        for j in np.flatnonzero(self.features.widths > 1):
            columns = self.feature_columns[starts[j] : starts[j + 1]]
            if not self._zero_or_one(columns):
                continue
            for g in range(self.n_environments + 1):
                present[g, columns] &= _adding(
                    self.scatter[g][np.ix_(columns, columns)], present[g, columns]
                )
        return present

    def _zero_or_one(self, columns: Places) -> bool:
        """Whether the columns hold 0 and 1 only: then, and between 0 and 1 only then, they vary as
        much as such do."""
        if self.dummies.issuperset(self.columns[j] for j in columns):
            return True
        means = self.means[:, columns]
        squares = np.einsum("gjj->gj", self.scatter[:-1])[:, columns]
        inside = (self.minimum[:, columns] >= 0.0) & (self.maximum[:, columns] <= 1.0)
        most = self.counts[:, None] * means * (1.0 - means)
        return bool(inside.all() and np.allclose(squares, most, rtol=1e-9, atol=1e-9))

    @cached_property
    def largest_size(self) -> int:
        """The largest subset size at which every local fit is estimable. Of features of several
        columns the narrowest count; wider subsets may be outside the support."""
        return largest_size(self.counts, self.varying_widths[:-1])

    @cached_property
    def varying_widths(self) -> Integers:
        """(E + 1, p) how many columns of each feature are present in each environment, and in the
        pool."""
        present = self.present[:, self.feature_columns].astype(np.int64)
        return (
            np.add.reduceat(present, self.features.starts[:-1], axis=1)
            if self.features.grouped
            else present
        )

    @classmethod
    def from_data(cls, data: MultiEnvironmentData) -> Moments:
        """Compute the moments of a data set in memory.

        Parameters
        ----------
        data : MultiEnvironmentData
            The data.

        Returns
        -------
        Moments
            Its second moments.

        Raises
        ------
        DataError
            If environments are compared by more than one label.
        """
        if data.design is not None:
            what = (
                "second moments know labels only, and these rows are compared "
                f"{data.design.in_words}"
            )
            raise DataError(f"{what}: fit the data themselves.")
        parts = (of_rows(data.X, data.y, data.rows(e)) for e in range(data.n_environments))
        features = data.features
        same = ("encoding", "constants", "dropped_rows", "environment_notes", "weights")
        return assembled(
            (*features.columns, data.outcome_name),
            features.n_columns,
            data.environments,
            parts,
            groups=features.groups,
            **{name: getattr(data, name) for name in same},
        )

    @classmethod
    def from_rows(
        cls,
        rows: Any,
        outcome: str,
        environment: str,
        features: Sequence[str] | None = None,
        missing: Missing = "error",
        n_jobs: int | None = None,
        *,
        exclude: Sequence[str] = (),
        categorical: Categorical = "auto",
        numeric: Sequence[str] = (),
        groups: Any = None,
        drop_environments: Sequence[Hashable] = (),
        merge_environments: Merged = MappingProxyType({}),
        min_rows: int = 0,
        weights: str | None = None,
        columns: Columns | None = None,
        select: Environments | None = None,
        dask: Any = None,
        partial: bool = False,
        progress: ProgressMode = "auto",
        **file_options: Any,
    ) -> Moments:
        """Compute moments in blocks of rows that need not fit into memory.

        Names and values are checked as in `MultiEnvironmentData.from_table`, after all rows were
        read. Levels are collected on the way, in natural order; `categorical={"region": ["north",
        "south"]}` sets another order. `groups=[spline("age", knots=4)]` reads the rows twice: the
        first pass keeps the values of that column, whose quantiles are the knots.

        Parameters
        ----------
        rows : path, table or iterable
            A path, a pattern such as `"data/*.parquet"`, a folder (labels in its path, `site=A`,
            are columns) or a list of files; a pandas, polars or pyarrow table, a polars LazyFrame,
            a DuckDB relation, an ibis table or a reader of record batches; an iterable of batches
            or tables; a Dask or Spark data frame.
        outcome : str
            Column of the outcome.
        environment : str
            Column of the labels.
        features : sequence of str, default=None
            Features. None is all other columns except `exclude`.
        missing : {"error", "drop", "level"}, default="error"
            Treatment of missing values. "drop" drops rows with missing values; "level" drops rows
            with missing numbers, and gives categories a level of missing values.
        n_jobs : int, default=None
            Threads. The digits of the result do not depend on it.
        exclude : sequence of str, default=()
            Columns that are not features.
        categorical : "auto", sequence of str or mapping, default="auto"
            Columns whose values are levels, as in `Columns`.
        numeric : sequence of str, default=()
            Columns of text that are read as numbers.
        groups : mapping or list of spline, default=None
            Columns that enter together, as in `Columns`.
        drop_environments : sequence of label, default=()
            Environments that are dropped.
        merge_environments : mapping of label to sequence of label, default={}
            {new label: labels that become one environment}.
        min_rows : int, default=0
            Environments with fewer rows are dropped.
        weights : str, default=None
            Column of frequency weights.
        columns : Columns, default=None
            Settings of columns together.
        select : Environments, default=None
            Settings of environments together.
        dask : str or Client, default=None
            Dask cluster that reads the rows, "tcp://10.0.0.1:8786" or a client.
        partial : bool, default=False
            Whether these are a part of all rows. Checks that need all rows are then made by
            `checked`, after a `merge` of the parts.
        progress : {"auto", True, False} or callable, default="auto"
            Progress bar, or a function of a fraction and a message, as in `BIP`.
        **file_options : Any
            Options sep, decimal, encoding, sheet, na and thousands of `read_table`, or
            `form=FileFormat(...)`.

        Returns
        -------
        Moments
            Second moments, with a sample of the rows of each environment.

        Raises
        ------
        DataError
            If the rows cannot be used or a file is missing; the message has columns and remedies.
        WrongTypeError
            If an option is unknown.
        """
        from .accumulator import Wanted
        from .from_rows import from_rows

        known = [
            *signature(cls.from_rows).parameters,
            *(each.name for each in fields(FileFormat)),
            "form",
        ]
        for name in file_options:
            if name not in known:
                what = f"from_rows() got an unexpected keyword argument {name!r}"
                raise WrongTypeError(f"{what}{did_you_mean(name, known)}")
        parts_of_columns = Columns(
            features=features,
            exclude=exclude,
            categorical=categorical,
            numeric=numeric,
            groups=groups,
            weights=weights,
        )
        columns = stated_once("columns", columns, parts_of_columns)
        some = Environments(drop=drop_environments, merge=merge_environments, min_rows=min_rows)
        select = stated_once("select", select, some)
        wanted = Wanted(outcome, environment, columns, select, missing, partial)
        return from_rows(rows, wanted, n_jobs, dask, progress, file_options)

    def to_arrow(self) -> pa.Table:
        """Return the moments as an Arrow table, to store as Parquet or send.

        Returns
        -------
        pyarrow.Table
            One row for each environment, without the sample of rows. `from_arrow` reads the same
            digits.
        """
        from .arrow import to_arrow

        return to_arrow(self)

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Moments:
        """Read moments from a table that `to_arrow` made.

        Parameters
        ----------
        table : pyarrow.Table
            The table. Moments of several tables are combined by `merge`.

        Returns
        -------
        Moments
            The moments.

        Raises
        ------
        DataError
            If the table has another format.
        """
        from .arrow import from_arrow

        return from_arrow(table)

    def checked(self, environment_name: str | None = None) -> Moments:
        """After the complaints that only all rows can justify; without the features that no row
        varies."""
        lowest = self.minimum.min(axis=0)
        highest = self.maximum.max(axis=0)
        check_spread(self.columns, lowest, highest)
        refuse_single(self.environments, self.environment_notes)
        ends = self.minimum[:, self.outcome], self.maximum[:, self.outcome]
        check_whole(self.environments, self.counts, *ends, self.outcome_name, environment_name)
        left = self._dropping(lowest == highest)
        warn_of_equal_moments(
            left.columns, left.features.alone, left.scatter, np.vstack([left.minimum, left.maximum])
        )
        warn_of_site_level(left.features, left.site_level, left.encoding)
        return left

    def check_environments(self) -> None:
        """Raise where an environment has too few rows for a fit of its own, or its outcome is
        constant."""
        ends = self.minimum[:, self.outcome], self.maximum[:, self.outcome]
        check_environments(self.environments, self.counts, *ends, self.outcome_name)

    def merge(self, other: Moments) -> Moments:
        """Combine the moments of two sets of rows, as if they had been one table.

        Parameters
        ----------
        other : Moments
            Moments of the same columns. `partial` of `from_rows` keeps columns that are constant in
            one of them.

        Returns
        -------
        Moments
            Moments of all rows.

        Raises
        ------
        DataError
            If columns differ or were encoded differently.

        References
        ----------
        Chan, T. F., Golub, G. H. and LeVeque, R. J. (1983), Algorithms for computing the sample
        variance: analysis and recommendations, American Statistician 37, 242-247,
        doi:10.1080/00031305.1983.10483115.
        """
        one = self.encoding
        two = other.encoding
        encoding = None if one is None or two is None else one.joined(two)
        if encoding is None and (one is not two or dict(self.groups) != dict(other.groups)):
            levels = None if one is None or two is None else one.all_levels(two)
            if levels is not None:
                remedy = use(" for the data of both", categorical=levels)
                raise DataError(
                    "cannot merge moments whose levels, or the order of them, differ", remedy
                )
            raise DataError("cannot merge moments whose columns were made or grouped differently.")
        differing = {*self.columns} ^ {*other.columns}
        differing |= {name for name, _ in {*self.constants.items()} ^ {*other.constants.items()}}
        if differing or self.outcome_name != other.outcome_name:
            names = quoted(sorted(differing) or [self.outcome_name, other.outcome_name])
            what = f"cannot merge moments of different columns; they differ in {names}"
            raise DataError(what, use(" (keeps columns that are constant in one)", partial=True))
        weights = self.weights, other.weights
        if getattr(weights[0], "column", None) != getattr(weights[1], "column", None):
            raise DataError(
                "cannot merge moments of rows with different weights: use the same column for both."
            )
        second = other.of_columns(self.columns)
        environments = tuple(dict.fromkeys(self.environments + second.environments))
        sample = self.sample
        if sample is not None:
            places = np.array([environments.index(label) for label in second.environments])
            more = second.sample and second.sample.choosing(places)
            sample = more and sample.joined(more).bounded()
        parts = (
            reduce(
                merged,
                [
                    one.part(one.environments.index(e))
                    for one in (self, second)
                    if e in one.environments
                ],
            )
            for e in environments
        )
        return assembled(
            self.columns,
            self.outcome,
            environments,
            parts,
            groups=self.groups,
            encoding=encoding,
            constants=self.constants,
            dropped_rows=dict(Counter(self.dropped_rows) + Counter(other.dropped_rows)),
            environment_notes=tuple(
                dict.fromkeys(self.environment_notes + other.environment_notes)
            ),
            weights=weights[0] and weights[1] and weights[0] + weights[1],
            sample=sample,
        )

    def choosing(self, environments: Sequence[Hashable]) -> Moments:
        """Return the moments of some environments alone.

        Parameters
        ----------
        environments : sequence of label
            Labels.

        Returns
        -------
        Moments
            Moments in the present order of environments; features that are constant there are among
            `constants`.

        Raises
        ------
        DataError
            If a label is unknown, or every feature is constant in these environments.
        """
        kept = np.unique(places_of(environments, self.environments))
        labels = tuple(self.environments[e] for e in kept)
        placed = np.full(self.n_environments, -1)
        placed[kept] = np.arange(len(kept))
        scatter = filled_pool(
            self.counts[kept], self.centre[kept], self.rest[kept], self.scatter[kept]
        )
        left = replace(
            self,
            environments=labels,
            counts=self.counts[kept],
            scatter=scatter,
            dropped_rows={k: n for k, n in self.dropped_rows.items() if k is None or k in labels},
            sample=self.sample and self.sample.choosing(placed),
            kind=None,
            **{name: getattr(self, name)[kept] for name in OF_COLUMNS},
        )
        constant = ~left.varies[-1]
        constant[left.outcome] = False
        if constant[left.feature_columns].all():
            raise DataError(
                f"every feature is constant in {quoted(labels)}. Choose more environments."
            )
        return left._without_constant(constant)._of_occurring_levels()

    @property
    def possible_outcomes(self) -> Names:
        """Columns that are a feature on their own, or the outcome."""
        grouped = {column for members in self.groups.values() for column in members}
        return tuple(name for name in self.columns if name not in grouped)

    def with_outcome(self, name: str) -> Moments:
        """Return the same moments with another column as the outcome.

        The arrays are shared, not copied; the old outcome becomes a feature.

        Parameters
        ----------
        name : str
            The new outcome.

        Returns
        -------
        Moments
            The moments.

        Raises
        ------
        DataError
            If the column does not exist, or cannot be an outcome.
        """
        possible = self.possible_outcomes
        if name not in possible:
            why = (
                "made of, or part of, several columns"
                if name in {*self.columns, *self.groups}
                else "not in the data"
            )
            raise DataError(
                f"column {name!r} is {why} and cannot be the outcome; {nearest(name, possible)}"
            )
        encoding = self.encoding
        if encoding is not None and name != self.outcome_name:
            encoding = encoding.with_outcome(name, self.outcome_name)
        kind = self.kind if name == self.outcome_name else None
        turned = replace(self, outcome=self.columns.index(name), encoding=encoding, kind=kind)
        if "within" in vars(self):
            vars(turned)["within"] = replace(
                self.within, outcome=turned.outcome, encoding=encoding, kind=kind
            )
        return turned

    @cached_property
    def within(self) -> Moments:
        """The same of rows that are centred within environments: the last scatter is the sum of the
        others. It takes as much memory again, and other outcomes share it."""
        return with_equal_means(self)

    def of_columns(self, columns: Names) -> Moments:
        """Those columns, the outcome among them, in that order."""
        if columns == self.columns:
            return self
        order = self.places(columns)
        return replace(
            self,
            columns=columns,
            groups={
                name: remaining
                for name, members in self.groups.items()
                if (remaining := tuple(column for column in members if column in columns))
            },
            outcome=columns.index(self.outcome_name),
            scatter=self.scatter[np.ix_(np.arange(len(self.scatter)), order, order)],
            sample=self.sample and self.sample._replace(values=self.sample.values[:, order]),
            **{name: getattr(self, name)[:, order] for name in OF_COLUMNS},
        )

    def places(self, names: Iterable[str]) -> Places:
        """Indices of these columns."""
        return np.array([self.columns.index(name) for name in names], np.intp)

    def part(self, e: int) -> EnvironmentMoments:
        """The environment at place e."""
        ends = self.minimum[e], self.maximum[e]
        return EnvironmentMoments(
            int(self.counts[e]), self.centre[e], self.rest[e], *ends, self.scatter[e]
        )

    def _names_of(self, chosen: Mask) -> list[str]:
        return list(compress(self.columns, chosen))

    def _owner(self, column: str) -> str:
        """The feature that a column belongs to, or did before it was left out."""
        groups = self.groups if self.encoding is None else self.encoding.features.groups
        return next((name for name, members in groups.items() if column in members), column)

    def _dropping(self, constant: Mask) -> Moments:
        """Without the features (of d columns) that are constant over all rows, which are named in a
        warning."""
        left = self._without_constant(constant)
        if left is not self:
            gone = [name for name in self.feature_names if name not in left.feature_names]
            columns = [name for name in self._names_of(constant) if self._owner(name) not in gone]
            announce_constant(gone, self.n_features, columns)
        return left

    def _without_constant(self, constant: Mask) -> Moments:
        """With columns (d,) that are the same in all rows among `constants`."""
        if not constant.any():
            return self
        values = dict(zip(self._names_of(constant), self.centre[0][constant].tolist(), strict=True))
        return replace(
            self.of_columns(tuple(self._names_of(~constant))),
            constants={**self.constants, **values},
        )

    def _of_occurring_levels(self) -> Moments:
        """With the levels that no row has marked as absent."""
        if self.encoding is None:
            return self
        means = {
            **self.constants,
            **dict(zip(self.columns, self.pooled_mean.tolist(), strict=True)),
        }
        return replace(self, encoding=self.encoding.occurring_in(means, self.n_rows))


def assembled(
    columns: Names,
    outcome: int,
    environments: Labels,
    parts: Iterable[EnvironmentMoments],
    **described: Any,
) -> Moments:
    """Moments of the parts of the environments, whose scatters count on and below the diagonal;
    described: further fields"""
    d = len(columns)
    n_environments = len(environments)
    counts = np.empty(n_environments, np.int64)
    vectors = np.empty((len(OF_COLUMNS), n_environments, d))
    scatter = np.empty((n_environments + 1, d, d))
    for e, part in enumerate(parts):
        counts[e], *vectors[:, e], scatter[e] = part
    mirror(scatter[:-1])
    _fill_pool(scatter, counts, gaps_between(counts, *vectors[:2]))
    centre, rest, minimum, maximum = vectors
    return Moments(
        columns, outcome, environments, counts, centre, rest, minimum, maximum, scatter, **described
    )


def of_fewer_rows(moments: Moments, became_constant: Mask) -> Moments:
    """Without the features (of d columns) that the rows left over do not vary, and the levels that
    these lack."""
    became_constant[moments.outcome] = False
    return moments._dropping(became_constant)._of_occurring_levels()


def with_own_means(moments: Moments, kept: Mask, apart: Mask) -> Moments:
    """Of the environments `kept` (E,), with a column for each of the environments `apart` (E,) that
    is 1 there and 0 elsewhere. Every column is a feature, constant or not."""
    own = np.eye(moments.n_environments)[apart][:, kept].T
    counts = moments.counts[kept]
    wider = [(0, 0), (0, own.shape[1]), (0, own.shape[1])]
    centre = np.hstack([moments.centre[kept], own])
    rest = np.hstack([moments.rest[kept], np.zeros_like(own)])
    return replace(
        moments,
        columns=(
            *moments.columns,
            *(free_name(f"own mean {e}", moments.columns) for e in np.flatnonzero(apart)),
        ),
        environments=tuple(compress(moments.environments, kept)),
        counts=counts,
        centre=centre,
        rest=rest,
        minimum=np.hstack([moments.minimum[kept], own]),
        maximum=np.hstack([moments.maximum[kept], own]),
        scatter=filled_pool(counts, centre, rest, np.pad(moments.scatter[:-1][kept], wider)),
        dropped_rows={},
        sample=None,
    )


def with_equal_means(moments: Moments) -> Moments:
    """As if all environments had the same means: of rows that are centred within environments."""
    varies = moments.maximum > moments.minimum
    zero = np.zeros_like(moments.centre)
    sample = moments.sample
    if sample is not None:
        e = sample.places
        centred = sample.values - moments.centre[e] - moments.rest[e]
        sample = sample._replace(values=np.where(varies[e], centred, 0.0))
    features = moments.features
    columns = moments.feature_columns
    several = np.split(columns, features.starts[1:-1]) if features.grouped else []
    dummies = (
        moments.columns[j]
        for own in several
        if len(own) > 1 and moments._zero_or_one(own)
        for j in own
    )
    return replace(
        moments,
        dummies=frozenset(dummies),
        centre=zero,
        rest=zero,
        minimum=np.where(varies, moments.minimum, 0.0),
        maximum=np.where(varies, moments.maximum, 0.0),
        scatter=np.concatenate([moments.scatter[:-1], moments.scatter[:-1].sum(axis=0)[None]]),
        sample=sample,
    )


def against_the_rest(moments: Moments, e: int) -> Moments:
    """Two environments: the one at place e, and the rows of all others together."""
    others = reduce(
        merged, (moments.part(other) for other in range(moments.n_environments) if other != e)
    )
    return _of_parts(moments, (moments.environments[e], None), (moments.part(e), others))


def rest_moments(moments: Moments) -> Moments:
    """The rows outside each environment, as if these were environments of their own."""
    parts = [moments.part(e) for e in range(moments.n_environments)]
    before = list(accumulate(parts[:-1], merged))
    after = list(accumulate(parts[:0:-1], merged))[::-1]
    inner = (merged(before[e - 1], after[e]) for e in range(1, len(parts) - 1))
    return _of_parts(moments, moments.environments, (after[0], *inner, before[-1]))


def _of_parts(
    moments: Moments, environments: Labels, parts: Iterable[EnvironmentMoments]
) -> Moments:
    """The same columns of other environments"""
    described = {name: getattr(moments, name) for name in _OF_NAMES}
    return assembled(moments.columns, moments.outcome, environments, parts, **described)


def _adding(scatter: Floats, varying: Mask) -> Mask:
    """(m,) the varying columns that are no combination of those before them"""
    adding = np.zeros(len(scatter), dtype=bool)
    left = scatter.copy()
    for c in np.flatnonzero(varying):
        if left[c, c] > _DEPENDENT * scatter[c, c]:
            adding[c] = True
            left -= np.outer(left[:, c], left[c]) / left[c, c]
    return adding
