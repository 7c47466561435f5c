"""Data from several environments, as they are fitted."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._tools.arrays import Fields, Floats, Integers, Labels, Mask, Names, Places
from .._tools.names import BelowLimit, Missing
from ..exceptions import DataError, WrongTypeError, raise_all, use
from .checks import (
    MISSING,
    NO_ROWS,
    check_distinct_labels,
    check_known,
    check_lengths,
    check_scale,
    check_spread,
    check_unique,
    check_whole,
    labels_of,
    quoted,
    rows_text,
    with_counts,
)
from .columns import (
    MOST_WORDS,
    Choices,
    RawTable,
    aligned,
    as_frame,
    free_name,
    in_form,
    known_columns,
    label_list,
    resolve_columns,
    table_of,
)
from .duplicates import warn_of_equal_columns
from .encoding import ColumnSummary, Encoding, learn_encoding, learnt_levels
from .features import Features
from .labels import encode_labels, tell_alike
from .missing import Tally, announce_constant, losses
from .outcomes import (
    Classes,
    Outcome,
    OutcomeKind,
    class_in_words,
    one_series,
    outcome_column,
    outcome_kind,
    outcome_of,
    read_outcome,
    read_outcome_column,
    stated,
    two_values,
)
from .reading import TableFile, column_names, read_columns, with_columns
from .settings import (
    ByColumn,
    Categorical,
    Columns,
    Environments,
    Merged,
    places_of,
    refuse_single,
    stated_once,
)
from .site_level import SiteLevel, warn_of_site_level
from .structure import Along, Clock, Design, clock_of, parts_of, refuse_repeats
from .weights import Weights, rows_at, weighted

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class MultiEnvironmentData:
    """Hold rows of p features and one outcome from E environments.

    Use `from_table` or `from_arrays`, which check the data; the constructor does not.

    Parameters
    ----------
    X : ndarray of shape (N, q)
        Columns, C order, finite; a feature may have several of the q columns.
    y : ndarray of shape (N,)
        Outcome, finite.
    environment_index : ndarray of shape (N,), int
        Position of each row's environment in `environments`.
    feature_names : tuple of str
        Names of the p features.
    environments : tuple
        Labels of the environments in order of first appearance.
    outcome_name : str, default="y"
        Name of the outcome.
    environment_name : str, default=None
        Name of the column of labels.
    dropped_features : tuple of str, default=()
        Features that are constant over all rows.
    dropped_positions : tuple of int, default=()
        Their positions among the features as given.
    dropped_columns : tuple of str, default=()
        Constant columns of features with further columns.
    dropped_rows : mapping, default={}
        {label: rows dropped for missing values}; None stands for rows without a label.
    truth : ndarray of shape (p,), bool, default=None
        Invariant features, if known.
    original_features : tuple of str, default=()
        Features of the table before any was dropped or screened out.
    grouping : Features, default=None
        Which columns of X are one feature. None: each column is one.
    encoding : Encoding, default=None
        How the table became X. None: its columns are those of X.
    constants : mapping of str to float, default={}
        All dropped columns and their values.
    environment_notes : tuple of str, default=()
        Sentences about dropped and merged environments.
    event : ndarray of shape (N,), default=None
        1 if the time y ended with the event, 0 if it was censored.
    exposure : ndarray of shape (N,), default=None
        Positive time or size at risk of a count y.
    event_name : str, default=None
        Name of the events.
    exposure_name : str, default=None
        Name of the exposure.
    classes : tuple, default=None
        Labels that 0 and 1 of y stand for, if these are not numbers.
    known_kind : OutcomeKind, default=None
        Kind of the outcome of the data that these rows were chosen from.
    design : Design, default=None
        What environments are compared by, if not by one label.
    clock : Clock, default=None
        When rows were recorded, if known.
    weights : Weights, default=None
        Frequency weights of the rows of the table, which are repeated here accordingly.

    Examples
    --------
    >>> import numpy as np
    >>> from invariance import MultiEnvironmentData
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(6, 2)), rng.normal(size=6)
    >>> data = MultiEnvironmentData.from_arrays(X, y, ["a", "a", "a", "b", "b", "b"])
    >>> data.environments, data.counts.tolist()
    (('a', 'b'), [3, 3])
    """

    X: Floats  #: (N, q), C order, finite; a feature may be several of the q columns
    y: Floats  #: (N,), finite
    environment_index: Places  #: (N,), codes into environments
    feature_names: Names
    environments: Labels  #: in order of first appearance
    outcome_name: str = "y"
    environment_name: str | None = None
    dropped_features: Names = ()  #: constant over all rows
    dropped_positions: tuple[int, ...] = ()  #: where these were among the features as given
    dropped_columns: Names = ()  #: constant over all rows, of features that have others
    dropped_rows: Mapping[Hashable, int] = field(
        default_factory=dict
    )  #: None: rows without a label
    truth: Mask | None = None  #: (p,), the invariant features where they are known
    original_features: Names = ()  #: of the user's own table, before any was dropped or screened
    grouping: Features | None = (
        None  #: which columns of X are one feature; None: each column is one
    )
    encoding: Encoding | None = None  #: how the table became X; None: its columns are those of X
    constants: Mapping[str, float] = field(
        default_factory=dict
    )  #: all columns that were dropped, and their values
    environment_notes: Names = ()  #: sentences about environments that were left out or merged
    event: Floats | None = (
        None  #: (N,), 1 where the time that y is ended with the event, 0 where it was censored
    )
    exposure: Floats | None = None  #: (N,), positive: what y counts events of
    event_name: str | None = None
    exposure_name: str | None = None
    classes: Classes | None = None  #: what 0 and 1 of y stand for, where these were no numbers
    known_kind: OutcomeKind | None = (
        None  #: of the outcome of the data that these rows were chosen of
    )
    design: Design | None = None  #: what environments are compared by, where that is not one label
    clock: Clock | None = None  #: when rows were taken, where that is known
    weights: Weights | None = (
        None  #: what rows of the table counted as; here each is there as often as it counts
    )

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
        """Return the number of rows of each environment.

        Returns
        -------
        ndarray of shape (E,)
            Rows.
        """
        return np.bincount(self.environment_index, minlength=self.n_environments).astype(np.int64)

    @property
    def outcome_range(self) -> tuple[Floats, Floats]:
        """The lowest and the highest outcome of each environment, both (E,)."""
        outcomes = [self.y[self.rows(e)] for e in range(self.n_environments)]
        return np.array([values.min() for values in outcomes]), np.array(
            [values.max() for values in outcomes]
        )

    @cached_property
    def site_level(self) -> SiteLevel:
        """The columns of X that are constant within every environment."""
        return SiteLevel.of_rows(self.X, self.environment_index)

    @property
    def losses(self) -> Names:
        """Return sentences about what was dropped from the data, or counts more than once.

        Returns
        -------
        tuple of str
            Sentences, none if all of the data is used as given.
        """
        return losses(self, self.dropped_features, self.dropped_columns)

    @property
    def notes(self) -> Names:
        """Sentences about what the columns stand for: classes, reference levels and knots; empty
        where they are the table's."""
        columns = () if self.encoding is None else self.encoding.notes
        columns += () if self.design is None else self.design.notes
        if self.classes is None:
            return columns
        first, second = map(class_in_words, self.classes)
        return (f"outcome {self.outcome_name}: {second} against {first}.", *columns)

    @property
    def outcome_kind(self) -> OutcomeKind:
        """Return the kind of the outcome, by its values, events and exposure.

        Choosing rows does not change it.

        Returns
        -------
        OutcomeKind
            The kind.
        """
        names = self.outcome_name, self.event_name, self.exposure_name
        return self.known_kind or outcome_kind(self.y, *names, self.classes)

    @property
    def outcome_columns(self) -> dict[str, Floats]:
        """{role: (N,)} of what comes with the outcome: "event", "exposure"."""
        given = {"event": self.event, "exposure": self.exposure}
        return {role: values for role, values in given.items() if values is not None}

    def rows(self, e: int) -> Places:
        """Return the positions of the rows of one environment.

        Parameters
        ----------
        e : int
            Position of the environment in `environments`.

        Returns
        -------
        ndarray of int
            Positions.
        """
        return np.flatnonzero(self.environment_index == e)

    @property
    def names_as_given(self) -> Names:
        """The features with those that were dropped, each where it was."""
        names = list(self.feature_names)
        for position, name in zip(self.dropped_positions, self.dropped_features, strict=True):
            names.insert(position, name)
        return tuple(names)

    def choosing(self, environments: Sequence[Hashable]) -> MultiEnvironmentData:
        """Return the rows of some environments alone.

        Parameters
        ----------
        environments : sequence of label
            Labels.

        Returns
        -------
        MultiEnvironmentData
            Data without features that are constant in these rows.

        Raises
        ------
        DataError
            If a label is unknown.
        """
        places = np.unique(places_of(environments, self.environments))
        rows = np.isin(self.environment_index, places)
        labels = tuple(self.environments[place] for place in places)
        per_row = {
            name: rows_at(getattr(self, name), rows)
            for name in ("y", "event", "exposure", "design", "clock")
        }
        left = replace(
            self,
            X=np.ascontiguousarray(self.X[rows]),
            environment_index=np.searchsorted(places, self.environment_index[rows]),
            environments=labels,
            dropped_rows={k: n for k, n in self.dropped_rows.items() if k is None or k in labels},
            known_kind=self.outcome_kind,
            **per_row,
        )
        constant = np.ptp(left.X, axis=0) == 0.0
        wrong = None
        if np.ptp(left.y) == 0.0:
            wrong = f"{self.outcome_name!r} is constant"
        elif left.event is not None and not left.event.any():
            wrong = "no event occurs"
        elif constant.all():
            wrong = "every feature is constant"
        if wrong is not None:
            raise DataError(f"{wrong} in {quoted(labels)}. Choose more environments.")
        return without_constant(left, constant)

    @property
    def by_labels(self) -> MultiEnvironmentData:
        """The same rows, compared by the labels of their environments alone."""
        return self if self.design is None else replace(self, design=None)

    def narrowed(self, kept: Mask) -> MultiEnvironmentData:
        """The same rows with the features of a mask (p,) alone, without the encoding of the
        table."""
        return replace(
            _of_columns(self, self.features.expand(kept)),
            dropped_features=(),
            dropped_positions=(),
            dropped_columns=(),
            constants={},
            encoding=None,
        )

    def with_classes(self) -> MultiEnvironmentData:
        """With 0 and 1 for an outcome of two other numbers, which are then its classes; else the
        same."""
        found = None if self.outcome_columns else two_values(self.y)
        if found is None or found == (0.0, 1.0):
            return self
        return replace(self, y=(self.y == found[1]).astype(np.float64), classes=found)

    def to_frame(self) -> pd.DataFrame:
        """Return the data as one table.

        Returns
        -------
        DataFrame
            Features, outcome with events and exposure, and environment labels. Columns are those of
            the original table if known, else those of X; levels are categories, the reference
            first. Labels without a name are in "environment", or `"environment_"` if that name is
            taken.
        """
        import pandas as pd

        if self.encoding is None:
            features: Fields = dict(zip(self.features.columns, self.X.T, strict=True))
        else:
            features = {
                name: pd.Categorical.from_codes(values.astype(int), pd.Index(levels))
                if levels
                else values
                for name, values, levels in self.encoding.decode(self.X, self.features.columns)
            }
        outcome_columns = {
            getattr(self, f"{role}_name"): values for role, values in self.outcome_columns.items()
        }
        columns = (*features, self.outcome_name, *outcome_columns)
        labels = (
            free_name("environment", columns)
            if self.environment_name is None
            else self.environment_name
        )
        environments: Fields = {labels: [self.environments[e] for e in self.environment_index]}
        environments = environments if self.design is None else self.design.to_columns()
        check_unique((*columns, *environments), "the table")
        classes = self.classes
        outcome: Any = self.y if classes is None else [classes[int(k)] for k in self.y]
        table = pd.DataFrame(features)
        return with_columns(table, {self.outcome_name: outcome, **outcome_columns, **environments})

    def __repr__(self) -> str:
        return in_short(self)

    @classmethod
    def from_table(
        cls,
        table: Any,
        outcome: str,
        environment: str | Along | Sequence[str | Along],
        features: Sequence[str] | None = None,
        missing: Missing = "error",
        *,
        exclude: Sequence[str] = (),
        categorical: Categorical = "auto",
        numeric: Sequence[str] = (),
        groups: Any = None,
        below_limit: BelowLimit | None = None,
        na: ByColumn = MappingProxyType({}),
        drop_environments: Sequence[Hashable] = (),
        merge_environments: Merged = MappingProxyType({}),
        min_rows: int = 0,
        event: str | None = None,
        exposure: str | None = None,
        weights: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        columns: Columns | None = None,
        select: Environments | None = None,
    ) -> MultiEnvironmentData:
        """Read data from a data frame of any library, or from a .csv, .tsv, .parquet or .xlsx file.

        Parameters
        ----------
        table : data frame, str or Path
            The table.
        outcome : str
            Column of the outcome. Text or truth values must have two values, which count 0 and 1,
            sorted.
        environment : str, Along or sequence of these
            Column of the labels, `along("year")`, or several factors that are crossed.
        features : sequence of str, default=None
            Features. None is all other columns except `exclude`.
        missing : {"error", "drop", "level"}, default="error"
            Treatment of missing values. "drop" drops rows with missing values; "level" drops rows
            with missing numbers, and gives categories a level of missing values.
        exclude : sequence of str, default=()
            Columns that are not features.
        categorical : "auto", sequence of str or mapping, default="auto"
            Columns whose values are levels, as in `Columns`.
        numeric : sequence of str, default=()
            Columns of text that are read as numbers.
        groups : mapping or list of spline, default=None
            Columns that enter together, as in `Columns`.
        below_limit : {"half", "limit", "missing"}, default=None
            Value of entries below a limit of detection, such as '<0.5'.
        na : mapping of str to sequence, default={}
            Values that stand for missing ones by column.
        drop_environments : sequence of label, default=()
            Environments that are dropped.
        merge_environments : mapping of label to sequence of label, default={}
            {new label: labels that become one environment}.
        min_rows : int, default=0
            Environments with fewer rows are dropped.
        event : str, default=None
            Column of 0 and 1: 1 if the time, the outcome, ended with the event, 0 if it was
            censored.
        exposure : str, default=None
            Column of the time or size at risk of a count, such as years of observation.
        weights : str, default=None
            Column of frequency weights: 2 repeats a row, 0 drops it.
        decimal : {".", ","}, default=None
            Decimal sign of numbers that are written as text.
        thousands : str, default=None
            Sign between groups of three digits of such numbers.
        columns : Columns, default=None
            Settings of columns together.
        select : Environments, default=None
            Settings of environments together.

        Returns
        -------
        MultiEnvironmentData
            The data.

        Raises
        ------
        DataError
            If the table cannot be used or its file is missing; the message has columns and
            remedies.
        SettingError
            If a setting is unknown or contradicts another one.
        """
        check_known("missing", missing, MISSING)
        parts_of_columns = Columns(
            features=features,
            exclude=exclude,
            categorical=categorical,
            numeric=numeric,
            groups=groups,
            below_limit=below_limit,
            na=na,
            weights=weights,
        )
        columns = stated_once("columns", columns, parts_of_columns)
        some = Environments(drop=drop_environments, merge=merge_environments, min_rows=min_rows)
        choice = stated_once("select", select, some)
        is_file = isinstance(table, (str, os.PathLike))
        table = TableFile.of(table, decimal=decimal, thousands=thousands) if is_file else table
        frame = None if is_file else as_frame(table)
        available = (
            frame.columns
            if frame is not None
            else column_names(table, warn_unnamed=columns.features is None)
        )
        where = "the file" if is_file else "the table"
        outcome_columns = stated(event, exposure)
        parts = parts_of(environment)
        labels_of, besides = (environment, {}) if parts is None else (parts.name, parts.columns)
        taken = (
            outcome_columns
            | besides
            | ({} if columns.weights is None else {"weights": columns.weights})
        )
        outcome, labels_of, names = resolve_columns(
            available, outcome, labels_of, columns, where, taken
        )
        choices = Choices.of(columns, names, missing)
        if frame is None:
            wanted = dict.fromkeys((*names, outcome, *taken.values(), labels_of, *choices.excluded))
            as_text = choices.categorical.union(
                choices.excluded, () if parts is None else parts.labels
            )
            labels_column = labels_of if parts is None or parts.labels else None
            frame = as_frame(read_columns(table, tuple(wanted), labels_column, as_text))
        else:
            numbers = (name for name in (*names, outcome) if name not in choices.categorical)
            frame = in_form(frame, numbers, decimal, thousands)
        if len(frame) == 0:
            raise DataError(NO_ROWS)
        counted = None
        if columns.weights is not None:
            held, counted = weighted(
                {"X": frame.to_native()}, frame[columns.weights], columns.weights
            )
            refuse_repeats(None if parts is None else parts.along, counted)
            frame = as_frame(held["X"])
        mended = choices.mending.series(frame[outcome], outcome)
        raw = RawTable.of_frame(frame, names, choices)
        y = read_outcome(mended, outcome)
        with_y = {
            role: (name, read_outcome_column(frame[name], name, role))
            for role, name in outcome_columns.items()
        }
        design = None if parts is None else Design.read(parts, frame.__getitem__, missing)
        used = (*names, outcome, *taken.values(), labels_of)
        clock = clock_of(frame.to_native(), [name for name in frame.columns if name not in used])
        labels = frame[labels_of].to_list() if design is None else design.labels
        return _checked_data(
            raw, choices, y, with_y, labels, labels_of, missing, choice, design, clock, counted
        )

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        environments: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
        outcome_name: str | None = None,
        missing: Missing = "error",
        exclude: Sequence[str] = (),
        categorical: Categorical = "auto",
        numeric: Sequence[str] = (),
        groups: Any = None,
        drop_environments: Sequence[Hashable] = (),
        merge_environments: Merged = MappingProxyType({}),
        min_rows: int = 0,
        event: Any = None,
        exposure: Any = None,
        weights: Any = None,
        columns: Columns | None = None,
        design: Design | None = None,
        clock: Clock | None = None,
    ) -> MultiEnvironmentData:
        """Read data from arrays or data frames.

        Parameters
        ----------
        X : array-like of shape (N, p)
            Features. A float64 array in C order is not copied.
        y : array-like of shape (N,) or (N, 1)
            Outcome.
        environments : array-like of shape (N,), default=None
            Hashable label of each row. None is a single environment "all".
        feature_names : sequence of str, default=None
            Names. None takes those of a data frame X, else x0, x1, ...
        outcome_name : str, default=None
            Name. None takes that of a series y, else "y".
        missing : {"error", "drop", "level"}, default="error"
            Treatment of missing values. "drop" drops rows with missing values; "level" drops rows
            with missing numbers, and gives categories a level of missing values.
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
        event : array-like of shape (N,), default=None
            1 if the time y ended with the event, 0 if it was censored.
        exposure : array-like of shape (N,), default=None
            Positive time or size at risk of a count y.
        weights : array-like of shape (N,), default=None
            Frequency weights, whole numbers; 0 drops a row.
        columns : Columns, default=None
            Settings of columns together.
        design : Design, default=None
            What environments are compared by, in place of labels, as `Design.read` makes it.
        clock : Clock, default=None
            When rows were recorded. None takes a time index of X.

        Returns
        -------
        MultiEnvironmentData
            The data.

        Raises
        ------
        DataError
            If the data cannot be used; the message names the columns and the remedies.
        SettingError
            If a setting is unknown or contradicts another one.
        """
        check_known("missing", missing, MISSING)
        y, environments, event, exposure, weights = aligned(
            X, y=y, environments=environments, event=event, exposure=exposure, weights=weights
        )
        of_columns = Columns(
            exclude=exclude, categorical=categorical, numeric=numeric, groups=groups
        )
        columns = stated_once("columns", columns, of_columns)
        choice = Environments(drop=drop_environments, merge=merge_environments, min_rows=min_rows)
        clock = clock or clock_of(X, columns.exclude)
        weights = columns.weights if weights is None else weights
        counted = None
        if weights is not None:
            given = {
                "X": X,
                "y": y,
                "environments": environments,
                "event": event,
                "exposure": exposure,
                "design": design,
                "clock": clock,
            }
            held, counted = weighted(given, weights, "weights")
            X, y, environments, event, exposure, design, clock = held.values()
            refuse_repeats(None if design is None else design.variable, counted)
        table, names = table_of(X, feature_names, columns.exclude)
        known_columns("na", columns.na, names)
        choices = Choices.of(columns, names, missing)
        read = RawTable.of_array if isinstance(table, np.ndarray) else RawTable.of_frame
        raw = read(table, names, choices)
        outcome_columns = {
            role: outcome_column(values, role) for role, values in stated(event, exposure).items()
        }
        labels = None if environments is None else label_list(environments)
        labels = labels if design is None else design.labels
        if outcome_name is None or outcome_name == "y":
            outcome_name = free_name(outcome_name or one_series(y, "y")[1], names)
        if outcome_name in names:
            raise DataError(
                f"outcome_name={outcome_name!r} is also a feature name: choose another."
            )
        outcome = outcome_of(y, outcome_name)
        lengths = {"X": len(table), "y": len(outcome.values)}
        lengths |= {role: len(values) for role, (_, values) in outcome_columns.items()}
        check_lengths(lengths if labels is None else lengths | {"environments": len(labels)})
        if len(table) == 0:
            raise DataError(NO_ROWS)
        taken = (*names, outcome_name)
        with_y = {
            role: (free_name(name, taken), values)
            for role, (name, values) in outcome_columns.items()
        }
        named = None if design is None else design.name
        return _checked_data(
            raw, choices, outcome, with_y, labels, named, missing, choice, design, clock, counted
        )


def in_short(data: Any) -> str:
    """Of a MultiEnvironmentData or Moments."""
    size = f"{rows_text(data.n_rows)}, {data.n_features} features"
    labels = with_counts(data.environments, data.counts)
    return f"{type(data).__name__}({size}, outcome {data.outcome_name!r}, environments {labels})"


def require_data(data: Any, caller: str) -> None:
    """Raise when anything but a MultiEnvironmentData was given, and say how to build one."""
    if not isinstance(data, MultiEnvironmentData):
        raise WrongTypeError(
            f"{caller} needs a MultiEnvironmentData, not {type(data).__name__}: use "
            "MultiEnvironmentData.from_table(table, outcome=..., environment=...)."
        )


def without_constant(data: MultiEnvironmentData, constant: Mask) -> MultiEnvironmentData:
    """Without the columns (q,) that are constant over all rows; a feature goes with the last of its
    columns."""
    if not constant.any():
        return data
    left = _of_columns(data, ~constant)
    given = data.names_as_given
    positions = [j for j, name in enumerate(given) if name not in left.feature_names]
    values = {data.features.columns[j]: float(data.X[0, j]) for j in np.flatnonzero(constant)}
    partly = constant & data.features.expand(np.isin(data.feature_names, left.feature_names))
    return replace(
        left,
        dropped_features=tuple(given[j] for j in positions),
        dropped_positions=tuple(positions),
        dropped_columns=(*data.dropped_columns, *compress(data.features.columns, partly)),
        constants={**data.constants, **values},
    )


def _of_columns(data: MultiEnvironmentData, columns: Mask) -> MultiEnvironmentData:
    """The columns of a mask (q,) alone; a feature stays while one of its columns does."""
    left = data.features.without_columns(~columns)
    return replace(
        data,
        X=np.ascontiguousarray(data.X[:, columns]),
        feature_names=left.names,
        truth=None if data.truth is None else data.truth[np.isin(data.feature_names, left.names)],
        grouping=None if data.grouping is None else left,
    )


class _Rows(NamedTuple):
    """values (N, r) : of the features; outcomes (N, k) : outcome and what comes with it; codes (N,)
    : of environments, -1 where missing"""

    values: Floats
    outcomes: Floats
    codes: Places
    design: Design | None
    clock: Clock | None

    def of(self, rows: Mask, labels: Sequence[Hashable]) -> tuple[_Rows, Labels]:
        """The rows of a mask (N,), with codes into the labels that occur there."""
        left = _Rows(*(rows_at(each, rows) for each in self))
        codes, environments = encode_labels([labels[code] for code in left.codes])
        return left._replace(codes=codes), environments


def _checked_data(
    raw: RawTable,
    choices: Choices,
    outcome: Outcome,
    outcome_columns: Mapping[str, tuple[str, Floats]],
    labels: list[Hashable] | None,
    environment: str | None,
    missing: str,
    choice: Environments,
    design: Design | None,
    clock: Clock | None,
    weights: Weights | None,
) -> MultiEnvironmentData:
    """A whole table, encoded and checked. outcome_columns : {role: (name, (N,))}; labels : None:
    one environment"""
    codes, environments = encode_labels(["all"] * len(raw.values) if labels is None else labels)
    with_outcome = (values for _, values in outcome_columns.values())
    outcomes = np.column_stack([outcome.values, *with_outcome])
    rows = _Rows(raw.values, outcomes, codes, design, clock)
    alike = tell_alike(
        [label for label in set(labels or ()) if isinstance(label, str)], environment
    )
    notes: Names = ()
    if choice.merge and design is not None:
        raise DataError(
            "merge_environments= is for one column of labels: merge levels in the table."
        )
    if choice.regroups:
        new, notes = choice.renamed(
            environments, np.bincount(codes[codes >= 0], minlength=len(environments))
        )
        chosen = np.array([*(label in new for label in environments), True])[codes]
        rows, environments = rows.of(chosen, [*map(new.get, environments), None])
    summary = ColumnSummary.of(replace(raw, values=rows.values))
    named = [outcome.name, *(name for name, _ in outcome_columns.values())]
    columns = (*raw.names, *named)
    tally = Tally(columns)
    kept = tally.complete(rows.values, rows.outcomes, rows.codes, environments)
    raise_all(
        lambda: summary.check(raw.names, choices),
        lambda: tally.refuse_missing(raw.names, environment, missing, choices.excluded, raw.levels),
        lambda: check_distinct_labels(environments, labels_of(environment)),
    )
    counts = np.bincount(rows.codes[kept], minlength=len(environments))
    present = [label for label, n in zip(environments, counts, strict=True) if n]
    small, more = choice.too_small(present, counts[counts > 0])
    if small:
        kept &= np.array([label not in small for label in environments])[rows.codes]
        large = {label: label for label in (*present, *tally.dropped) if label not in small}
        n_dropped = sum(n for label, n in tally.dropped.items() if label in large)
        tally = tally.relabelled(large, int(kept.sum()) + n_dropped)
    if not kept.all():
        rows, environments = rows.of(kept, environments)
    outcomes = np.ascontiguousarray(rows.outcomes.T)
    X = np.ascontiguousarray(rows.values)
    codes, design, clock = rows[2:]
    if design is not None:
        codes, environments = design.in_order(codes, environments)
    check_scale(
        columns, *(np.append(end(X, axis=0), end(outcomes, axis=1)) for end in (np.min, np.max))
    )
    tally.warn_of_dropped(raw.names, environments, choices.excluded)
    y, classes = outcome.two_of(outcomes[0])
    raw = replace(raw, values=X)
    splines = {name: X[:, raw.names.index(name)] for name in choices.splines}
    taken = named if environment is None else [*named, environment]
    encoding = learn_encoding(
        raw.names, choices, summary, learnt_levels(raw, codes, environments), splines, taken
    )
    features = None if encoding is None else encoding.features
    roles: Fields = {f"{role}_name": name for role, (name, _) in outcome_columns.items()}
    data = MultiEnvironmentData(
        X if encoding is None else encoding.encode(raw),
        y,
        codes,
        raw.names if features is None else features.names,
        environments,
        outcome.name,
        environment,
        dropped_rows=tally.dropped,
        grouping=features,
        encoding=encoding,
        environment_notes=(*alike, *notes, *more),
        classes=classes,
        design=design,
        clock=clock,
        weights=weights,
        **roles,
        **dict(zip(outcome_columns, outcomes[1:], strict=True)),
    )
    refuse_single(data.environments, data.environment_notes)
    lowest, highest = data.outcome_range
    check_whole(
        data.environments,
        data.counts,
        lowest,
        highest,
        data.outcome_name,
        environment,
        labels is None,
    )
    _check_outcome_columns(data)
    low = data.X.min(axis=0)
    high = data.X.max(axis=0)
    names = (*data.features.columns, data.outcome_name)
    check_spread(names, np.append(low, data.y.min()), np.append(high, data.y.max()))
    left = without_constant(data, low == high)
    announce_constant(left.dropped_features, data.n_features, left.dropped_columns)
    warn_of_equal_columns(left.features, left.X, choices.excluded)
    warn_of_site_level(left.features, left.site_level, left.encoding, choices.excluded)
    return left


def _check_outcome_columns(data: MultiEnvironmentData) -> None:
    """Raise where times or exposures are not positive, what has an exposure is no count, or no
    event occurs."""
    y = data.y
    outcome = repr(data.outcome_name)
    if data.event is not None:
        if (y <= 0.0).any():
            what = (
                f"outcome {outcome} is a time to event, and is not above 0 in "
                f"{rows_text(int((y <= 0.0).sum()))}"
            )
            early = np.unique(y[y <= 0.0]).tolist()
            leave_out = (
                [use(na={data.outcome_name: early}, missing="drop")]
                if len(early) <= MOST_WORDS
                else []
            )
            raise DataError(f"{what}. Begin to count earlier, or leave those rows out", *leave_out)
        if not data.event.any():
            raise DataError(
                f"event {data.event_name!r} is 0 in every row: it must be 1 where the event "
                "occurred."
            )
    if data.exposure is not None:
        n_wrong = int((data.exposure <= 0.0).sum())
        if n_wrong:
            raise DataError(
                f"exposure {data.exposure_name!r} is not above 0 in {rows_text(n_wrong)}. Leave "
                "them out."
            )
        n_wrong = int(((y < 0.0) | (y != np.rint(y))).sum())
        if n_wrong:
            raise DataError(
                (
                    f"exposure= is for outcomes that are counts, and {outcome} is not in "
                    f"{rows_text(n_wrong)}. Give the count, not a rate"
                ),
                use(exposure=None, exclude=[data.exposure_name]),
            )
