"""Data from several environments, and every check on what the user hands in."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..exceptions import DataError
from .checks import (
    DROP_HINT,
    all_missing,
    announce_constant,
    check_lengths,
    check_missing_argument,
    check_scale,
    check_spread,
    check_unique,
    check_whole,
    dropped_message,
    encode_labels,
    located,
    quoted,
    resolve_columns,
    rows_text,
    warn,
    with_counts,
)
from .columns import (
    array_values,
    as_frame,
    as_series,
    checked_names,
    frame_names,
    frame_values,
    free_name,
    label_list,
    series_values,
)
from .features import Features
from .reading import column_names, iter_columns, read_columns

if TYPE_CHECKING:
    import pandas as pd

NO_ROWS = "the table has no rows. Check the file, or what was filtered out before."


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
    dropped_rows: Mapping[Hashable, int] = field(default_factory=dict)  # None: rows without a label
    truth: Mask | None = None  # (p,), the invariant features where they are known
    original_features: tuple[str, ...] = ()  # of the user's own table, before any was dropped or screened out
    grouping: Features | None = None  # which columns of X are one feature; None: each column is one

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
        sentences = []
        if self.dropped_rows:
            n_rows = self.n_rows + sum(self.dropped_rows.values())
            sentences.append(dropped_message(self.dropped_rows, self.environments, n_rows) + ".")
        if self.dropped_features:
            sentences.append(f"dropped features that are constant over all rows: {quoted(self.dropped_features)}.")
        return tuple(sentences)

    def rows(self, e: int) -> NDArray[np.intp]:
        """Indices of the rows of environment ``e`` (its position in ``environments``)."""
        return np.flatnonzero(self.environment_index == e)

    def narrowed(self, kept: Mask) -> MultiEnvironmentData:
        """The same rows with the features of a mask (p,) alone."""
        return replace(
            self,
            X=np.ascontiguousarray(self.X[:, self.features.expand(kept)]),
            feature_names=tuple(name for name, flag in zip(self.feature_names, kept, strict=True) if flag),
            dropped_features=(),
            dropped_positions=(),
            truth=None if self.truth is None else self.truth[kept],
            grouping=self.features.chosen(kept) if self.features.grouped else None,
        )

    def to_frame(self) -> pd.DataFrame:
        """One table again: the features, the outcome and the environment labels.

        Labels that came without a name are in the column "environment", or "environment_" if that name is taken.
        """
        import pandas as pd

        columns = (*self.feature_names, self.outcome_name)
        labels = free_name("environment", columns) if self.environment_name is None else self.environment_name
        check_unique((*columns, labels), "the table")
        table = pd.DataFrame(self.X, columns=list(self.feature_names))
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
    ) -> MultiEnvironmentData:
        """Take data from a pandas or polars data frame, or from a .csv, .tsv (also .gz) or .parquet file.

        ``outcome`` and ``environment`` name columns; ``features`` lists columns (None: all others).
        ``missing`` is "error" or "drop", which leaves out rows with missing values and reports them.
        """
        check_missing_argument(missing)
        if isinstance(table, (str, os.PathLike)):
            available = column_names(table, warn_unnamed=features is None)
            outcome, environment, names = resolve_columns(available, outcome, environment, features, "the file")
            table = read_columns(table, (*names, outcome, environment), labels=environment)
            frame = as_frame(table)
        else:
            frame = as_frame(table)
            outcome, environment, names = resolve_columns(frame.columns, outcome, environment, features)
        if len(frame) == 0:
            raise DataError(NO_ROWS)
        return _whole(_screen_frame(frame, outcome, environment, names, missing))

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
    ) -> MultiEnvironmentData:
        """Take data from X (N, p), y (N,) or (N, 1), and one hashable label per row.

        ``environments`` None makes a single environment labelled "all". Names come from ``feature_names``,
        else from X if it is a data frame, else they are x0, x1, ... A float64 C-order X is not copied.
        """
        check_missing_argument(missing)
        names = None if isinstance(X, np.ndarray) else frame_names(X)
        if names is None:
            values = array_values(X, "X")
            if values.ndim == 1:
                raise DataError(
                    f"X is one-dimensional, shape {values.shape}: reshape it to (rows, features), for "
                    "example X.reshape(-1, 1) for one feature."
                )
            if values.ndim != 2:
                raise DataError(f"X has {values.ndim} dimensions: reshape it to (rows, features).")
            names = [f"x{j}" for j in range(values.shape[1])]
        else:
            values = frame_values(as_frame(X, "X"), names, "column of X")
        if feature_names is not None:
            names = checked_names(feature_names, values.shape[1])
        if not names:
            raise DataError(f"X has no features, shape {values.shape}: it needs at least one column.")
        outcome_values = _outcome_array(y)
        labels = None if environments is None else label_list(environments)
        lengths = {"X": len(values), "y": len(outcome_values)}
        if labels is not None:
            lengths["environments"] = len(labels)
        check_lengths(lengths)
        if outcome_name == "y":
            outcome_name = free_name(outcome_name, names)
        if outcome_name in names:
            raise DataError(f"outcome_name={outcome_name!r} is also a feature name: choose another.")
        if len(values) == 0:
            raise DataError(NO_ROWS)
        screened = _screen(values, outcome_values, labels, tuple(names), outcome_name, None, missing)
        return _whole(screened, single_allowed=environments is None)


def _outcome_array(y: Any) -> Floats:
    series = as_series(y)
    if series is not None:
        return series_values(series, str(series.name or "y"), "outcome")
    names = None if isinstance(y, np.ndarray) else frame_names(y)
    values = array_values(y, "y") if names is None else frame_values(as_frame(y, "y"), names, "outcome")
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    if values.ndim != 1:
        raise DataError(f"y has shape {values.shape}, but one outcome per row is needed: pass a single column.")
    return values


def _screen_frame(
    frame: Any, outcome: str, environment: str, names: tuple[str, ...], missing: str, in_chunks: bool = False
) -> MultiEnvironmentData:
    """Columns of a narwhals frame through :func:`_screen`."""
    return _screen(
        frame_values(frame, names),
        series_values(frame[outcome], outcome, "outcome"),
        frame[environment].to_list(),
        names,
        outcome,
        environment,
        missing,
        in_chunks,
    )


def _screen(
    X: Floats,
    y: Floats,
    labels: list[Hashable] | None,
    names: tuple[str, ...],
    outcome: str,
    environment: str | None,
    missing: str,
    in_chunks: bool = False,
) -> MultiEnvironmentData:
    """The checks that a chunk of rows can answer: infinite and missing values, labels, magnitudes."""
    if labels is None:
        codes: NDArray[np.intp]
        environments: tuple[Hashable, ...]
        codes, environments = np.zeros(len(y), dtype=np.intp), ("all",)
    else:
        codes, environments = encode_labels(labels)
    columns = (*names, outcome)
    known = environments if labels is not None else None
    finite = bool(np.isfinite(X).all() and np.isfinite(y).all())
    if not finite:
        where = located(np.isinf(X), np.isinf(y), columns, codes, known)
        if where:
            raise DataError(f"infinite values (inf) in {where}. Replace them or remove those rows before fitting.")
    unlabelled = codes < 0
    if missing == "error":
        if unlabelled.any():
            column = "environments" if environment is None else f"environment column {environment!r}"
            raise DataError(
                f"{column} has no label in {rows_text(int(unlabelled.sum()))}. {DROP_HINT}, or fill in the labels."
            )
        if not finite:
            where = located(np.isnan(X), np.isnan(y), columns, codes, known)
            raise DataError(f"missing values (NaN) in {where}. {DROP_HINT}, or impute them first.")
    dropped: dict[Hashable, int] = {}
    gone = unlabelled if finite else unlabelled | np.isnan(y) | np.isnan(X).any(axis=1)
    if gone.any():
        per_label = np.bincount(codes[gone] + 1, minlength=len(environments) + 1)
        dropped = {label: int(n) for label, n in zip((None, *environments), per_label, strict=True) if n}
        if gone.all() and not in_chunks:
            empty = [name for name, all_gone in zip(columns, all_missing(X, y), strict=True) if all_gone]
            advice = f"{quoted(empty)} is missing in every row: leave it out" if empty else "impute them instead"
            raise DataError(f"no rows are left: all {rows_text(len(y))} have missing values; {advice}.")
        X, y = X[~gone], y[~gone]
        codes, environments = encode_labels([environments[code] for code in codes[~gone]])
        if not in_chunks:
            warn(dropped_message(dropped, environments, len(gone)))
    if len(y):
        check_scale(columns, np.append(X.min(axis=0), y.min()), np.append(X.max(axis=0), y.max()))
    return MultiEnvironmentData(
        np.ascontiguousarray(X),
        np.ascontiguousarray(y),
        codes,
        names,
        environments,
        outcome,
        environment,
        dropped_rows=dropped,
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
        (*data.feature_names, data.outcome_name),
        np.append(low, data.y.min()),
        np.append(high, data.y.max()),
    )
    constant = low == high
    if not constant.any():
        return data
    names = np.array(data.feature_names, dtype=object)
    dropped = tuple(names[constant])
    announce_constant(dropped, data.n_features)
    return replace(
        data,
        X=np.ascontiguousarray(data.X[:, ~constant]),
        feature_names=tuple(names[~constant]),
        dropped_features=dropped,
        dropped_positions=tuple(np.flatnonzero(constant).tolist()),
    )


def read_chunks(
    path: str | os.PathLike[str],
    outcome: str,
    environment: str,
    features: Sequence[str] | None = None,
    missing: str = "error",
    rows_per_chunk: int = 100_000,
) -> Iterator[MultiEnvironmentData]:
    """Read a file as data of at most ``rows_per_chunk`` rows each, so that it never is in memory as a whole.

    Names and values are checked as in :meth:`MultiEnvironmentData.from_table`; what only all rows can show
    (sizes and number of environments, constant columns) is for :func:`check_whole` and :func:`check_spread`.
    Each chunk's ``environments`` are those that occur in it. Dropped rows are reported once, at the end.
    """
    check_missing_argument(missing)
    if isinstance(rows_per_chunk, bool) or not isinstance(rows_per_chunk, (int, np.integer)) or rows_per_chunk < 1:
        raise DataError(f"rows_per_chunk={rows_per_chunk!r} is not a positive whole number: pass 1 or more.")
    available = column_names(path, warn_unnamed=features is None)
    outcome, environment, names = resolve_columns(available, outcome, environment, features, "the file")
    return _chunks(path, outcome, environment, names, missing, int(rows_per_chunk))


def _chunks(
    path: str | os.PathLike[str],
    outcome: str,
    environment: str,
    names: tuple[str, ...],
    missing: str,
    rows_per_chunk: int,
) -> Iterator[MultiEnvironmentData]:
    dropped: dict[Hashable, int] = {}
    kept: dict[Hashable, None] = {}
    n_rows = 0
    for table in iter_columns(path, (*names, outcome, environment), rows_per_chunk, labels=environment):
        n_rows += len(table)
        data = _screen_frame(as_frame(table), outcome, environment, names, missing, in_chunks=True)
        kept.update(dict.fromkeys(data.environments))
        for label, count in data.dropped_rows.items():
            dropped[label] = dropped.get(label, 0) + count
        if data.n_rows:
            yield data
    if n_rows == 0:
        raise DataError(NO_ROWS)
    if not kept:
        raise DataError(f"no rows are left: all {rows_text(n_rows)} have missing values; impute them instead.")
    if dropped:
        warn(dropped_message(dropped, tuple(kept), n_rows))
