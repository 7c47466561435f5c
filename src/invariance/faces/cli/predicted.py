"""What the command `predict` writes and says, by what the model predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from ..._tools.arrays import Floats
from ...conditionals.predicts import Predicts
from ...data.checks import warn
from ...exceptions import DataError, SettingError
from ...prediction.calibration import figures_of
from ...prediction.outcome import PredictedOutcome

if TYPE_CHECKING:
    from ...estimators.saved import SavedModel

_COVERAGE = 0.9


@dataclass(frozen=True, eq=False)
class Predicted:
    """mean (n,): the outcome, a probability, or a rate; ends (n, 2): of intervals of that coverage, None where there
    are none; exposure (n,): of the rows, None where it is not known"""

    outcome: PredictedOutcome
    mean: Floats
    ends: Floats | None
    coverage: float
    exposure: Floats | None

    @classmethod
    def by(cls, saved: SavedModel, X: Any, coverage: float | None, exposure: Floats | None) -> Predicted:
        outcome, ends = saved.outcome_, None
        mean = saved.predict_proba(X)[:, 1] if is_classifier(saved) else saved.predict(X)
        if outcome.predicts is Predicts.number:
            ends = saved.predict_interval(X, _COVERAGE if coverage is None else coverage)
        elif coverage is not None:
            raise SettingError(f"predictions of {outcome.name!r} have no intervals: leave --coverage out.")
        return cls(outcome, mean, ends, _COVERAGE if coverage is None else coverage, exposure)

    @property
    def columns(self) -> dict[str, Any]:
        """{name: values (n,)} to write beside the rows"""
        if self.ends is not None:
            return {"prediction": self.mean, "lower": self.ends[:, 0], "upper": self.ends[:, 1]}
        if self.outcome.classes is not None:
            first, second = self.outcome.classes
            labels = [second if probability > 0.5 else first for probability in self.mean]
            return {"prediction": labels, f"probability_{_plain(second)}": self.mean}
        if self.outcome.exposure is None:
            return {"prediction": self.mean}
        return {"rate": self.mean} | ({} if self.exposure is None else {"prediction": self.mean * self.exposure})

    @property
    def how(self) -> str:
        """The end of the sentence that says what was predicted."""
        if self.ends is not None:
            return f", with {self.coverage:.3g} intervals."
        if self.outcome.classes is not None:
            return f": the probability of {_plain(self.outcome.classes[1])}, and the more probable class."
        if self.outcome.exposure is None:
            return "."
        if self.exposure is None:
            return f": the rate per unit of {self.outcome.exposure}, which the table lacks."
        return f": the rate per unit of {self.outcome.exposure}, and what that makes in each row."

    def missed(self, values: list[Any], file: str) -> list[str]:
        """One sentence about the rows whose outcome is known, if there are any; values: outcomes of all rows of the
        file, or nothing."""
        import pandas as pd

        if not values or self.outcome.predicts is Predicts.time:
            return []
        known = pd.Series(values, dtype=object).notna().to_numpy()
        if self.outcome.exposure is not None:
            known = known & (False if self.exposure is None else ~np.isnan(self.exposure))
        if not known.any():
            return []
        try:
            given = [value for value, flag in zip(values, known, strict=True) if flag]
            observed = np.asarray(self.outcome.coded(given), dtype=float)
        except (DataError, ValueError):
            warn(f"{self.outcome.name!r} of {file} holds words: what the predictions miss is not told.")
            return []
        exposure = None if self.exposure is None else self.exposure[known]
        figures = figures_of(self.outcome.predicts, observed, self.mean[known], exposure)
        return [f"The outcome is known in {known.sum():,} of them: {self._figures(figures, observed, known)}."]

    def _figures(self, figures: dict[str, float], observed: Floats, known: Any) -> str:
        if self.ends is not None:
            inside = (observed >= self.ends[known, 0]) & (observed <= self.ends[known, 1])
            return f"root mean squared error {figures['rmse']:.4g}, {np.mean(inside):.3g} inside their intervals"
        means = f"on average {figures['observed']:.3g} where {figures['predicted']:.3g} is predicted"
        calibration = f"calibration intercept {_signed(figures['intercept'])} and slope {figures['slope']:.3g}"
        if self.outcome.predicts is Predicts.rate:
            return f"{means}, {calibration}, deviance explained {figures['deviance_explained']:.3g}"
        return f"{means}, {calibration}, Brier score {figures['brier']:.3g}, AUC {figures['auc']:.3g}"


def _signed(value: float) -> str:
    """Three digits, without the sign of what rounds to 0."""
    return f"{round(value, 3) + 0.0:+.3f}"


def _plain(label: Any) -> str:
    """A class as it is written in a table: 1 for 1.0."""
    return f"{label:g}" if isinstance(label, float) else str(label)
