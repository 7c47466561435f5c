"""Rivals that use all features and all rows together, each by a model for the outcome's kind."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._tools.arrays import Floats, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..models.base import Predicts
from ..screening import standardized
from .base import Baseline
from .left_out import error_of, predicts_for

_STRENGTHS = np.logspace(-4.0, 2.0, 13)
_FOLDS = 5


class _AllFeatures(Baseline):
    """Predicts with every feature and chooses none."""

    outcome_ = "all"
    _takes: ClassVar[tuple[str, ...]] = ("exposure",)
    _as_number: ClassVar[bool] = False
    _any_size: ClassVar[bool] = True

    def __init__(self, random_state: int = 0, columns: Columns | None = None) -> None:
        self.random_state = random_state
        self.columns = columns

    def _select(self, data: MultiEnvironmentData) -> Mask:
        return np.ones(data.n_features, dtype=bool)


def _target(data: MultiEnvironmentData) -> tuple[Floats, Floats | None]:
    """(n,) outcomes, rates where there is an exposure, and their weights"""
    return (data.y, None) if data.exposure is None else (data.y / data.exposure, data.exposure)


class RidgeRegression(_AllFeatures):
    """Ridge regression on all features: of numbers, logistic of two classes, Poisson of counts. Its strength is the one
    of 13 with the smallest error over five random folds of all rows.

    Parameters
    ----------
    random_state : seed of the folds
    columns : how a data frame X is read, Columns(environment="site")

    Attributes
    ----------
    strength_ : of the penalty, strength / 2 · Σ coefficient², on the mean negative log-likelihood (half the squared
        error), with columns of standard deviation 1
    """

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> tuple[Floats, float]:
        from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

        X, predicts, (y, weights) = standardized(data), predicts_for(data), _target(data)
        of_classes = predicts is Predicts.probability
        folds = (StratifiedKFold if of_classes else KFold)(_FOLDS, shuffle=True, random_state=self.random_state)
        way = "predict_proba" if of_classes else "predict"
        given = {"params": {"sample_weight": weights}} if weights is not None else {}
        # Rates relative to their mean: no unit of exposure decides how strong a penalty is, or when steps end.
        rate = float(np.average(y, weights=weights)) if predicts is Predicts.rate else 1.0
        scale = data.n_rows if predicts is not Predicts.rate else data.n_rows / data.y.sum()

        def error(strength: float) -> float:
            model = _ridge(predicts, strength * scale)
            predicted = cross_val_predict(model, X, y / rate, cv=folds, method=way, **given)
            predicted = predicted[:, 1] if predicted.ndim == 2 else rate * predicted
            return error_of(predicts, data.y, predicted, data.exposure)

        self.strength_ = float(min(_STRENGTHS, key=error))
        fit = _ridge(predicts, self.strength_ * scale).fit(X, y / rate, sample_weight=weights)
        coefficients = np.ravel(fit.coef_) * (np.ptp(X, axis=0) / np.ptp(data.X, axis=0))
        return coefficients, float(np.ravel(fit.intercept_)[0] + np.log(rate) - data.X.mean(axis=0) @ coefficients)


def _ridge(predicts: Predicts, penalty: float) -> Any:
    from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

    if predicts is Predicts.probability:
        return LogisticRegression(C=1.0 / penalty, max_iter=1000)
    return Ridge(penalty) if predicts is Predicts.number else PoissonRegressor(alpha=penalty, solver="newton-cholesky")


class _Trees(_AllFeatures):
    """A subclass says which of scikit-learn's models is fitted."""

    @abstractmethod
    def _learner(self, predicts: Predicts) -> Any: ...

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> tuple[Floats, float]:
        """Trees have none: NaN."""
        y, weights = _target(data)
        self.model_ = self._learner(predicts_for(data)).fit(data.X, y, sample_weight=weights)
        self._used = [self.columns_.index(name) for name in data.features.columns]
        # Half a row: what no row has shown is not impossible.
        self._least = 0.5 / (data.n_rows if weights is None else weights.sum())
        return np.full(data.features.n_columns, np.nan), np.nan

    def predict(self, X: Any) -> Floats:
        """(n,) the expected outcome; of two classes the probability of the second"""
        check_is_fitted(self)
        columns = self._fitted_columns(X)[:, self._used]
        if self._outcome.predicts is Predicts.probability:
            return np.clip(self.model_.predict_proba(columns)[:, 1], self._least, 1.0 - self._least)
        predicted = np.asarray(self.model_.predict(columns))
        return np.maximum(predicted, self._least) if self._outcome.predicts is Predicts.rate else predicted


class RandomForest(_Trees):
    """A random forest on all features, of 100 trees with five rows or more in a leaf: of numbers, of two classes, of
    counts by the Poisson deviance.

    Parameters
    ----------
    random_state : seed
    columns : how a data frame X is read, Columns(environment="site")

    Attributes
    ----------
    model_ : the fitted forest of scikit-learn
    coef_, intercept_ : NaN
    """

    def _learner(self, predicts: Predicts) -> Any:
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        settings = {"min_samples_leaf": 5, "random_state": self.random_state}
        if predicts is Predicts.probability:
            return RandomForestClassifier(**settings)
        return RandomForestRegressor(criterion="poisson" if predicts is Predicts.rate else "squared_error", **settings)


class GradientBoosting(_Trees):
    """Histogram gradient boosting on all features, with the defaults of scikit-learn: of numbers, of two classes, of
    counts by the Poisson deviance.

    Parameters
    ----------
    random_state : seed
    columns : how a data frame X is read, Columns(environment="site")

    Attributes
    ----------
    model_ : the fitted trees of scikit-learn
    coef_, intercept_ : NaN
    """

    def _learner(self, predicts: Predicts) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        if predicts is Predicts.probability:
            return HistGradientBoostingClassifier(random_state=self.random_state)
        loss = "poisson" if predicts is Predicts.rate else "squared_error"
        return HistGradientBoostingRegressor(loss=loss, random_state=self.random_state)
