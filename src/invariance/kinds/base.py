"""Kinds of outcomes: a number, one of two classes, a count or a time, and what follows from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from .._tools.arrays import Floats, Mask
from ..exceptions import SettingError
from .figures import COVERAGE, Figure, around

# The first figures of every kind: means, and calibration.
CALIBRATION = ("observed", "predicted", "intercept", "slope")


class OutcomeKind(ABC):
    """A kind of outcome. One object of each subclass stands for it; families name theirs.

    Attributes
    ----------
    name : as a family declares it
    predicts : what a prediction is
    ratio : of two expected outcomes: the exponential of a coefficient if the link is the logarithm
    baseline_unit : of a difference between baselines; "" is the outcome's own unit
    baselines : what each environment has of its own if baselines are free
    error_name : of held-out data, `error`
    price_figure, price_name : the figure by which invariance is priced, and the name of its error
    choice_error, choice_margin : the error by which the predictor is chosen, and the logarithm of
        its ratio from which on all features count as failing
    figures : names of the measures of held-out data, the first four `CALIBRATION`
    measure, measure_does, measure_is : the figure that is reported first, what predictions do,
        before its value, and a sentence on it
    scale : on which predictions are calibrated
    group_mean, mean_name : what the mean of a group of rows is, on an axis and in a sentence
    figure_format : of measures in a table
    of_shares : whether each row has the event or not
    by_least_squares : whether least squares fits it, and errors of one size make intervals
    classifies : whether predictions are probabilities of the second of two classes
    censored : whether some times are known only to be longer, by a column `event`
    tree_loss : of scikit-learn's regression trees
    pseudo_data : where pseudo-data lie, in words
    coding : of the outcome that a family takes, in words
    """

    name: ClassVar[str]
    predicts: ClassVar[str]
    ratio: ClassVar[str]
    baseline_unit: ClassVar[str] = ""
    baselines: ClassVar[str] = "intercepts"
    error_name: ClassVar[str]
    price_figure: ClassVar[str]
    price_name: ClassVar[str]
    choice_error: ClassVar[str] = "deviance over that of a constant"
    choice_margin: ClassVar[float] = 0.3
    figures: ClassVar[tuple[str, ...]]
    measure: ClassVar[str]
    measure_does: ClassVar[str]
    measure_is: ClassVar[str]
    scale: ClassVar[str]
    group_mean: ClassVar[str]
    mean_name: ClassVar[str]
    figure_format: ClassVar[str] = "z.3f"
    of_shares: ClassVar[bool] = False
    by_least_squares: ClassVar[bool] = False
    classifies: ClassVar[bool] = False
    censored: ClassVar[bool] = False
    tree_loss: ClassVar[str] = "squared_error"
    pseudo_data: ClassVar[str] = "at the pooled mean"
    coding: ClassVar[str] = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @property
    def json_name(self) -> str:
        return self.name

    @staticmethod
    def of_json_name(name: str) -> OutcomeKind:
        """Return the kind of this name; KeyError if there is none."""
        from . import KINDS

        return KINDS[name]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    @abstractmethod
    def inverse_link(self, linear: Floats) -> Floats:
        """Return the mean at intercept + coefficients · columns (n,), by the usual link."""

    @abstractmethod
    def error(
        self,
        observed: Floats,
        predicted: Floats,
        exposure: Floats | None = None,
        event: Floats | None = None,
    ) -> float:
        """Return the error of predictions (n,) of outcomes (n,), a mean over rows; predictions are
        per unit of exposure; NaN if it is not defined."""

    @abstractmethod
    def measured(
        self,
        observed: Floats,
        predicted: Floats,
        exposure: Floats | None = None,
        event: Floats | None = None,
        hazard: tuple[Floats, Floats, Floats] | None = None,
    ) -> dict[str, Figure]:
        """Return the figures with intervals, by standard errors that hold whatever the distribution
        of the rows (sandwich, DeLong); hazard: of times, as
        `prediction.new_environments.cumulative_hazards` returns it."""

    def price_error(self, figure: float) -> float:
        """Return the error that belongs to `price_figure`."""
        return figure

    def interval_of_mean(self, observed: Floats, weight: Floats) -> tuple[float, float, float]:
        """Return the mean of outcomes (n,) over the total weight, and a 95% interval."""
        n = len(observed)
        mean = float(observed.sum() / weight.sum())
        squares = float(np.sum((observed - mean * weight) ** 2)) * n / max(n - 1, 1)
        _, low, high = around(mean, float(np.sqrt(squares)) / float(weight.sum()), n - 1.0)
        return mean, low, high

    def within_range(self, predicted: Floats, least: float) -> Floats:
        """Return predictions (n,) that no row can show to be impossible; least: distance from the
        ends."""
        return predicted

    def unit(self, y: Floats, weights: Floats | None) -> float:
        """Return what outcomes are divided by before a penalised fit, so that no unit decides when
        its steps end."""
        return 1.0

    def ridge(self, penalty: float, y: Floats) -> Any:
        """Return a regression of scikit-learn, its penalty / 2 · Σ coefficient² on the sum of the
        log-likelihood."""
        raise SettingError(f"there is no ridge regression of a {self.name}.")

    def link(self, mean: float) -> float:
        """Return the linear predictor of a mean by the usual link."""
        raise SettingError(f"there is no path of Lassos of a {self.name}.")

    def variance(self, mean: Floats) -> Floats:
        """Return the variance (n,) at expected outcomes (n,), up to a factor."""
        return np.ones(len(mean))

    def fits(self, y: Floats) -> Mask:
        """Return which outcomes (n,) are of this kind, as a family takes them."""
        return np.ones(len(y), dtype=bool)


def interval_of_share(observed: Floats) -> tuple[float, float, float]:
    """Return the share of rows (n,) that are 1, and Wilson's 95% interval."""
    from scipy.stats import binomtest

    ends = binomtest(round(observed.sum()), len(observed)).proportion_ci(COVERAGE, method="wilson")
    return float(observed.mean()), ends.low, ends.high
