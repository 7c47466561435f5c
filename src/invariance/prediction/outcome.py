"""What is predicted, and in which units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from .._tools.arrays import Floats
from ..conditionals.base import Conditional
from ..conditionals.predicts import Predicts, predicts_of
from ..data.multi_environment import MultiEnvironmentData
from ..data.outcomes import Classes
from ..data.outcomes import in_words as class_in_words
from ..exceptions import DataError, SettingError
from ..moments.moments import Moments

# {what is predicted: the mean at intercept + coefficients · columns}, as saved models know it
MEANS: dict[Predicts, Callable[[Floats], Floats]] = {Predicts.probability: expit, Predicts.rate: np.exp}
_NO_INTERVAL = {
    Predicts.probability: "has two values",
    Predicts.rate: "is a count, whose scatter grows with its mean",
    Predicts.time: "is a time that may be censored",
}


@dataclass(frozen=True)
class PredictedOutcome:
    """name : of the outcome; classes : what 0 and 1 stand for, where probabilities are predicted
        or the outcome was given as classes
    exposure : name of that which rates are per unit of, None where there is none
    """

    name: str
    predicts: Predicts = Predicts.number
    classes: Classes | None = None
    exposure: str | None = None

    @classmethod
    def of(cls, data: MultiEnvironmentData | Moments, conditional: Conditional | None) -> PredictedOutcome:
        """conditional : as it was fitted to the data; None: least squares"""
        predicts = predicts_of(conditional)
        if isinstance(data, Moments):
            return cls(data.outcome_name, predicts)
        classes = (0, 1) if predicts is Predicts.probability and data.classes is None else data.classes
        return cls(data.outcome_name, predicts, classes, data.exposure_name)

    @property
    def in_words(self) -> str:
        """What a prediction is: "yield", "the probability that died is 'yes'", "visits per unit of years"."""
        if self.predicts is Predicts.probability and self.classes is not None:
            return f"the probability that {self.name} is {class_in_words(self.classes[1])}"
        return self.name if self.exposure is None else f"{self.name} per unit of {self.exposure}"

    def coded(self, y: Any) -> Any:
        """y as it is compared with predictions: the second class counts 1, the first 0."""
        if self.classes is None:
            return y
        values = np.asarray(y, dtype=object).reshape(-1)
        unknown = [value for value in values if value not in self.classes]
        if unknown:
            first, second = self.classes
            raise DataError(f"y holds {unknown[0]!r}, and the model tells {second!r} from {first!r}: leave it out.")
        return (values == self.classes[1]).astype(float)

    def check_intervals(self) -> None:
        """Raise where intervals of a normal distribution would be nonsense."""
        if self.predicts in _NO_INTERVAL:
            raise SettingError(
                f"{self.name!r} {_NO_INTERVAL[self.predicts]}, so that there are no intervals for it. What is "
                f"predicted is {self.in_words}: new_environments() tells how far that is off in environments that "
                "were left out."
            )


def as_observed(mean: Floats, data: MultiEnvironmentData) -> Floats:
    """(N,) expected outcomes of the rows, from those of one unit of exposure"""
    return mean if data.exposure is None else mean * data.exposure
