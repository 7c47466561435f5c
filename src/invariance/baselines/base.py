"""What the methods that BIP is compared with share: they select features, then predict by pooled least squares.

`Screened` is any of them behind a screen.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from .._tools.arrays import Floats, Mask
from ..data.checks import check_outcome
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..estimators.selector import EnvironmentSelector, refuse_arguments
from ..exceptions import DataError, SettingError, use
from ..moments.least_squares import least_squares
from ..prediction.predictor import PredictedOutcome
from ..priors import as_prior
from ..screening import LassoScreen, Screening


class Baseline(EnvironmentSelector):
    """A subclass implements `_select(data)`, which sets its own fitted attributes and returns a mask (p,)."""

    alpha = 0.05

    @abstractmethod
    def _select(self, data: MultiEnvironmentData) -> Mask: ...

    def fit(
        self, X: Any, y: ArrayLike | None = None, environments: ArrayLike | str | None = None, **unknown: Any
    ) -> Self:
        """Fit to X (n, p), y (n,) and one environment label per row (or the name of a column of X), or to a
        MultiEnvironmentData X."""
        refuse_arguments(unknown)
        data = self._read(X, y, environments, {})
        self._check_outcome(data)
        self._lay_out(data)
        selected = self._select(data)
        self._keep(data, selected, self._predicted(data), *self._coefficients(data, selected))
        return self

    def predict(self, X: Any) -> Floats:
        """The outcome by the pooled fit of the selected features."""
        check_is_fitted(self)
        return self._mean(self._fitted_columns(X) @ self.coef_ + self.intercept_)

    def _mean(self, predictor: Floats) -> Floats:
        """(n,) expected outcome at intercept + coefficients · columns (n,)"""
        return predictor

    def _predicted(self, data: MultiEnvironmentData) -> PredictedOutcome:
        return PredictedOutcome.of(data, None)

    def _check_settings(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise SettingError(f"alpha={self.alpha!r} is not a level: use a number between 0 and 1, such as 0.05.")

    def _check_outcome(self, data: MultiEnvironmentData) -> None:
        """Raise where least squares cannot be fitted to the outcome in every environment."""
        for role, name in (("event", data.event_name), ("exposure", data.exposure_name)):
            if name is not None:
                raise DataError(f"{type(self).__name__} cannot use the {role} {name!r}: use BIP, or leave it out.")
        check_outcome(data.environments, data.counts, *data.outcome_range, data.outcome_name)

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> tuple[Floats, float]:
        """(q,) of the columns of the data, and the intercept: pooled least squares on the selected features."""
        columns = data.features.expand(selected)
        fit = least_squares(data.X[:, columns], data.y)
        coefficients = np.zeros(data.features.n_columns)
        coefficients[columns] = fit.coefficients
        return coefficients, fit.intercept


class Screened(Baseline):
    """A method that sees only the features that pass a screen, and those that its prior includes for certain.

    Parameters
    ----------
    estimator : the method, for example ICP()
    screen : LassoScreen(), or what it found in the same data, a Screening; None is LassoScreen()
    columns : how a data frame X is read; the method itself must not have them

    Attributes
    ----------
    estimator_ : the fitted method, over the screened features
    screened_features_ : tuple of names; screened_ : (n_features_in_,) bool
    used_fallback_ : whether correlation decided because the Lasso kept nothing
    p_values_, inclusion_probabilities_ : (n_features_in_,) those of the method, where it has them; NaN for features
        that the screen left out

    Examples
    --------
    >>> from invariance.baselines import ICP
    >>> from invariance.datasets import make_example
    >>> from invariance.baselines import LassoScreen, Screened
    >>> model = Screened(ICP(), LassoScreen(k=4)).fit(make_example())
    >>> len(model.screened_features_), model.used_fallback_
    (4, False)
    """

    def __init__(
        self, estimator: Any, screen: LassoScreen | Screening | None = None, columns: Columns | None = None
    ) -> None:
        self.estimator = estimator
        self.screen = screen
        self.columns = columns

    def _check_settings(self) -> None:
        """Raise where the method would predict by something else than its coefficients, which is all that is kept."""
        method = self.estimator
        if method.columns not in (None, Columns()):
            raise SettingError(f"{type(method).__name__} inside Screened sees no table: give columns= to Screened.")
        averages = getattr(method, "predict_with", "auto") not in ("auto", "selected")
        if averages or is_classifier(method) or getattr(method, "regressor", None) is not None:
            what = f"Screened predicts by coefficients, not as this {type(method).__name__} does"
            by_coefficients = use(regressor=None, predict_with="selected")
            raise SettingError(what, by_coefficients, use(" in a BIP for probabilities", family="logistic"))

    def _select(self, data: MultiEnvironmentData) -> Mask:
        screening = self.screen if isinstance(self.screen, Screening) else (self.screen or LassoScreen()).screen(data)
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
                setattr(self, name, self._expand(_unfold(getattr(self.estimator_, name), kept, np.nan), np.nan))
        return _unfold(self.estimator_.support_, kept, False)

    def _mean(self, predictor: Floats) -> Floats:
        return self.estimator_._mean(predictor)

    def _predicted(self, data: Any) -> PredictedOutcome:
        return self.estimator_._outcome

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> tuple[Floats, float]:
        return _unfold(self.estimator_.coef_, data.features.expand(self._kept), 0.0), self.estimator_.intercept_


def feature_values(model: EnvironmentSelector, name: str, data: MultiEnvironmentData) -> Any:
    """(p,) a fitted attribute (n_features_in_,) by the features of the data; None where the model has no such thing."""
    if not hasattr(model, name):
        return None
    owner = model._expand(np.arange(data.n_features), -1)
    features, first = np.unique(owner, return_index=True)
    return getattr(model, name)[first[features >= 0]]


def _unfold(values: NDArray, kept: Mask, fill: Any) -> NDArray:
    full = np.full(kept.shape, fill, dtype=values.dtype)
    full[kept] = values
    return full
