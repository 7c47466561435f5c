"""What every method that selects features from several environments shares: the scikit-learn grammar."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .data import DataError, MultiEnvironmentData
from .least_squares import least_squares


class SingleEnvironmentWarning(UserWarning):
    """One environment says nothing about invariance."""


class EnvironmentSelector(SelectorMixin, RegressorMixin, BaseEstimator):
    """Base of the estimators: checks the data, then asks `_select` for the features.

    A subclass stores its parameters, among them `environment` (the column of a data frame X that holds the labels,
    or None), and implements `_select(data)`, which sets its own fitted attributes and returns a mask
    (data.n_features,).

    Fitted: support_, coef_ (n_features_in_,), intercept_, n_environments_, environments_, n_features_in_,
    feature_names_in_ where X has names.
    """

    environment: str | None
    _single_environment_message = (
        "no environments were given, so all rows count as one environment, which says nothing about invariance. "
        "Pass fit(X, y, environments=labels)."
    )

    @abstractmethod
    def _select(self, data: MultiEnvironmentData) -> NDArray[np.bool_]: ...

    def fit(self, X: Any, y: ArrayLike, environments: ArrayLike | None = None) -> Self:
        """Fit to X (n, p), y (n,) and one environment label per row.

        Labels come from `environments`, or from the column of X that the constructor's `environment` names.
        """
        X, environments = self._split_environment(X, environments)
        X, y = validate_data(
            self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=3, ensure_all_finite=False
        )
        names = list(getattr(self, "feature_names_in_", [])) or None
        data = MultiEnvironmentData.from_arrays(X, y, environments, feature_names=names)
        if data.n_environments == 1:
            warnings.warn(self._single_environment_message, SingleEnvironmentWarning, stacklevel=2)
        self._fit_checked(data, names or [f"x{j}" for j in range(X.shape[1])])
        return self

    def fit_data(self, data: MultiEnvironmentData) -> Self:
        """Fit to a data set that is already checked; keeps its names and labels."""
        self.n_features_in_ = data.n_features
        self.feature_names_in_ = np.array(data.feature_names, dtype=object)
        self._fit_checked(data, list(data.feature_names))
        return self

    def _fit_checked(self, data: MultiEnvironmentData, names_in: list[str]) -> None:
        dropped = set(data.dropped_features)
        self._kept = np.array([name not in dropped for name in names_in])
        self.environments_ = data.environments
        self.n_environments_ = data.n_environments
        selected = self._select(data)
        self.support_ = self._expand(selected, False)
        coefficients, self.intercept_ = self._coefficients(data, selected)
        self.coef_ = self._expand(coefficients, 0.0)

    def _coefficients(
        self, data: MultiEnvironmentData, selected: NDArray[np.bool_]
    ) -> tuple[NDArray[np.float64], float]:
        """Coefficients (data.n_features,) and intercept: pooled least squares on the selected features."""
        fit = least_squares(data.X[:, selected], data.y)
        coefficients = np.zeros(data.n_features)
        coefficients[selected] = fit.coefficients
        return coefficients, fit.intercept

    def _expand(self, values: NDArray, fill: Any) -> NDArray:
        """From the features that vary to the columns of X: a constant column gets `fill`."""
        full = np.full(self._kept.shape + values.shape[1:], fill, dtype=values.dtype)
        full[self._kept] = values
        return full

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Pooled least squares on the selected features."""
        check_is_fitted(self)
        X = validate_data(self, self._without_environment(X), dtype=np.float64, reset=False)
        return X @ self.coef_ + self.intercept_

    def transform(self, X: Any) -> Any:
        """X with the selected features only; the environment column, if there is one, is left out."""
        return super().transform(self._without_environment(X))

    def _get_support_mask(self) -> NDArray[np.bool_]:
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
        if not self._has_environment_column(X):
            columns = list(getattr(X, "columns", []))
            raise DataError(
                f"environment={self.environment!r} names a column of X, but X has "
                + (f"only {columns}." if columns else "no column names.")
                + " Pass a data frame with that column, or fit(X, y, environments=labels)."
            )
        import narwhals as nw

        frame = nw.from_native(X, eager_only=True)
        return nw.to_native(frame.drop(self.environment)), frame[self.environment].to_list()

    def _without_environment(self, X: Any) -> Any:
        return self._split_environment(X, None)[0] if self._has_environment_column(X) else X

    def _has_environment_column(self, X: Any) -> bool:
        return self.environment is not None and self.environment in list(getattr(X, "columns", []))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # fit(X, y) alone has no environments to learn from: a selector may then select nothing and predict the mean.
        tags.regressor_tags.poor_score = True
        return tags
