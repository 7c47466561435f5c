"""What the methods that BIP is compared with share: they select features, then predict by pooled least squares."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._tools.arrays import Floats, Mask
from ..data.checks import check_outcome
from ..data.multi_environment import MultiEnvironmentData
from ..estimators.selector import EnvironmentSelector
from ..exceptions import DataError, SettingError
from ..moments.least_squares import least_squares
from ..prediction.predictor import PredictedOutcome


class Baseline(EnvironmentSelector):
    """A subclass implements `_select(data)`, which sets its own fitted attributes and returns a mask (p,)."""

    @abstractmethod
    def _select(self, data: MultiEnvironmentData) -> Mask: ...

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        environments: ArrayLike | str | None = None,
        *,
        event: Any = None,
        exposure: Any = None,
    ) -> Self:
        """Fit to X (n, p), y (n,) and one environment label per row (or the name of a column of X), or to a
        MultiEnvironmentData X. event, exposure : as in `BIP.fit`, where the method can use them"""
        data = self._read(X, y, environments, {"event": event, "exposure": exposure})
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


def check_level(alpha: float) -> None:
    if not 0.0 < alpha < 1.0:
        raise SettingError(f"alpha={alpha!r} is not a level: use a number between 0 and 1, such as 0.05.")
