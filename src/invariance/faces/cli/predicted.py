"""What the command `predict` writes and says, by what the model predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier

from ..._tools.arrays import Floats
from ...conditionals.predicts import Predicts
from ...data.checks import quoted, rows_text, warn
from ...data.columns import reads_as_number
from ...data.outcomes import Classes, in_words
from ...estimators.times import TimesToEvent
from ...exceptions import SettingError
from ...prediction.calibration import figures_of
from ...prediction.outcome import PredictedOutcome

if TYPE_CHECKING:
    from ...estimators.saved import SavedModel

_COVERAGE = 0.9
# {figure: how it is told}; others are not.
_WORDS = {
    "intercept": "calibration intercept {:+z.3f}",
    "slope": "calibration slope {:.3g}",
    "deviance_explained": "deviance explained {:.3g}",
    "brier": "Brier score {:.3g}",
    "auc": "AUC {:.3g}",
}


@dataclass(frozen=True, eq=False)
class Predicted:
    """mean (n,): the outcome, a probability, or a rate; ends (n, 2): of intervals of that coverage, None where there
    are none; exposure (n,): of the rows, None where it is not known; median: whether times are medians"""

    outcome: PredictedOutcome
    mean: Floats
    ends: Floats | None
    coverage: float
    exposure: Floats | None
    median: bool = False

    @classmethod
    def by(cls, saved: SavedModel, X: Any, coverage: float | None, exposure: Floats | None) -> Predicted:
        outcome, ends = saved.outcome_, None
        mean = saved.predict_proba(X)[:, 1] if is_classifier(saved) else saved.predict(X)
        if outcome.predicts is Predicts.number:
            ends = saved.predict_interval(X, _COVERAGE if coverage is None else coverage)
        elif coverage is not None:
            raise SettingError(f"predictions of {outcome.name!r} have no intervals: leave --coverage out.")
        used = _COVERAGE if coverage is None else coverage
        return cls(outcome, mean, ends, used, exposure, isinstance(saved, TimesToEvent))

    @property
    def _of_classes(self) -> Classes | None:
        """The classes, where probabilities of them are predicted."""
        return self.outcome.classes if self.outcome.predicts is Predicts.probability else None

    @property
    def columns(self) -> dict[str, Any]:
        """{name: values (n,)} to write beside the rows"""
        if self.ends is not None:
            return {"prediction": self.mean, "lower": self.ends[:, 0], "upper": self.ends[:, 1]}
        if self._of_classes is not None:
            first, second = self._of_classes
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
        if self._of_classes is not None:
            return f": the probability of {_plain(self._of_classes[1])}, and the more probable class."
        if self.outcome.predicts is Predicts.time:
            return f": the {'median' if self.median else 'expected'} time."
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
        given = pd.Series(values, dtype=object)
        stated = given.notna().to_numpy()
        if self.outcome.exposure is not None:
            stated = stated & (False if self.exposure is None else ~np.isnan(self.exposure))
        observed = given.where(stated).map(self._compared).to_numpy(dtype=float)
        known = stated & ~np.isnan(observed)
        strange = given[stated & ~known]
        if len(strange):
            warn(
                f"{self.outcome.name!r} of {file} holds {quoted(strange.unique(), 4)} in {rows_text(len(strange))}, "
                f"{self._expected}: what is missed there is not told."
            )
        if not known.any():
            return []
        exposure = None if self.exposure is None else self.exposure[known]
        figures = figures_of(self.outcome.predicts, observed[known], self.mean[known], exposure)
        return [f"The outcome is known in {known.sum():,} of them: {self._figures(figures, observed[known], known)}."]

    def _compared(self, value: Any) -> float:
        """A known outcome as it is compared with predictions; NaN where it is none of the classes, or no number."""
        if self.outcome.classes is None:
            return float(value) if reads_as_number(value) else np.nan
        same = [value == label or _written(value) == _written(label) for label in self.outcome.classes]
        return float(same[1]) if any(same) else np.nan

    @property
    def _expected(self) -> str:
        """A clause about what outcomes should be."""
        if self.outcome.classes is None:
            return "and the model predicts numbers"
        first, second = map(in_words, self.outcome.classes)
        return f"and the model tells {second} from {first}"

    def _figures(self, figures: dict[str, float], observed: Floats, known: Any) -> str:
        if self.ends is not None:
            inside = (observed >= self.ends[known, 0]) & (observed <= self.ends[known, 1])
            return f"root mean squared error {figures['rmse']:.4g}, {np.mean(inside):.3g} inside their intervals"
        means = f"on average {figures['observed']:.3g} where {figures['predicted']:.3g} is predicted"
        defined = {name: value for name, value in figures.items() if name in _WORDS and not np.isnan(value)}
        return ", ".join([means, *(_WORDS[name].format(value) for name, value in defined.items())])


def _written(value: Any) -> str:
    """The same for 1, 1.0 and the text '1'."""
    number = reads_as_number(value) and not isinstance(value, bool)
    return repr(float(value)) if number else str(value)


def _plain(label: Any) -> str:
    """A class as it is written in a table: 1 for 1.0."""
    return f"{label:g}" if isinstance(label, float) else str(label)
