"""What every method that selects features from several environments shares: the scikit-learn grammar."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from .._tools.arrays import Floats, Mask
from ..data.checks import DROP_HINT, check_outcome, nearest, quoted, warn, with_counts
from ..data.columns import (
    RawTable,
    array_values,
    as_frame,
    frame_names,
    frame_values,
    holds_numbers,
    refuse_beyond_double,
)
from ..data.encoding import Encoding
from ..data.multi_environment import MultiEnvironmentData, require_data
from ..data.outcomes import has_classes, left_out, named_like, outcome_of
from ..data.terms import Spline
from ..exceptions import (
    DataError,
    InvarianceError,
    NotInvariantWarning,
    PredictionWarning,
    SettingError,
    WrongTypeError,
)
from ..moments.least_squares import least_squares
from ..moments.moments import Moments
from ..prediction.predictor import PredictedOutcome

_ABSENT = -1


@dataclass(frozen=True, eq=False)
class Layout:
    """table: the columns of the table that was fitted, or the features where no table is known; columns: what
    coefficients belong to, with those that are constant.

    feature_at, column_at : where each of these stands among the features and columns that were fitted; -1 if nowhere
    """

    table: tuple[str, ...]
    columns: tuple[str, ...]
    feature_at: NDArray[np.intp]
    column_at: NDArray[np.intp]
    encoding: Encoding | None

    @classmethod
    def of(cls, data: MultiEnvironmentData | Moments) -> Layout:
        features, encoding = data.features, data.encoding
        if encoding is not None:
            table, columns = encoding.columns, encoding.features.columns
            owners = [encoding.owners[name] for name in table]
        else:
            table = data.names_as_given if isinstance(data, MultiEnvironmentData) else features.names
            columns = table if features.columns == features.names else features.columns
            owners = list(table)
        return cls(table, columns, _places(owners, features.names), _places(columns, features.columns), encoding)

    @property
    def grouped_without_table(self) -> bool:
        """Whether features have other columns than themselves, and it is not known how a table becomes these."""
        return self.encoding is None and self.columns != self.table

    @property
    def derived(self) -> frozenset[str]:
        """Columns that only follow another one, the curves of splines."""
        return frozenset() if self.encoding is None else self.encoding.derived

    @property
    def kept(self) -> Mask:
        """(n_features_in_,) what belongs to a feature that was fitted"""
        return self.feature_at != _ABSENT

    @property
    def ignored(self) -> tuple[str, ...]:
        """Columns of the table of which nothing was fitted, because they are constant."""
        if self.encoding is None:
            return tuple(name for name, kept in zip(self.table, self.kept, strict=True) if not kept)
        fitted = {name for name, place in zip(self.columns, self.column_at, strict=True) if place != _ABSENT}
        return tuple(term.column for term in self.encoding.terms if not fitted.intersection(term.names))

    def blanked(self, X: Any) -> Any:
        """A table with zeros for columns of which nothing was fitted: whatever is in them, or missing, is not used."""
        if self.encoding is not None or self.kept.all():
            return X
        if frame_names(X) is None:
            values = np.asarray(X)
            return np.where(self.kept, values, 0) if values.shape[1:] == self.kept.shape else X
        import narwhals as nw

        frame = nw.from_native(X, eager_only=True)
        there = [nw.lit(0).alias(name) for name in self.ignored if name in frame.columns]
        return frame.with_columns(*there).to_native()

    def by_table(self, values: NDArray, fill: Any) -> NDArray:
        """(n_features_in_, …) from (p, …), one of each feature that was fitted"""
        return _spread(values, self.feature_at, fill)

    def by_column(self, values: NDArray, fill: Any) -> NDArray:
        """(number of columns, …) from (q, …), one of each column that was fitted"""
        return _spread(values, self.column_at, fill)


def _spread(values: NDArray, places: NDArray[np.intp], fill: Any) -> NDArray:
    full = np.full(places.shape + values.shape[1:], fill, dtype=values.dtype)
    full[places != _ABSENT] = values[places[places != _ABSENT]]
    return full


def _places(names: Sequence[str], among: Sequence[str]) -> NDArray[np.intp]:
    position = {name: j for j, name in enumerate(among)}
    return np.array([position.get(name, _ABSENT) for name in names], dtype=np.intp)


# What each setting is when nothing is said: those that make features of columns, and all that concern tables.
READING: dict[str, Any] = {"categorical": "auto", "numeric": (), "groups": None}
OF_TABLES: dict[str, Any] = {"environment": None, **READING, "handle_unknown": "error"}


def stated(model: Any, defaults: Mapping[str, Any] = READING) -> dict[str, Any]:
    """{setting: value} of those settings of the model that say something, in a form that can be typed."""
    values = {name: getattr(model, name) for name in defaults}
    return {name: _plain(value) for name, value in values.items() if not _says_nothing(value, defaults[name])}


def typed(settings: Mapping[str, Any]) -> str:
    """ "categorical=['code'], groups=[spline('age', knots=4)]" """
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


def defaults_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: OF_TABLES[name] for name in settings}


def refuse_for_ready_data(model: Any, caller: str, reader: str) -> None:
    """Raise when the model says how a table is read; `reader`: what makes the data that the caller takes."""
    settings = stated(model)
    if settings:
        raise SettingError(
            f"{typed(settings)} says how a table is read, and {caller} takes data that are read already: say it to "
            f"{reader}(..., {typed(settings)}), and not here, set_params({typed(defaults_of(settings))})."
        )


def refuse_inside(outer: str, model: Any) -> None:
    """Raise when the model says something of tables, of which it sees none inside the outer one."""
    settings, name = stated(model, OF_TABLES), type(model).__name__
    if settings:
        moved = {f"estimator__{setting}": value for setting, value in defaults_of(settings).items()} | settings
        raise SettingError(
            f"{name}({typed(settings)}) inside {outer} never sees the table: say it to {outer} instead, "
            f"set_params({typed(moved)})."
        )


def _says_nothing(value: Any, default: Any) -> bool:
    if isinstance(value, str):
        return value == default
    return value is None or (isinstance(value, Collection) and not len(value))


def _plain(value: Any) -> Any:
    """Names in any collection as lists of text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(members) for name, members in value.items()}
    if isinstance(value, str | Spline) or not isinstance(value, Collection):
        return value
    return [member if isinstance(member, Spline) else str(member) for member in value]


def named_columns(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of X among {role: values, name of a column, or None}."""
    return tuple(name for name in given.values() if isinstance(name, str))


def split_beside(X: Any, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """X without the columns that are named, and {role: values}."""
    columns = frame_names(X)
    values = {role: value for role, value in given.items() if value is not None}
    for role, name in values.items():
        if not isinstance(name, str):
            continue
        if columns is None or name not in columns:
            found = "has no column names." if columns is None else f"has no such column; {nearest(name, columns)}"
            raise DataError(f"{role}={name!r} names a column of X, which {found} Pass one value per row otherwise.")
        values[role] = as_frame(X, "X")[name].to_native()
    return without_columns(X, named_columns(given)), values


def without_columns(X: Any, names: Sequence[str]) -> Any:
    """A data frame without those of the columns that it has; anything else as it is."""
    columns = frame_names(X) or []
    if not set(names).intersection(columns):
        return X
    frame = nw.from_native(X, eager_only=True)
    return frame.select([name for name in frame.columns if str(name) not in names]).to_native()


def in_typing(given: Mapping[str, Any]) -> Iterator[str]:
    """As arguments of `MultiEnvironmentData.from_arrays`, where X is what was given to `fit`."""
    for role, value in given.items():
        if value is not None:
            yield f"{role}=X[{value!r}]" if isinstance(value, str) else f"{role}={role}"
    named = named_columns(given)
    if named:
        yield f"exclude={list(named)!r}"


class EnvironmentSelector(SelectorMixin, RegressorMixin, BaseEstimator):
    """Base of the estimators: checks the data, then asks `_select` for the features.

    A subclass stores its parameters, among them `environment` (the column of a data frame X that holds the labels,
    or None), and implements `_select(data)`, which sets its own fitted attributes and returns a mask
    (data.n_features,).

    A feature may be several columns: the levels of a category, a spline, a group. `categorical`, `numeric` and `groups`
    are as in `MultiEnvironmentData.from_table`; `handle_unknown` is what `predict` does about levels that the training
    data lack: "error", or "ignore", with which they count as the reference level.

    Fitted: support_ (n_features_in_,), all columns of a group sharing theirs; selected_features_: names; coef_, one for
    each of columns_, which are those of X where every feature is one of them; intercept_, n_environments_,
    environments_, n_features_in_, feature_names_in_ where X has names.
    """

    environment: str | None
    categorical: Any = "auto"
    numeric: Any = ()
    groups: Any = None
    handle_unknown: str = "error"
    _outcome_columns: tuple[str, ...] = ()  # columns of X that are no features, because they come with the outcome
    _single_environment_message = (
        "no environments were given, so all rows count as one environment, which says nothing about invariance. "
        "Pass fit(X, y, environments=labels)."
    )

    @abstractmethod
    def _select(self, data: MultiEnvironmentData) -> Mask: ...

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        environments: ArrayLike | None = None,
        event: Any = None,
        exposure: Any = None,
    ) -> Self:
        """Fit to X (n, p), y (n,) and one environment label per row. The name of a series y is the outcome's.

        Labels come from `environments`, or from the column of X that the constructor's `environment` names. What comes
        with the outcome, as in `MultiEnvironmentData.from_table`, is one value per row or the name of a column of X:
        `event`, 1 where the time y ended with the event, 0 where it was censored; `exposure` of a count y.
        """
        given, labels = X, environments
        self._check_handle_unknown()
        self._check_table_settings()
        X, environments = self._split_environment(X, environments)
        stated_beside = {"event": event, "exposure": exposure}
        X, outcome_columns = split_beside(X, stated_beside)
        table, values, names = self._validated(X, y)
        how = {name: getattr(self, name) for name in READING} | outcome_columns
        try:
            data = MultiEnvironmentData.from_arrays(
                table, named_like(y, values), environments, feature_names=names, **how
            )
        except DataError as error:
            message = str(error).replace(DROP_HINT, self._drop_hint(given, labels, stated_beside))
            raise DataError(message + self._where_to_say(message)) from None
        if data.n_environments == 1:
            warnings.warn(self._single_environment_message, NotInvariantWarning, stacklevel=2)
        self._by_name = False
        self._outcome_columns = named_columns(stated_beside)
        self._fit_checked(data)
        return self

    def _validated(self, X: Any, y: Any) -> tuple[Any, Any, list[str] | None]:
        """X as numbers, or as it is if it is a data frame that holds others; y; the names of the columns."""
        if y is None:
            raise DataError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None: "
                "fit(X, y, environments=labels)."
            )
        names = None
        if frame_names(X) is None or holds_numbers(as_frame(X, "X")):
            refuse_beyond_double(X, "X")
            with _complaints("X", lambda: array_values(X, "X")):
                X = validate_data(self, X, **_X_AS_NUMBERS)
            names = list(getattr(self, "feature_names_in_", [])) or None
        else:
            validate_data(self, X, skip_check_array=True)
        if not has_classes(y):
            refuse_beyond_double(y, "y")
            with _complaints("y", lambda: outcome_of(y)):
                y = column_or_1d(check_array(y, input_name="y", **_Y_AS_NUMBERS), warn=True)
        return X, y, names

    def fit_data(self, data: MultiEnvironmentData) -> Self:
        """Fit to a data set that is already checked; keeps its names and labels.

        The features are those of the table as given, constant ones too. `predict` and `transform` find them by name
        in any table that has them; they do not look at the constant ones, which may be absent.
        """
        require_data(data, "fit_data")
        self._check_handle_unknown()
        refuse_for_ready_data(self, "fit_data", "MultiEnvironmentData.from_table")
        self._fit_by_name(data)
        return self

    def _fit_by_name(self, data: Any) -> None:
        names = Layout.of(data).table
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)
        self._by_name = True
        self._fit_checked(data)

    def _fit_checked(self, data: Any) -> None:
        """data: a MultiEnvironmentData, or what else `_select` takes"""
        self._check_outcome(data)
        self._layout = Layout.of(data)
        self.columns_ = self._layout.columns
        self.environments_ = data.environments
        self.n_environments_ = data.n_environments
        selected = self._select(data)
        self._outcome = self._predicted(data)
        self.support_ = self._expand(selected, False)
        self.selected_features_ = tuple(name for name, flag in zip(data.feature_names, selected, strict=True) if flag)
        coefficients, self.intercept_ = self._coefficients(data, selected)
        self.coef_ = self._expand_columns(coefficients, 0.0)

    def _check_outcome(self, data: Any) -> None:
        """Raise where the outcome is not one that least squares can be fitted to in every environment."""
        for role, name in (("event", data.event_name), ("exposure", data.exposure_name)):
            if name is not None:
                raise DataError(
                    f"{type(self).__name__} regresses the outcome itself and cannot use the {role} {name!r}: use BIP, "
                    f"or {left_out(role, name)}."
                )
        low, high = data.outcome_range
        check_outcome(data.environments, data.counts, low, high, data.outcome_name)

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> tuple[Floats, float]:
        """One coefficient per column of data.X, and the intercept: pooled least squares on the selected features."""
        columns = data.features.expand(selected)
        fit = least_squares(data.X[:, columns], data.y)
        coefficients = np.zeros(data.features.n_columns)
        coefficients[columns] = fit.coefficients
        return coefficients, fit.intercept

    def _predicted(self, data: Any) -> PredictedOutcome:
        return PredictedOutcome.of(data, None)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions; of two classes that of 0 and 1."""
        check_is_fitted(self)
        return float(super().score(X, self._outcome.coded(y), sample_weight))

    @property
    def _kept(self) -> Mask:
        return self._layout.kept

    def _expand(self, values: NDArray, fill: Any) -> NDArray:
        """From the features that vary to the columns of X: a constant column gets `fill`."""
        return self._layout.by_table(values, fill)

    def _expand_columns(self, values: NDArray, fill: Any) -> NDArray:
        """From the columns of the data to columns_: a constant column gets `fill`."""
        return self._layout.by_column(values, fill)

    def predict(self, X: Any) -> Floats:
        """The outcome by the pooled fit of the selected features."""
        check_is_fitted(self)
        return self._mean(self._fitted_columns(self._features_of(X)) @ self.coef_ + self.intercept_)

    def _mean(self, predictor: Floats) -> Floats:
        """The outcome (n,) that is expected at intercept + coefficients · columns (n,)."""
        return predictor

    def _fitted_columns(self, X: Any) -> Floats:
        """(N, len(columns_)) of the features of a table"""
        encoding = self._layout.encoding
        if self._layout.grouped_without_table:
            return _columns_of(X, self.columns_)
        if encoding is None:
            return validate_data(self, self._layout.blanked(X), dtype=np.float64, reset=False)
        if frame_names(X) is None:
            if self._by_name or np.asarray(X).dtype.kind not in "biuf":
                wanted = quoted(encoding.columns)
                raise DataError(f"X has no column names, by which features are found: pass a data frame with {wanted}.")
            values = validate_data(self, X, dtype=np.float64, reset=False)
            raw = RawTable.of_array(values, encoding.columns, encoding.choices)
        else:
            validate_data(self, X, reset=False, skip_check_array=True)
            raw = encoding.read(as_frame(X, "X"), self._layout.ignored)
            _check_finite(raw)
        return encoding.encode(raw, self.handle_unknown)

    def transform(self, X: Any) -> Any:
        """X with the selected features only; the environment column, if there is one, is left out."""
        if self._get_support_mask().any():
            return self._selected_columns(self._features_of(X))
        warn(
            "no feature was selected, so transform() returns a table without columns, which the next step of a "
            f"pipeline refuses. {self._way_out()}, or make this the last step: its predict() then gives the mean.",
            PredictionWarning,
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="No features were selected")
            return self._selected_columns(self._features_of(X))

    def _selected_columns(self, X: Any) -> Any:
        """What is selected of a table of features. Where it holds more than numbers, values stay as they are."""
        encoding = self._layout.encoding
        if encoding is None or frame_names(X) is None:
            return super().transform(self._layout.blanked(X))
        validate_data(self, X, reset=False, skip_check_array=True)
        frame = as_frame(X, "X")
        _check_finite(encoding.read(frame, self._layout.ignored))
        chosen = frame.select([name for name, selected in zip(frame.columns, self.support_, strict=True) if selected])
        container = _get_output_config("transform", estimator=self)["dense"]
        if container == "default" or not self.support_.any():
            return _as_array(chosen, len(frame))
        return chosen.to_pandas() if container == "pandas" else chosen.to_polars()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Names of what `transform` returns. `input_features`, those of X, may hold columns that are no features."""
        if input_features is not None and hasattr(self, "feature_names_in_"):
            apart = {self.environment, *self._outcome_columns} - set(self.feature_names_in_)
            input_features = [name for name in input_features if name not in apart]
        return super().get_feature_names_out(input_features)

    def _way_out(self) -> str:
        """What may lead to a selection that is not empty; the beginning of a sentence."""
        return "Fit it to other features"

    def _get_support_mask(self) -> Mask:
        check_is_fitted(self)
        return self.support_

    def _split_environment(self, X: Any, environments: Any) -> tuple[Any, Any]:
        """X without its environment column, and the labels from that column or as given."""
        if self.environment is None:
            return X, environments
        if environments is not None:
            raise DataError(
                f"environment labels came twice: through environments= and from the column {self.environment!r} that "
                "the constructor names. Use one of the two."
            )
        columns = frame_names(X)
        if not self._has_environment_column(X):
            raise DataError(
                f"environment={self.environment!r} names a column of X, but X has "
                + (f"only {quoted(columns)}." if columns else "no column names.")
                + " Pass a data frame with that column, or fit(X, y, environments=labels)."
            )
        labels = as_frame(X, "X")[self.environment].to_list()
        return without_columns(X, [self.environment]), labels

    def _features_of(self, X: Any) -> Any:
        """The features of X: all columns but the environment's; after fit_data, those that it named."""
        if self._has_environment_column(X):
            X = self._split_environment(X, None)[0]
        if not self._by_name:
            return without_columns(X, self._outcome_columns)
        if frame_names(X) is not None:
            return self._columns_by_name(X)
        return X if self.columns_ != self._layout.table else self._columns_by_place(X)

    def _columns_by_place(self, X: Any) -> Any:
        """X with zeros for the constant features, which the data set's own X lacks; any other width is not ours."""
        values = np.asarray(X)
        if self._kept.all() or values.shape[1:] not in ((len(self._kept),), (self._kept.sum(),)):
            return X
        varying = values if values.shape[1] < len(self._kept) else values[:, self._kept]
        return self._expand(varying.T, 0).T

    def _columns_by_name(self, X: Any) -> Any:
        """The columns that the data frame has, with zeros for the constant ones."""
        import narwhals as nw

        wanted = self.columns_ if self._layout.grouped_without_table else self._layout.table
        frame = as_frame(X, "X").with_columns(*(nw.lit(0).alias(name) for name in self._layout.ignored))
        return nw.to_native(frame.select([name for name in wanted if name in frame.columns]))

    def _drop_hint(self, X: Any, environments: Any, outcome_columns: dict[str, Any]) -> str:
        """How rows with gaps are left out of what was given to `fit`, which has no option for it."""
        if self.environment is not None:
            name = repr(self.environment)
            without = f"X.drop(columns={name})" if hasattr(X, "iloc") else f"X.drop({name})"
            arguments = f"{without}, y, X[{name}]"
        else:
            arguments = "X, y" if environments is None else "X, y, environments"
        settings = stated(self)
        moved = f"set_params({typed(defaults_of(settings))})." if settings else ""
        how = ", ".join([typed({"missing": "drop"} | settings), *in_typing(outcome_columns)])
        return f"{moved}fit_data(MultiEnvironmentData.from_arrays({arguments}, {how})) leaves those rows out"

    def _where_to_say(self, message: str) -> str:
        """Where a setting that the message names is made, if the constructor does not take it."""
        named = [name for name in ("categorical", "numeric") if f"{name}=[" in message]
        if not named or set(named) <= set(self.get_params()):
            return ""
        name = type(self).__name__
        return f" {name} takes such settings with the data: fit_data(MultiEnvironmentData.from_arrays(...))."

    def _check_table_settings(self) -> None:
        """Raise where something that concerns tables is said in the wrong place."""

    def _check_handle_unknown(self) -> None:
        if self.handle_unknown not in ("error", "ignore"):
            raise SettingError(f"handle_unknown={self.handle_unknown!r} is not known: use 'error' or 'ignore'.")

    def _has_environment_column(self, X: Any) -> bool:
        return self.environment is not None and self.environment in (frame_names(X) or ())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # fit(X, y) alone has no environments to learn from: a selector may then select nothing and predict the mean.
        tags.regressor_tags.poor_score = True
        return tags


_X_AS_NUMBERS = {"dtype": np.float64, "ensure_min_samples": 3, "ensure_all_finite": False}
_Y_AS_NUMBERS = {"dtype": np.float64, "ensure_2d": False, "ensure_all_finite": False}


@contextmanager
def _complaints(what: str, explain: Callable[[], object]) -> Iterator[None]:
    """What scikit-learn complains of inside the block, in the words of `explain` if that finds something wrong too."""
    try:
        yield
    except InvarianceError:
        raise
    except TypeError as error:
        raise WrongTypeError(f"{what} cannot be read as numbers: {error}") from None
    except ValueError as error:
        explain()
        raise DataError(str(error)) from None


def _columns_of(X: Any, columns: tuple[str, ...]) -> Floats:
    """(N, len(columns)) of a data frame by name, or of an array by place"""
    names = frame_names(X)
    values = array_values(X, "X") if names is None else None
    if values is not None and values.shape[1:] != (len(columns),):
        raise DataError(f"X has shape {values.shape}, but these {len(columns)} columns are needed: {quoted(columns)}.")
    lost = [] if names is None else [name for name in columns if name not in names]
    if lost:
        raise DataError(f"X lacks columns that the model was fitted to: {quoted(lost)}.")
    return frame_values(as_frame(X, "X"), columns) if values is None else values


def _as_array(frame: Any, n_rows: int) -> NDArray:
    """(n_rows, number of columns) of a narwhals frame: float64, or objects where some columns are no numbers"""
    if frame.columns and holds_numbers(frame):
        return frame_values(frame, frame.columns)
    values = np.empty((n_rows, len(frame.columns)), dtype=object)
    for j, name in enumerate(frame.columns):
        values[:, j] = frame[name].to_list()
    return values


def _check_finite(raw: RawTable) -> None:
    for what, wrong in (("missing values (NaN)", np.isnan), ("infinite values (inf)", np.isinf)):
        where = with_counts(raw.names, wrong(raw.values).sum(axis=0))
        if where:
            raise DataError(f"X has {what} in {where}. Replace them, or leave those rows out.")
