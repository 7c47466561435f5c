"""The scikit-learn interface of all methods for several environments."""

from __future__ import annotations

import inspect
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from .._tools.arrays import Floats, Mask
from ..data.checks import did_you_mean, nearest, quoted, refuse_papers_words, warn, with_counts
from ..data.columns import (
    RawTable,
    aligned,
    array_values,
    as_frame,
    dense,
    excluding,
    frame_names,
    frame_values,
    holds_numbers,
    known_columns,
    refuse_beyond_double,
)
from ..data.encoding import Encoding
from ..data.multi_environment import MultiEnvironmentData
from ..data.outcomes import has_classes, named_like, outcome_of
from ..data.settings import Columns, FileFormat
from ..data.structure import Design, clock_of, is_columns, parts_of, refuse_repeats
from ..data.weights import Weights, weighted
from ..decisions.pipeline import Data
from ..exceptions import (
    DataError,
    Message,
    NotInvariantWarning,
    PredictionWarning,
    SettingError,
    WrongTypeError,
)
from ..moments.moments import Moments
from ..prediction.predictor import PredictedOutcome
from ..report.methods import typed
from .bases import BaseEstimator, RegressorMixin, SelectorMixin

_ABSENT = -1
_CLUSTERS = (
    "cluster",
    "clusters",
    "subject",
    "patient",
)  # rows of one of which are not independent
_ENVIRONMENTS = ("groups", "group", "environment", "envs", "env")  # as others call them
_AS_NUMBERS = {"dtype": np.float64, "ensure_all_finite": False}
_OF_COLUMNS, _OF_FILES = ({each.name for each in fields(kind)} for kind in (Columns, FileFormat))
_OF_DATA = tuple(inspect.signature(MultiEnvironmentData.from_arrays).parameters)


@dataclass(frozen=True, eq=False)
class Layout:
    """table : columns of the fitted table, or features where no table is known; columns : those of
    the coefficients.
    feature_at, column_at : position of each among the fitted features and columns, -1 for constant
        ones"""

    table: tuple[str, ...]
    columns: tuple[str, ...]
    feature_at: NDArray[np.intp]
    column_at: NDArray[np.intp]
    encoding: Encoding | None

    @classmethod
    def of(cls, data: Data) -> Layout:
        features = data.features
        encoding = data.encoding
        if encoding is not None:
            table = encoding.columns
            columns = encoding.features.columns
            owners = [encoding.owners[name] for name in table]
        else:
            table = (
                data.names_as_given if isinstance(data, MultiEnvironmentData) else features.names
            )
            # How a table became the columns of groups is not known: one to predict has them as they
            # are.
            columns = table if features.columns == features.names else features.columns
            owners = list(table)
        return cls(
            table,
            columns,
            _places(owners, features.names),
            _places(columns, features.columns),
            encoding,
        )

    @property
    def columns_of_tables(self) -> tuple[str, ...]:
        """Columns of a table to predict."""
        return self.columns if self.encoding is None else self.table

    @property
    def ignored(self) -> tuple[str, ...]:
        """Constant columns of the table."""
        if self.encoding is None:
            return tuple(
                name
                for name, place in zip(self.table, self.feature_at, strict=True)
                if place == _ABSENT
            )
        fitted = {
            name
            for name, place in zip(self.columns, self.column_at, strict=True)
            if place != _ABSENT
        }
        return tuple(
            term.column for term in self.encoding.terms if not fitted.intersection(term.names)
        )


def _places(names: Sequence[str], among: Sequence[str]) -> NDArray[np.intp]:
    position = {name: j for j, name in enumerate(among)}
    return np.array([position.get(name, _ABSENT) for name in names], dtype=np.intp)


def _spread(values: NDArray, places: NDArray[np.intp], fill: Any) -> NDArray:
    full = np.full(places.shape + values.shape[1:], fill, dtype=values.dtype)
    full[places != _ABSENT] = values[places[places != _ABSENT]]
    return full


class EnvironmentSelector(SelectorMixin, RegressorMixin, BaseEstimator):
    """Select features from data of several environments, and predict by them.

    This is the base of the estimators. It reads and checks the data for `fit`, and tables for
    `predict` and `transform`. A feature may have several columns: levels, a spline, a group. A
    subclass has the parameter `columns`.

    Attributes
    ----------
    support_ : ndarray of shape (n_features,), bool
        Selected features; the columns of a group share one value.
    selected_features_ : tuple of str
        Names of the selected features.
    columns_ : tuple of str
        Encoded columns; those of X if every feature is one column.
    coef_ : ndarray of shape (n_columns,)
        One coefficient for each of `columns_`.
    intercept_ : float
        Intercept.
    n_environments_ : int
        Number of environments E.
    environments_ : tuple
        Labels of the environments.
    """

    columns: Columns | None
    support_: Mask
    selected_features_: tuple[str, ...]
    coef_: Floats
    intercept_: float
    _takes_moments = False
    _set_aside: tuple[str, ...] = ()  # columns of X that are no features

    @abstractmethod
    def fit(self, X: Any, y: Any = None, environments: Any = None) -> Self: ...

    def _read(
        self,
        X: Any,
        y: Any,
        environments: Any,
        outcome_columns: Mapping[str, Any],
        sample_weight: Any = None,
    ) -> Any:
        """The data as a MultiEnvironmentData, or as the Moments that were given."""
        if not isinstance(self.columns, Columns | None):
            raise SettingError(
                f"columns={self.columns!r} is not known: use None or Columns(environment='site', "
                "...)."
            )
        self._check_settings()
        if isinstance(X, MultiEnvironmentData | Moments):
            given = {
                "y": y,
                "environments": environments,
                "sample_weight": sample_weight,
                **outcome_columns,
            }
            return self._read_already(X, given)
        if y is None:
            raise DataError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        routed = (
            get_config()["enable_metadata_routing"]
            and environments is None
            and self._columns.environment is None
        )
        if routed and self.get_metadata_routing().fit.requests["environments"] is None:
            what = "metadata routing is on, and fit() got no environments: request them, as"
            raise SettingError(
                f"{what} {type(self).__name__}().set_fit_request(environments='groups') does."
            )
        X = dense(X, "X")
        given = {
            "environments": _one_name(environments, X),
            "sample_weight": sample_weight,
            **outcome_columns,
        }
        y, *values = aligned(X, y=y, **given)
        X, y, given, weights = self._weighted(X, y, dict(zip(given, values, strict=True)))
        table, given = self._split(X, given.pop("environments"), given)
        table, outcome, names = self._validated(table, y)
        columns = replace(self._columns, features=None, exclude=(), environment=None, weights=None)
        with worded_for_fit(table):
            outcome = named_like(y, outcome)
            data = MultiEnvironmentData.from_arrays(
                table, outcome, feature_names=names, columns=columns, **given
            )
        data = replace(data, weights=weights)
        if data.n_environments == 1:
            what = "no environments were given, and one says nothing about invariance"
            warn(f"{what}: pass fit(X, y, environments=labels).", NotInvariantWarning)
        self._by_name = False
        return data

    def _read_already(self, data: Data, given: Mapping[str, Any]) -> Any:
        kind = type(data).__name__
        if isinstance(data, Moments) and not self._takes_moments:
            raise WrongTypeError(
                f"{type(self).__name__} needs rows, and Moments hold none: fit a table."
            )
        for name, value in given.items():
            if value is not None:
                raise SettingError(f"{name}= is part of a {kind} already: leave it out.")
        reading = replace(self._columns, environment=None, handle_unknown="error")
        if reading != Columns():
            raise SettingError(
                f"columns={typed(reading)} is for tables, and this {kind} was read: state it there."
            )
        names = Layout.of(data).table
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)
        self._set_aside = ()
        self._by_name = True
        return data

    def _weighted(
        self, X: Any, y: Any, given: dict[str, Any]
    ) -> tuple[Any, Any, dict[str, Any], Weights | None]:
        """The rows of X, y and what was given with them, each as often as it counts, and a column
        of weights by name"""
        weights = given.pop("sample_weight")
        column = self._columns.weights
        if weights is not None and column is not None:
            raise DataError(
                f"weights came twice: as sample_weight= and as the column {column!r}. Use one of "
                "the two."
            )
        weights = column if weights is None else weights
        if weights is None:
            return X, y, given, None
        named = {}
        available = frame_names(X)
        if isinstance(weights, str):
            _check_named({"sample_weight": weights}, available)
            named = {"sample_weight": weights}
            weights = as_frame(X, "X")[weights]
        labels = given["environments"]
        if isinstance(labels, str) or is_columns(labels, available, X):
            named["environments"] = labels
        named |= {role: values for role, values in given.items() if isinstance(values, str)}
        listed = {role: values for role, values in given.items() if role not in named}
        found, counted = weighted({"X": X, "y": y, **listed}, weights, "sample_weight")
        parts = parts_of(self._columns.environment if labels is None else labels)
        refuse_repeats(None if parts is None else parts.along, counted)
        return found.pop("X"), found.pop("y"), {**given, **named, **found}, counted

    def _split(
        self, X: Any, environments: Any, outcome_columns: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """The features of a table; {role: values} of the labels, or the design, and of what comes
        with the outcome."""
        columns = self._columns
        available = frame_names(X)
        if columns.environment is not None and environments is not None:
            what = (
                f"as environments= and as the column {columns.environment!r} of "
                "Columns(environment=...)"
            )
            raise DataError(f"environment labels came twice: {what}. Use one of the two.")
        labels = _one_name(columns.environment, X) if environments is None else environments
        given = {"environments": labels, **outcome_columns}
        parts = (
            parts_of(given["environments"])
            if is_columns(given["environments"], available, X)
            else None
        )
        if parts is not None:
            given["environments"] = parts.name
        named = {role: name for role, name in given.items() if isinstance(name, str)}
        named |= {} if parts is None else parts.columns
        _check_named(named, available)
        given.pop("sample_weight", None)  # by which rows are repeated already
        frame = as_frame(X, "X") if named else {}
        values = {role: frame[name].to_native() for role, name in named.items() if role in given}
        if parts is not None:
            values |= {
                "environments": None,
                "design": Design.read(parts, frame.__getitem__, "error"),
            }
        self._set_aside = tuple(named.values())
        if columns.features is not None or columns.exclude:
            if available is None:
                raise DataError(
                    "features and exclude name columns, and X has no column names: pass a data "
                    "frame."
                )
            wanted = known_columns("features", columns.features or available, available)
            kept = excluding(
                columns.exclude, [name for name in wanted if name not in named.values()], available
            )
            self._set_aside = tuple(name for name in available if name not in kept)
        unused = [name for name in self._set_aside if name not in named.values()]
        return _without_columns(X, self._set_aside), given | values | {"clock": clock_of(X, unused)}

    def _validated(self, X: Any, y: Any) -> tuple[Any, Any, list[str] | None]:
        """X as numbers, or as it is if it is a data frame that holds others; y; the names of the
        columns."""
        names = None
        if frame_names(X) is None or holds_numbers(as_frame(X, "X")):
            refuse_beyond_double(X, "X")
            checked = partial(validate_data, self, X, ensure_min_samples=3, **_AS_NUMBERS)
            X = _as_numbers("X", checked, partial(array_values, X, "X"))
            names = list(getattr(self, "feature_names_in_", [])) or None
        else:
            validate_data(self, X, skip_check_array=True)
        if not has_classes(y):
            refuse_beyond_double(y, "y")
            checked = partial(check_array, y, input_name="y", ensure_2d=False, **_AS_NUMBERS)
            y = _as_numbers("y", lambda: column_or_1d(checked(), warn=True), partial(outcome_of, y))
        return X, y, names

    def _check_settings(self) -> None:
        """Raise where a setting cannot be used, before data are read."""

    def _lay_out(self, data: Data) -> None:
        self._layout = Layout.of(data)
        self.columns_ = self._layout.columns
        self.environments_ = data.environments
        self.n_environments_ = data.n_environments

    def _keep(
        self,
        data: Data,
        selected: Mask,
        outcome: PredictedOutcome,
        coefficients: Floats,
        intercept: float,
    ) -> None:
        """selected : (p,); coefficients : (q,) of the columns of the data"""
        self._outcome = outcome
        self.support_ = self._expand(selected, False)
        self.selected_features_ = data.features.chosen(selected).names
        self.coef_ = self._expand_columns(coefficients, 0.0)
        self.intercept_ = intercept

    @property
    def _columns(self) -> Columns:
        return self.columns or Columns()

    def _expand(self, values: NDArray, fill: Any) -> NDArray:
        """Return values (n_features_in_, …) from (p, …); a constant column gets `fill`."""
        return _spread(values, self._layout.feature_at, fill)

    def _expand_columns(self, values: NDArray, fill: Any) -> NDArray:
        """Return values (len(columns_), …) from (q, …); a constant column gets `fill`."""
        return _spread(values, self._layout.column_at, fill)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the predictions.

        For two classes it is the R² of 0 and 1.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.
        y : array-like of shape (n,)
            Outcome.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        float
            R².
        """
        check_is_fitted(self)
        y, sample_weight = aligned(X, y=y, sample_weight=sample_weight)
        return float(super().score(X, self._outcome.coded(y), sample_weight))

    def _features_of(self, X: Any) -> Any:
        """The features of a table, 0 in constant ones; after a fit to a data set by name, where
        these may be absent."""
        X = dense(X, "X")
        layout = self._layout
        names = frame_names(X)
        if self._by_name and names is not None:
            frame = as_frame(X, "X").with_columns(
                *(nw.lit(0).alias(name) for name in layout.ignored)
            )
            return frame.select(
                [name for name in layout.columns_of_tables if name in frame.columns]
            ).to_native()
        fitted = layout.feature_at != _ABSENT
        if (
            self._by_name
            and layout.columns == layout.table
            and np.shape(X)[1:] == (np.count_nonzero(fitted),)
        ):
            return self._expand(np.asarray(X).T, 0).T
        X = _without_columns(X, self._set_aside)
        if layout.encoding is not None or fitted.all():
            return X
        if names is None:
            values = np.asarray(X)
            return np.where(fitted, values, 0) if values.shape[1:] == fitted.shape else X
        frame = as_frame(X, "X")
        return frame.with_columns(
            *(nw.lit(0).alias(n) for n in layout.ignored if n in frame.columns)
        ).to_native()

    def _fitted_columns(self, X: Any) -> Floats:
        """Return the encoded columns (N, len(columns_)) of a table."""
        X = self._features_of(X)
        encoding = self._layout.encoding
        if encoding is None and self.columns_ == self._layout.table:
            return _checked(
                RawTable(self.columns_, validate_data(self, X, reset=False, **_AS_NUMBERS))
            ).values
        if encoding is None:
            frame = as_frame(X, "X")
            values = frame_values(frame, known_columns("columns", self.columns_, frame.columns))
            return _checked(RawTable(self.columns_, values)).values
        if frame_names(X) is not None:
            raw = self._raw(as_frame(X, "X"), X)
        elif self._by_name or np.asarray(X).dtype.kind not in "biuf":
            wanted = quoted(encoding.columns)
            raise DataError(
                "X has no column names, by which features are found: pass a data frame with "
                f"{wanted}."
            )
        else:
            values = validate_data(self, X, reset=False, **_AS_NUMBERS)
            raw = _checked(RawTable.of_array(values, encoding.columns, encoding.choices))
        return encoding.encode(raw, self._columns.handle_unknown)

    def _raw(self, frame: Any, X: Any) -> RawTable:
        """A data frame read as in `fit`; raises where values are missing or infinite."""
        assert self._layout.encoding is not None
        validate_data(self, X, reset=False, skip_check_array=True)
        return _checked(self._layout.encoding.read(frame, self._layout.ignored))

    def transform(self, X: Any) -> Any:
        """Return the selected features of a table.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.

        Returns
        -------
        ndarray or data frame of shape (n, n_selected)
            The selected features as they are in X, not encoded.

        Raises
        ------
        DataError
            If values are missing or infinite.

        Warns
        -----
        PredictionWarning
            If no feature was selected.
        """
        if not self._get_support_mask().any():
            warn(
                "no feature was selected: transform() returns no columns, which pipelines refuse.",
                PredictionWarning,
            )
        X = self._features_of(X)
        if self._layout.encoding is None or frame_names(X) is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="No features were selected")
                return super().transform(X)
        frame = as_frame(X, "X")
        self._raw(frame, X)
        chosen = frame.select(
            [name for name, selected in zip(frame.columns, self.support_, strict=True) if selected]
        )
        container = _get_output_config("transform", estimator=self)["dense"]
        if container != "default" and self.support_.any():
            return chosen.to_pandas() if container == "pandas" else chosen.to_polars()
        if self.support_.any() and holds_numbers(chosen):
            return frame_values(chosen, chosen.columns)
        values = np.empty((len(frame), len(chosen.columns)), dtype=object)
        for j, name in enumerate(chosen.columns):
            values[:, j] = chosen[name].to_list()
        return values

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Return the names of the columns that `transform` returns.

        Parameters
        ----------
        input_features : sequence of str, default=None
            Names of the columns of X; they may include columns that are not features.

        Returns
        -------
        ndarray of str
            Names of the selected features.
        """
        if input_features is not None and hasattr(self, "feature_names_in_"):
            apart = set(self._set_aside) - set(self.feature_names_in_)
            input_features = [name for name in input_features if name not in apart]
        return super().get_feature_names_out(input_features)

    def _get_support_mask(self) -> Mask:
        check_is_fitted(self)
        return self.support_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # fit(X, y) alone has no environments to learn from: a selector may then select nothing and
        # predict the mean.
        tags.regressor_tags.poor_score = True
        tags.input_tags.sparse = True  # made dense
        return tags


def _checked(raw: RawTable) -> RawTable:
    """Raise where values are missing or infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(raw.values.sum()):  # else something may be wrong
            return raw
    for what, wrong in (("missing values (NaN)", np.isnan), ("infinite values (inf)", np.isinf)):
        where = with_counts(raw.names, wrong(raw.values).sum(axis=0))
        if where:
            raise DataError(f"X has {what} in {where}. Replace them, or leave those rows out.")
    return raw


_P = ParamSpec("_P")


def explains_unknown(
    init: Callable[Concatenate[Any, _P], None],
) -> Callable[Concatenate[Any, _P], None]:
    """A constructor that says what to do instead of an argument it does not have."""
    known = [*inspect.signature(init).parameters]

    @wraps(init)
    def checked(self: Any, *settings: _P.args, **named: _P.kwargs) -> None:
        refuse_arguments([name for name in named if name not in known], type(self).__name__, known)
        init(self, *settings, **named)

    return checked


def refuse_arguments(unknown: Iterable[str], where: str = "fit", known: Sequence[str] = ()) -> None:
    """Raise about arguments that `fit`, or the constructor of an estimator, does not have; known :
    those that it has"""
    unknown = list(unknown)
    refuse_papers_words(where, unknown)
    for name in unknown:
        instead = (
            "pass environments=, one label per row" if name in _ENVIRONMENTS else "leave it out"
        )
        if name in _CLUSTERS:
            instead = (
                "rows count as independent. Give one row each, or these as environments, "
                "deviations='random'"
            )
        if name in _OF_DATA and name not in _ENVIRONMENTS and where == "fit":
            of_table = (
                f"columns=Columns({name}=...) and a data frame, or " if name in _OF_COLUMNS else ""
            )
            instead = (
                f"use {of_table}MultiEnvironmentData.from_arrays(X, y, environments, {name}=...)"
            )
        if name == "sample_weight":
            instead = (
                "use columns=Columns(weights='w'), or MultiEnvironmentData.from_arrays(X, "
                "y, ..., weights=w)"
            )
        if name == "class_weight":
            what = "weights by class change the likelihoods that environments are compared by"
            instead = (
                f"{what}. Choose a threshold on predict_proba, as TunedThresholdClassifierCV does"
            )
        remedy = did_you_mean(name, known) or f": {instead}."
        raise WrongTypeError(f"{where}() got an unexpected keyword argument {name!r}{remedy}")


def _one_name(environments: Any, X: Any) -> Any:
    """The name in a list of one name of a column; anything else as it is."""
    single = isinstance(environments, list | tuple) and len(environments) == 1
    return environments[0] if single and environments[0] in (frame_names(X) or ()) else environments


def _check_named(named: Mapping[str, str], available: Sequence[str] | None) -> None:
    """Raise where what names a column, {role: name}, is none of X."""
    for role, name in named.items():
        if name not in (available or ()):
            found = (
                "has no column names."
                if available is None
                else f"lacks it; {nearest(name, available)}"
            )
            raise DataError(
                f"{role}={name!r} names a column of X, which {found} Pass one value per row."
            )


@contextmanager
def worded_for_fit(X: Any) -> Iterator[None]:
    """Inside the block: remedies of a DataError about X are settings of tables as `fit` takes
    them."""
    try:
        yield
    except DataError as error:
        message = error.args[0]
        if isinstance(X, MultiEnvironmentData | Moments) or not isinstance(message, Message):
            raise
        named = frame_names(X) is not None
        raise DataError(message.worded(partial(_typed_in_fit, named))) from None


def _typed_in_fit(named: bool, name: str, value: Any) -> str:
    """A setting, for rows whose columns are named or not"""
    if name in _OF_COLUMNS and (named or name not in ("features", "exclude")):
        return f"columns=Columns({name}={value!r})"
    if name in _OF_FILES:
        return f"read_table(..., {name}={value!r})"
    if name in _OF_DATA:
        return f"MultiEnvironmentData.from_arrays(..., {name}={value!r})"
    return f"{name}={value!r}"


def _as_numbers(what: str, check: Callable[[], Any], explain: Callable[[], object]) -> Any:
    """Return the result of a check of scikit-learn, with its errors as this package's.

    `explain` may raise a better one.
    """
    try:
        return check()
    except (DataError, SettingError, WrongTypeError):
        raise
    except TypeError as error:
        raise WrongTypeError(f"{what} cannot be read as numbers: {error}") from None
    except ValueError as error:
        explain()
        raise DataError(str(error)) from None


def _without_columns(X: Any, names: Sequence[str]) -> Any:
    """A data frame without those of the columns that it has; anything else as it is."""
    if not set(names).intersection(frame_names(X) or []):
        return X
    frame = as_frame(X, "X")
    return frame.select([name for name in frame.columns if name not in names]).to_native()
