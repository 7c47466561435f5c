"""The base of the methods that BIP is compared with.

Each selects features z by a criterion of its own; predictions come from the pooled fit of the
outcome on x^z, as in equation 6 of the paper (Wu et al. 2025, arXiv:2506.22675).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from .._tools.arrays import Floats, Mask, Names
from ..data.checks import check_environments
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..estimators.bases import available_if
from ..estimators.selector import EnvironmentSelector, refuse_arguments
from ..exceptions import DataError, SettingError, use
from ..kinds import OutcomeKind
from ..models.base import Family, kind_of
from ..models.registry import family_of, with_family_columns
from ..moments.least_squares import least_squares
from ..prediction.all_features import pooled_model
from ..prediction.predictor import PredictedOutcome
from ..priors import as_prior
from ..screening import LassoScreen as LassoScreen
from ..screening import Screening

# Coefficients of columns (q,), and the intercept
Line = tuple[Floats, float]


def kind_for(data: MultiEnvironmentData) -> OutcomeKind:
    """Return the kind of this outcome, as the family that is usual for it has it."""
    return kind_of(family_of(data))


def _of_times(model: Any) -> bool:
    check_is_fitted(model)
    return bool(model._outcome.kind.censored)


class Baseline(EnvironmentSelector):
    """Base of the methods: a subclass implements `_select(data)`.

    It sets its own fitted attributes and returns a mask (p,). Predictions are those of the model of
    the outcome, fitted to the selected features and all rows together: least squares of numbers,
    the probability of the second of two classes, the expected count per unit of exposure, the
    median time.
    """

    alpha = 0.05
    # Kinds of outcomes that it can be fitted to, and what comes with an outcome and is used:
    # "event", "exposure"
    _kinds: ClassVar[Names] = ("number", "classes", "count")
    _takes: ClassVar[Names] = ()
    _as_number: ClassVar[bool] = True  # its selection is by least squares, whatever the outcome
    _any_size: ClassVar[bool] = False  # environments may have any number of rows
    _hazard: Any = None  # of times

    @abstractmethod
    def _select(self, data: MultiEnvironmentData) -> Mask: ...

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        environments: ArrayLike | str | None = None,
        **unknown: Any,
    ) -> Self:
        """Fit to rows with one environment label each.

        Parameters
        ----------
        X : array-like of shape (n, p), data frame or MultiEnvironmentData
            Features; a data set brings its outcome and its environments.
        y : array-like of shape (n,), default=None
            Outcome. None only if X is a data set.
        environments : array-like of shape (n,) or str, default=None
            Label of each row, or the name of the column of X that has the labels.
        **unknown : Any
            Arguments that the method does not have; they are refused by name.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        DataError
            If the data cannot be used, or the method does not model this kind of outcome.
        SettingError
            If a parameter has an impossible value.
        WrongTypeError
            If an argument is unknown.
        """
        refuse_arguments(unknown)
        data = self._read(X, y, environments, {})
        self._check_outcome(data)
        family, data = with_family_columns(family_of(data), data)
        self._lay_out(data)
        selected = self._select(data)
        self._keep(
            data, selected, self._predicted(data, family), *self._coefficients(data, selected)
        )
        return self

    def predict(self, X: Any) -> Floats:
        """Predict the outcome.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.

        Returns
        -------
        ndarray of shape (n,)
            Expected outcome, for two classes the probability of the second one, for counts the
            expected count per unit of exposure, for times to an event the median.
        """
        check_is_fitted(self)
        if self._outcome.kind.censored:
            return self._hazard.median(self._risk(X))
        return self._outcome.kind.inverse_link(self._linear(X))

    @available_if(_of_times)
    def predict_restricted_mean(self, X: Any, horizon: float) -> Floats:
        """Predict the mean time to the event, or to the horizon if that is earlier, (n,)."""
        return self._hazard.restricted_mean(self._risk(X), horizon)

    def _risk(self, X: Any) -> Floats:
        """Return the hazards relative to the baseline, (n,)."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(self._linear(X)))

    def _linear(self, X: Any) -> Floats:
        return self._fitted_columns(X) @ self.coef_ + self.intercept_

    def _predicted(self, data: MultiEnvironmentData, family: Family) -> PredictedOutcome:
        return PredictedOutcome.of(data, family)

    def _check_settings(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise SettingError(
                f"alpha={self.alpha!r} is not a level: use a number between 0 and 1, such as 0.05."
            )

    def _check_outcome(self, data: MultiEnvironmentData) -> None:
        """Raise if the method cannot be fitted to the outcome."""
        name = type(self).__name__
        kind = data.outcome_kind
        for role in data.outcome_columns:
            if role not in self._takes:
                column = getattr(data, f"{role}_name")
                raise DataError(
                    f"{name} cannot use the {role} {column!r}: BIP and PooledRegression can."
                )
        if kind.kind not in self._kinds:
            raise DataError(
                f"{name} has no model of this outcome: {kind.reason}. BIP and PooledRegression "
                "have."
            )
        if self._any_size:
            return
        # What is fitted to all rows together allows an outcome that is constant in environments.
        check_environments(
            data.environments,
            data.counts,
            *data.outcome_range,
            data.outcome_name,
            not self._as_number,
        )

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> Line:
        """Return coefficients (q,) and intercept of the pooled fit of the selected features."""
        columns = data.features.expand(selected)
        if kind_for(data).by_least_squares:
            fit: Any = least_squares(data.X[:, columns], data.y)
        else:
            fit = pooled_model(family_of(data), data).fit(selected, local=False)
        self._hazard = getattr(fit, "baseline", None)
        coefficients = np.zeros(data.features.n_columns)
        coefficients[columns] = fit.coefficients
        return coefficients, fit.intercept


class Screened(Baseline):
    """Fit a method to the features that pass a screen.

    Features that the prior of the method includes for certain pass as well.

    Parameters
    ----------
    estimator : EnvironmentSelector
        The method, for example `ICP()`.
    screen : LassoScreen or Screening, default=None
        The screen, or its result for the same data. None is `LassoScreen()`.
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read. The method itself must
        not have them.

    Attributes
    ----------
    estimator_ : EnvironmentSelector
        The method, fitted to the screened features.
    screened_features_ : tuple of str
        Names of the features that passed.
    screened_ : ndarray of shape (n_features,), bool
        Mask of the features that passed.
    used_fallback_ : bool
        Whether correlations decided, because the Lasso kept no feature.
    p_values_, inclusion_probabilities_ : ndarray of shape (n_features,)
        Those of the method, if it has them; NaN for features that did not pass.

    Examples
    --------
    >>> from invariance.baselines import ICP
    >>> from invariance.datasets import make_example
    >>> from invariance.baselines import LassoScreen, Screened
    >>> model = Screened(ICP(), LassoScreen(k=4)).fit(make_example())
    >>> len(model.screened_features_), model.used_fallback_
    (4, False)
    """

    p_values_: Floats
    inclusion_probabilities_: Floats

    def __init__(
        self,
        estimator: Any,
        screen: LassoScreen | Screening | None = None,
        columns: Columns | None = None,
    ) -> None:
        self.estimator = estimator
        self.screen = screen
        self.columns = columns

    def _check_settings(self) -> None:
        method = self.estimator
        if method.columns not in (None, Columns()):
            raise SettingError(
                f"{type(method).__name__} inside Screened sees no table: give columns= to Screened."
            )
        if is_classifier(method):
            what = f"Screened predicts numbers, and {type(method).__name__} classes"
            raise SettingError(what, use(" in a BIP for probabilities", family="logistic"))

    def _select(self, data: MultiEnvironmentData) -> Mask:
        screening = self.screen
        if not isinstance(screening, Screening):
            screening = (screening or LassoScreen()).screen(data)
        # What the method's prior includes for certain, whatever the screen thinks of it.
        forced = as_prior(getattr(self.estimator, "prior", None)).forced(data.original_features)
        self._kept = kept = screening.kept | np.isin(data.feature_names, list(forced))
        reduced = data.narrowed(kept)
        self.estimator_ = clone(self.estimator).fit(reduced)
        self.screened_features_ = reduced.feature_names
        self.screened_ = self._expand(kept, False)
        self.used_fallback_ = screening.used_fallback
        for name in ("p_values_", "inclusion_probabilities_"):
            if hasattr(self.estimator_, name):
                values = _unfold(getattr(self.estimator_, name), kept, np.nan)
                setattr(self, name, self._expand(values, np.nan))
        return _unfold(self.estimator_.support_, kept, False)

    def predict(self, X: Any) -> Floats:
        """Predict the outcome by the screened method.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.

        Returns
        -------
        ndarray of shape (n,)
            Predictions of the method.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(self._screened(X)))

    def _screened(self, X: Any) -> pd.DataFrame:
        """Return the columns of the fit of the method."""
        return pd.DataFrame(self._fitted_columns(X), columns=list(self.columns_))[
            list(self.estimator_.columns_)
        ]

    def _predicted(self, data: Any, family: Family) -> PredictedOutcome:
        return self.estimator_._outcome

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> Line:
        columns = data.features.expand(self._kept)
        return _unfold(self.estimator_.coef_, columns, 0.0), self.estimator_.intercept_


def feature_values(model: EnvironmentSelector, name: str, data: MultiEnvironmentData) -> Any:
    """Return a fitted attribute by the p features of the data; None if the model does not have
    it."""
    if not hasattr(model, name):
        return None
    owner = model._expand(np.arange(data.n_features), -1)
    features, first = np.unique(owner, return_index=True)
    return getattr(model, name)[first[features >= 0]]


def _unfold(values: NDArray, kept: Mask, fill: Any) -> NDArray:
    full = np.full(kept.shape, fill, dtype=values.dtype)
    full[kept] = values
    return full
