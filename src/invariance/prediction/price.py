"""What invariance costs: errors in environments left out of the selected features, of all, and of a constant."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._tools.arrays import Floats
from ..models.base import Predicts
from .new_environments import EnvironmentErrors, NewEnvironments

# With fewer environments it cannot be told what invariance costs; a share of the error that is as good as none.
_ENOUGH, _LITTLE = 4, 0.01
# An RMSE that is less than this share of a constant's is rounding.
_ROUNDING = 1e-6
# {what is predicted: the figure of `NewEnvironments`, what its error is called}; of shares that are right, the rest
_ERRORS = {
    Predicts.number: ("rmse", "RMSE"),
    Predicts.probability: ("log_loss", "log loss"),
    Predicts.rate: ("deviance_explained", "share of the deviance that is not explained"),
    Predicts.time: ("concordance", "share of pairs in the wrong order"),
}


@dataclass(frozen=True, eq=False)
class Price:
    """Errors in each of `environments`, left out in turn: of the selected features, the selection repeated; of all
    features; of a constant; NaN where not known. measure : what they are; uses : what predicts, as in `Choice`"""

    environments: tuple[Hashable, ...]
    selected: Floats
    everything: Floats
    constant: Floats
    measure: str
    uses: str

    @classmethod
    def of(cls, selected: NewEnvironments, everything: NewEnvironments, constant: NewEnvironments, uses: str) -> Price:
        """From what the three did in the same environments."""
        predicts = selected.outcome.predicts
        figure, measure = _ERRORS[predicts]

        def error(left: EnvironmentErrors) -> float:
            value = left.figures[figure]
            return value if predicts in (Predicts.number, Predicts.probability) else 1.0 - value

        kinds = selected, everything, constant
        each = [{left.environment: error(left) for left in found.left_out} for found in kinds]
        environments = tuple(each[0] | each[1] | each[2])
        errors = [np.array([known.get(label, np.nan) for label in environments]) for known in each]
        if predicts is Predicts.number:
            for found in errors[:2]:
                found[found < _ROUNDING * errors[2]] = 0.0
        return cls(environments, errors[0], errors[1], errors[2], measure, uses)

    @property
    def content(self) -> dict[str, Any]:
        """As `to_json` takes it, labels as text."""
        labels = [str(label) for label in self.environments]
        return vars(self) | {"environments": labels, "ratio": self.ratio, "sentence": str(self)}

    @property
    def ratios(self) -> Floats:
        """(E,) error of the selected features over that of all"""
        return _over(self.selected, self.everything)

    @property
    def ratio(self) -> float:
        """The same of mean errors, over environments where both are known"""
        known = ~np.isnan(self.selected + self.everything)
        if not known.any():
            return np.nan
        return float(_over(self.selected[known].mean(), self.everything[known].mean()))

    def __str__(self) -> str:
        """In words: costs from four environments on, gains only where the selected features are those that predict."""
        known = ~np.isnan(self.selected + self.everything + self.constant)
        n = int(known.sum())
        if n < 3:
            return "What invariance costs cannot be told from fewer than four environments that could be left out."
        means = [f"{errors[known].mean():.3g}" for errors in (self.selected, self.everything, self.constant)]
        by = f"{means[0]} by the features selected without it, {means[1]} by all, {means[2]} by a constant"
        told = f"In an environment left out the {self.measure} is, on average, {by}."
        if n < _ENOUGH:
            return f"{told} From {n} environments it cannot be told what invariance costs."
        least, most = (f"{value - 1.0:+z.0%}" for value in (self.ratios[known].min(), self.ratios[known].max()))
        if np.isinf(self.ratio):
            return f"{told} All features predict without error, the selected ones alone do not."
        spread, only = f"({least} to {most} over environments)", "Predicting with the selected features alone"
        if self.ratio > 1.0 + _LITTLE:
            insured = ": an insurance against environments like the worst" if self.uses == "selected" else ""
            return f"{told} {only} costs {self.ratio - 1.0:.0%} {spread}{insured}."
        if self.ratio < 1.0 - _LITTLE and self.uses == "selected":
            return f"{told} {only} gains {1.0 - self.ratio:.0%} {spread}."
        return f"{told} {only} costs nothing that these environments show {spread}."


def _over(selected: Any, everything: Any) -> Floats:
    """The ratio of errors, 1 where both are 0"""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((selected == 0.0) & (everything == 0.0), 1.0, np.divide(selected, everything))
