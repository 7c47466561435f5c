"""Times to an event: medians, survival curves and how well they are ordered, of a fitted model and of a saved one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._tools.arrays import Floats, Mask
from ..data.beside import beside_of
from ..data.checks import rows_text
from ..data.outcomes import has_classes, outcome_of
from ..exceptions import DataError, SettingError
from ..prediction.survival import SurvivalPredictor, concordance
from .intervals import IntervalRegressor


class TimesToEvent(IntervalRegressor):
    """A model of the hazard of an event."""

    def predict(self, X: Any, return_std: bool = False) -> Floats:
        """(n,) median times to the event by the fit to all rows: as many rows like this one have it before as after.

        Where that lies beyond the times that were seen, the last hazard goes on. return_std=True is refused.
        """
        if return_std:
            self._outcome.check_intervals()
        predictor, columns = self._curves(X)
        return predictor.median(columns)

    def predict_survival(self, X: Any, times: Any) -> Floats:
        """(n, len(times)) the probability that the event has not occurred by each of `times`, by the fit to all rows.

        Beyond the times that were seen the last hazard goes on.
        """
        predictor, columns = self._curves(X)
        return predictor.survival(columns, _as_times(times))

    def score(self, X: Any, y: Any, event: Any = None) -> float:
        """Harrell's concordance with times y (n,): of the pairs of rows of which it is known which event came first,
        the share whose predicted times are in this order; 0.5 is chance. event (n,), as in `fit`; None: all times
        ended with it."""
        predicted = self.predict(X)
        if has_classes(y):
            raise DataError("y must be times above 0, and holds words or truth values: pass numbers.")
        seen = outcome_of(y).values
        ended = np.ones(len(seen)) if event is None else beside_of(event, "event")[1]
        if not len(seen) == len(ended) == len(predicted):
            raise DataError(
                f"X has {len(predicted)} rows, y {len(seen)} and event {len(ended)}: pass one time and one event per "
                "row."
            )
        _refuse_rows(~(np.isfinite(seen) & (seen > 0.0)), "y must be times above 0")
        _refuse_rows(np.isnan(ended), "event must be 0 or 1")
        return concordance(seen, ended, predicted)

    def _curves(self, X: Any) -> tuple[SurvivalPredictor, Floats]:
        predictor, columns = self._rows_to_predict(X)
        assert isinstance(predictor, SurvivalPredictor)
        return predictor, columns


def _refuse_rows(bad: Mask, what: str) -> None:
    if bad.any():
        raise DataError(f"{what}, and is not in {rows_text(int(bad.sum()))}: leave those out of X, y and event.")


def _as_times(times: Any) -> Floats:
    """(T,) of numbers from 0 on"""
    try:
        values = np.atleast_1d(np.asarray(times, dtype=float))
    except (ValueError, TypeError):
        values = np.full(1, np.nan)
    if values.ndim != 1 or not (values >= 0.0).all():
        raise SettingError(f"times={times!r} are no times: use a list of numbers from 0 on, for example times=[1, 2].")
    return values
