"""Predictions in new environments: what a fitted model and a saved one share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.special import erf
from sklearn.utils.validation import check_is_fitted

from .._tools.arrays import Floats, Mask
from ..conditionals.predicts import Predicts
from ..data.checks import warn
from ..exceptions import CoverageWarning, ExtrapolationWarning, SettingError
from ..prediction.building import check_predict_with
from ..prediction.new_environments import NewEnvironments
from ..prediction.predictor import Predictor
from ..prediction.report import LeftOutReport
from .selector import EnvironmentSelector

# The share of a normal distribution within one standard deviation.
_ONE_DEVIATION = float(erf(np.sqrt(0.5)))


class IntervalRegressor(EnvironmentSelector):
    """A selector that knows what its predictions miss in environments it has not seen.

    A subclass has the parameter `predict_with` and answers `_predictor(kind)` and `_new_environments(kind)`.
    `_regressor` is what was to predict when the model was fitted, whatever became of a parameter since.
    """

    predict_with: str
    _regressor: Any = None

    @abstractmethod
    def _predictor(self, kind: str) -> Predictor: ...

    @abstractmethod
    def _new_environments(self, kind: str) -> NewEnvironments: ...

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The outcome (n,) by the fit to all rows; with return_std also a standard deviation (n,) in a new environment.

        Of two classes it is the probability of the second one; of counts the expected count, of those with an exposure
        for one unit of it: multiply by the exposure of a row for its count. The deviation is half the width of
        `predict_interval(X, coverage=0.683)`, so that the two agree. Rows far outside those that were fitted are
        counted in a warning.
        """
        predictor, columns = self._rows_to_predict(X)
        mean = predictor.mean(columns)
        return (mean, self._half_width(predictor, columns, _ONE_DEVIATION)) if return_std else mean

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Floats:
        """(n, 2) lower and upper ends of intervals that should hold the outcome in a new environment.

        Half the width is the larger one of two: that of Student's t interval for rows like those that were fitted, and
        what was missed in environments that were left out, each in turn, from the selection and from the fit: its
        `coverage` quantile in each of E environments, of these the ⌈coverage · (E + 1)⌉-th smallest or, if there are
        not as many, the largest. The first call repeats the selection E times; later ones do not.

        With two environments intervals are wide, and with one they say nothing of others: a CoverageWarning says so.
        After fit_moments the errors in an environment count as normally distributed; with its rows= they are those of
        up to 10,000 rows of each. Classes, counts and censored times have no such intervals: `new_environments` tells
        what their predictions are worth.
        """
        if not isinstance(coverage, int | float | np.number) or not 0.0 < coverage < 1.0:
            raise SettingError(f"coverage={coverage!r} is no share between 0 and 1: use 0.9, for example.")
        predictor, columns = self._rows_to_predict(X)
        mean, half = predictor.mean(columns), self._half_width(predictor, columns, float(coverage))
        return np.column_stack([mean - half, mean + half])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of the predictions; of two classes that of 0 and 1.

        Of counts with an exposure predictions are rates: pass rates and weights, y / exposure and
        sample_weight=exposure.
        """
        check_is_fitted(self)
        outcome = self._outcome
        if outcome.predicts is Predicts.time:
            raise SettingError(f"{outcome.name!r} may be censored, so that squared errors of it are not known.")
        if outcome.exposure is not None and sample_weight is None:
            raise SettingError(
                f"{outcome.name!r} is predicted per unit of {outcome.exposure!r}: pass rates with their weights, "
                "score(X, y / exposure, sample_weight=exposure)."
            )
        return super().score(X, y, sample_weight)

    def new_environments(self) -> LeftOutReport:
        """How predictions do in environments that are left out, each in turn, from the selection and from the fit.

        Of probabilities and rates their calibration is told, too. The first call repeats the selection for each
        environment, as `predict_interval` does; later ones do not.
        """
        check_is_fitted(self)
        check_predict_with(self.predict_with, self._regressor)
        return LeftOutReport(self._outcome, self._new_environments(self.predict_with))

    def extrapolates(self, X: Any) -> Mask:
        """(n,) which rows lie far outside those that were fitted: with more than twice the largest leverage there."""
        predictor, columns = self._columns_to_predict(X)
        return predictor.design.far(columns) > 0.0

    def _rows_to_predict(self, X: Any) -> tuple[Predictor, Floats]:
        """As `_columns_to_predict`, with a warning where rows are far from those that were fitted."""
        predictor, columns = self._columns_to_predict(X)
        outside = predictor.design.outside(columns, self._layout.derived)
        if outside:
            warn(f"{outside}. What is predicted there is extrapolated.", ExtrapolationWarning)
        return predictor, columns

    def _columns_to_predict(self, X: Any) -> tuple[Predictor, Floats]:
        """What predicts, and the columns (n, k) that it needs."""
        check_is_fitted(self)
        check_predict_with(self.predict_with, self._regressor)
        predictor = self._predictor(self.predict_with)
        place = {name: j for j, name in enumerate(self.columns_)}
        encoded = self._fitted_columns(self._features_of(X))
        at = np.array([place[name] for name in predictor.design.columns], dtype=np.intp)
        return predictor, np.take(encoded, at, axis=1)

    def _half_width(self, predictor: Predictor, columns: Floats, coverage: float) -> Floats:
        self._outcome.check_intervals()
        elsewhere = self._new_environments(self.predict_with)
        caution = elsewhere.caution(predictor.design.columns)
        if caution:
            warn(caution, CoverageWarning)
        return np.maximum(predictor.half_width(columns, coverage), elsewhere.half_width(coverage))
