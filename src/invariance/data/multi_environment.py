"""Data from several environments, as they are fitted."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..exceptions import DataError
from .checks import (
    announce_constant,
    check_lengths,
    check_missing_argument,
    check_spread,
    check_unique,
    check_whole,
    losses,
    quoted,
    resolve_columns,
    rows_text,
    with_counts,
)
from .choices import Choices, excluding
from .columns import array_values, as_frame, checked_names, frame_names, free_name, label_list, series_values
from .encoding import Encoding, Learner
from .features import Features
from .raw import RawTable
from .reading import column_names, is_text, read_columns
from .screening import NO_ROWS, Rows, outcome_array, screened

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class MultiEnvironmentData:
    """Rows of p features and one outcome, each row from one of E environments.

    Build it with :meth:`from_table` or :meth:`from_arrays`, which check everything; the constructor does not.
    """

    X: Floats  # (N, q), C order, finite; a feature may be several of the q columns
    y: Floats  # (N,), finite
    environment_index: NDArray[np.intp]  # (N,), codes into environments
    feature_names: tuple[str, ...]
    environments: tuple[Hashable, ...]  # in order of first appearance
    outcome_name: str = "y"
    environment_name: str | None = None
    dropped_features: tuple[str, ...] = ()  # constant over all rows
    dropped_positions: tuple[int, ...] = ()  # where these were among the features as given
    dropped_columns: tuple[str, ...] = ()  # constant over all rows, of features that have others
    dropped_rows: Mapping[Hashable, int] = field(default_factory=dict)  # None: rows without a label
    truth: Mask | None = None  # (p,), the invariant features where they are known
    original_features: tuple[str, ...] = ()  # of the user's own table, before any was dropped or screened out
    grouping: Features | None = None  # which columns of X are one feature; None: each column is one
    encoding: Encoding | None = None  # how the table became X; None: its columns are those of X
    constants: Mapping[str, float] = field(default_factory=dict)  # all columns that were dropped, and their values

    def __post_init__(self) -> None:
        object.__setattr__(self, "original_features", self.original_features or self.feature_names)

    @cached_property
    def features(self) -> Features:
        """The features and the columns of X that they stand for."""
        return Features.single(self.feature_names) if self.grouping is None else self.grouping

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def n_environments(self) -> int:
        return len(self.environments)

    @property
    def counts(self) -> Integers:
        """Rows per environment (E,)."""
        return np.bincount(self.environment_index, minlength=self.n_environments).astype(np.int64)

    @property
    def losses(self) -> tuple[str, ...]:
        """Sentences about what was left out of the data as given; empty when nothing was."""
        left_out = self.dropped_features, self.dropped_columns
        return losses(self.dropped_rows, self.environments, self.n_rows, *left_out)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what the columns stand for: reference levels and knots; empty where they are the table's."""
        return () if self.encoding is None else self.encoding.notes

    def rows(self, e: int) -> NDArray[np.intp]:
        """Indices of the rows of environment ``e`` (its position in ``environments``)."""
        return np.flatnonzero(self.environment_index == e)

    def narrowed(self, kept: Mask) -> MultiEnvironmentData:
        """The same rows with the features of a mask (p,) alone, without the encoding of the table."""
        return replace(
            self,
            X=np.ascontiguousarray(self.X[:, self.features.expand(kept)]),
            feature_names=tuple(name for name, flag in zip(self.feature_names, kept, strict=True) if flag),
            dropped_features=(),
            dropped_positions=(),
            dropped_columns=(),
            constants={},
            truth=None if self.truth is None else self.truth[kept],
            grouping=None if self.grouping is None else self.features.chosen(kept),
            encoding=None,
        )

    def choosing(self, environments: Sequence[Hashable]) -> MultiEnvironmentData:
        """The rows of these environments alone, without the encoding of the table; what is constant in them is left
        out."""
        kept = [self.environments.index(label) for label in environments]
        codes = np.full(self.n_environments, -1)
        codes[kept] = np.arange(len(kept))
        rows = np.flatnonzero(codes[self.environment_index] >= 0)
        constant = np.ptp(self.X[rows], axis=0) == 0.0
        left = self.features.without_columns(constant)
        if not left.names:
            raise DataError(f"every feature is constant over the rows of {quoted(environments)}.")
        return replace(
            self,
            X=np.ascontiguousarray(self.X[np.ix_(rows, ~constant)]),
            y=self.y[rows],
            environment_index=codes[self.environment_index[rows]],
            feature_names=left.names,
            environments=tuple(environments),
            dropped_features=(),
            dropped_positions=(),
            dropped_columns=(),
            dropped_rows={},
            constants={},
            truth=None if self.truth is None else self.truth[[name in left.names for name in self.feature_names]],
            grouping=None if self.grouping is None else left,
            encoding=None,
        )

    def to_frame(self) -> pd.DataFrame:
        """One table again: the features, the outcome and the environment labels.

        Features are in the columns of the table as it was given, levels as categories whose first one is the
        reference. Where it is not known how the columns were made, they are those of X. Labels that came without a name
        are in the column "environment", or "environment_" if that name is taken.
        """
        import pandas as pd

        if self.encoding is None:
            features: dict[str, Any] = dict(zip(self.features.columns, self.X.T, strict=True))
        else:
            features = {
                name: pd.Categorical.from_codes(values.astype(int), pd.Index(levels)) if levels else values
                for name, values, levels in self.encoding.decode(self.X, self.features.columns)
            }
        columns = (*features, self.outcome_name)
        labels = free_name("environment", columns) if self.environment_name is None else self.environment_name
        check_unique((*columns, labels), "the table")
        table = pd.DataFrame(features)
        table[self.outcome_name] = self.y
        table[labels] = [self.environments[e] for e in self.environment_index]
        return table

    def __repr__(self) -> str:
        return (
            f"MultiEnvironmentData({rows_text(self.n_rows)}, {self.n_features} features, outcome "
            f"{self.outcome_name!r}, environments {with_counts(self.environments, self.counts)})"
        )

    @classmethod
    def from_table(
        cls,
        table: Any,
        outcome: str,
        environment: str,
        features: Sequence[str] | None = None,
        missing: str = "error",
        *,
        exclude: Sequence[str] = (),
        categorical: str | Sequence[str] | Mapping[str, Sequence[Any]] = "auto",
        numeric: Sequence[str] = (),
        groups: Any = None,
    ) -> MultiEnvironmentData:
        """Take data from a pandas or polars data frame, or from a .csv, .tsv (also .gz) or .parquet file.

        ``outcome`` and ``environment`` name columns; ``features`` lists columns (None: all others but ``exclude``).
        ``missing`` is "error" or "drop", which leaves out rows with missing values and reports them.

        A column of text or of a categorical type is one feature: its levels are compared with the first one, the
        reference. ``categorical`` lists further columns to take so, for example codes that are numbers, or is
        ``{"region": ["north", "south"]}``, with all the levels, the reference first; ``numeric`` lists columns of text
        to read as numbers. ``groups`` are columns that enter and leave together,
        ``{"region": ["r1", "r2"]}``, or splines, ``[spline("age", knots=4)]``.
        """
        check_missing_argument(missing)
        is_file = isinstance(table, (str, os.PathLike))
        frame = None if is_file else as_frame(table)
        available = frame.columns if frame is not None else column_names(table, warn_unnamed=features is None)
        where = "the file" if is_file else "the table"
        outcome, environment, names = resolve_columns(available, outcome, environment, features, where)
        names = excluding(exclude, names, [name for name in available if name not in (outcome, environment)])
        choices = Choices.of(names, categorical, numeric, groups)
        if frame is None:
            wanted = (*names, outcome, environment)
            frame = as_frame(read_columns(table, wanted, labels=environment, as_text=choices.categorical))
        if len(frame) == 0:
            raise DataError(NO_ROWS)
        raw = RawTable.of_frame(frame, names, choices)
        y, labels = series_values(frame[outcome], outcome, "outcome"), frame[environment].to_list()
        from_text = is_file and is_text(table)
        return _whole(_learnt(raw, choices, y, labels, outcome, environment, missing, from_text))

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        environments: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        outcome_name: str = "y",
        missing: str = "error",
        exclude: Sequence[str] = (),
        categorical: str | Sequence[str] | Mapping[str, Sequence[Any]] = "auto",
        numeric: Sequence[str] = (),
        groups: Any = None,
    ) -> MultiEnvironmentData:
        """Take data from X (N, p), y (N,) or (N, 1), and one hashable label per row.

        ``environments`` None makes a single environment labelled "all". Names come from ``feature_names``,
        else from X if it is a data frame, else they are x0, x1, ... A float64 C-order X is not copied.
        ``exclude``, ``categorical``, ``numeric`` and ``groups`` are as in :meth:`from_table`.
        """
        check_missing_argument(missing)
        table, names = _table_of(X, feature_names, exclude)
        choices = Choices.of(names, categorical, numeric, groups)
        is_array = isinstance(table, np.ndarray)
        raw = RawTable.of_array(table, names, choices) if is_array else RawTable.of_frame(table, names, choices)
        y = outcome_array(y)
        labels = None if environments is None else label_list(environments)
        lengths = {"X": len(table), "y": len(y)}
        if labels is not None:
            lengths["environments"] = len(labels)
        check_lengths(lengths)
        if outcome_name == "y":
            outcome_name = free_name(outcome_name, names)
        if outcome_name in names:
            raise DataError(f"outcome_name={outcome_name!r} is also a feature name: choose another.")
        if len(table) == 0:
            raise DataError(NO_ROWS)
        data = _learnt(raw, choices, y, labels, outcome_name, None, missing)
        return _whole(data, single_allowed=environments is None)


def _table_of(X: Any, feature_names: Sequence[str] | None, exclude: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """X as a float64 array or a narwhals frame, and the names of its columns, without those to exclude."""
    given = None if isinstance(X, np.ndarray) else frame_names(X)
    table: Any = array_values(X, "X") if given is None else as_frame(X, "X")
    if given is None:
        if table.ndim == 1:
            raise DataError(
                f"X is one-dimensional, shape {table.shape}: reshape it to (rows, features), for "
                "example X.reshape(-1, 1) for one feature."
            )
        if table.ndim != 2:
            raise DataError(f"X has {table.ndim} dimensions: reshape it to (rows, features).")
    names = given or [f"x{j}" for j in range(table.shape[1])]
    if feature_names is not None:
        names = checked_names(feature_names, len(names))
        table = table if given is None else table.rename(dict(zip(given, names, strict=True)))
    if not names:
        raise DataError(f"X has no features, shape {table.shape}: it needs at least one column.")
    kept = excluding(exclude, names, names)
    if given is None and len(kept) < len(names):
        table = table[:, [names.index(name) for name in kept]]
    return table, kept


def _learnt(
    raw: RawTable,
    choices: Choices,
    y: Floats,
    labels: list[Hashable] | None,
    outcome: str,
    environment: str | None,
    missing: str,
    from_text: bool = False,
) -> MultiEnvironmentData:
    """A whole table, encoded by what it teaches itself."""
    learner = Learner(raw.names, choices, in_table=environment is not None)
    learner.look(raw)
    learner.check()
    words = list(raw.levels) if from_text else []
    rows = screened(raw.values, y, labels, (*raw.names, outcome), environment, missing, words=words)
    learner.learn(rows, raw)
    learner.warn()
    return encoded(
        rows, raw, learner.encoding((outcome,) if environment is None else (outcome, environment)), outcome, environment
    )


def encoded(
    rows: Rows, raw: RawTable, encoding: Encoding | None, outcome: str, environment: str | None
) -> MultiEnvironmentData:
    """Rows of a table in the columns that a model fits."""
    features = None if encoding is None else encoding.features
    return MultiEnvironmentData(
        rows.X if encoding is None else encoding.encode(replace(raw, values=rows.X)),
        rows.y,
        rows.codes,
        raw.names if features is None else features.names,
        rows.environments,
        outcome,
        environment,
        dropped_rows=rows.dropped,
        grouping=features,
        encoding=encoding,
    )


def _whole(data: MultiEnvironmentData, single_allowed: bool = False) -> MultiEnvironmentData:
    """The checks that need all rows; drops the features that are constant over them."""
    environments = range(data.n_environments)
    outcomes = [data.y[data.rows(e)] for e in environments]
    check_whole(
        data.environments,
        data.counts,
        [values.min() for values in outcomes],
        [values.max() for values in outcomes],
        outcome_name=data.outcome_name,
        environment_name=data.environment_name,
        single_allowed=single_allowed,
    )
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    check_spread(
        (*data.features.columns, data.outcome_name),
        np.append(low, data.y.min()),
        np.append(high, data.y.max()),
    )
    constant = low == high
    return _without(data, constant) if constant.any() else data


def _without(data: MultiEnvironmentData, constant: Mask) -> MultiEnvironmentData:
    """Without the columns (q,) that are constant over all rows; a feature goes with the last of its columns."""
    left = data.features.without_columns(constant)
    positions = [j for j, name in enumerate(data.feature_names) if name not in left.names]
    dropped = tuple(data.feature_names[j] for j in positions)
    whole = data.features.expand(np.isin(np.arange(data.n_features), positions))
    columns = tuple(name for name, gone in zip(data.features.columns, constant & ~whole, strict=True) if gone)
    announce_constant(dropped, data.n_features, columns)
    return replace(
        data,
        X=np.ascontiguousarray(data.X[:, ~constant]),
        feature_names=left.names,
        dropped_features=dropped,
        dropped_positions=tuple(positions),
        dropped_columns=columns,
        constants={data.features.columns[j]: float(data.X[0, j]) for j in np.flatnonzero(constant)},
        grouping=None if data.grouping is None else left,
    )
