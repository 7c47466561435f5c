"""The predictors of a fit, their errors in held-out environments, and the cost of invariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from .._tools.arrays import Fields, Floats, Labels
from .._tools.progress import ProgressMode
from ..exceptions import SettingError
from ..models.base import rows_for
from .model_choice import Choice, Refits, Selection, build, choose
from .new_environments import (
    OUT_OF_TIME,
    EnvironmentErrors,
    NewEnvironments,
    Selected,
    cross_validate,
)
from .new_site import NewSites, batch_errors, new_sites
from .predictor import PredictedOutcome, Predictor

# With fewer environments it cannot be told what invariance costs; a share of the error that is as
# good as none.
_ENOUGH = 4
_LITTLE = 0.01
# An RMSE that is less than this share of a constant's is rounding.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class CostOfInvariance:
    """Hold the errors of three predictors in held-out environments.

    Attributes
    ----------
    environments : tuple
        Labels of the E environments, each held out in turn.
    selected : ndarray of shape (E,)
        Errors of the selected features, with the selection repeated. NaN if not known.
    everything : ndarray of shape (E,)
        Errors of all features.
    constant : ndarray of shape (E,)
        Errors of a constant.
    measure : str
        Name of the error.
    uses : {"everything", "selected"}
        Features that predict by default.
    """

    environments: Labels
    selected: Floats
    everything: Floats
    constant: Floats
    measure: str
    uses: str

    @classmethod
    def of(
        cls,
        selected: NewEnvironments,
        everything: NewEnvironments,
        constant: NewEnvironments,
        uses: str,
    ) -> CostOfInvariance:
        """Return the errors of three predictors in the same environments."""
        kind = selected.outcome.kind

        def error(left: EnvironmentErrors) -> float:
            return kind.price_error(left.figures[kind.price_figure])

        kinds = selected, everything, constant
        each = [{left.environment: error(left) for left in found.left_out} for found in kinds]
        environments = tuple(each[0] | each[1] | each[2])
        errors = [np.array([known.get(label, np.nan) for label in environments]) for known in each]
        if kind.by_least_squares:
            for found in errors[:2]:
                found[found < _ROUNDING * errors[2]] = 0.0
        return cls(environments, errors[0], errors[1], errors[2], kind.price_name, uses)

    @property
    def content(self) -> Fields:
        """Return the fields as `to_json` takes them, labels as text."""
        labels = [str(label) for label in self.environments]
        return vars(self) | {"environments": labels, "ratio": self.ratio, "sentence": str(self)}

    @property
    def ratios(self) -> Floats:
        """Return the error of the selected features relative to all features.

        Returns
        -------
        ndarray of shape (E,)
            Ratios.
        """
        return _over(self.selected, self.everything)

    @property
    def ratio(self) -> float:
        """Return the ratio of the mean errors.

        Returns
        -------
        float
            Over the environments with both errors; NaN if there are none.
        """
        known = ~np.isnan(self.selected + self.everything)
        if not known.any():
            return np.nan
        return float(_over(self.selected[known].mean(), self.everything[known].mean()))

    def __str__(self) -> str:
        """Describe the cost in words.

        Costs are stated from four environments on, gains only if the selected features predict.
        """
        known = ~np.isnan(self.selected + self.everything + self.constant)
        n = int(known.sum())
        if n < 3:
            return (
                "What invariance costs cannot be told from fewer than four environments that "
                "could be left out."
            )
        means = [
            f"{errors[known].mean():.3g}"
            for errors in (self.selected, self.everything, self.constant)
        ]
        by = (
            f"{means[0]} by the features selected without it, {means[1]} by all, {means[2]} by a "
            "constant"
        )
        told = f"In an environment left out the {self.measure} is, on average, {by}."
        if n < _ENOUGH:
            return f"{told} From {n} environments it cannot be told what invariance costs."
        least, most = (
            f"{value - 1.0:+z.0%}" for value in (self.ratios[known].min(), self.ratios[known].max())
        )
        if np.isinf(self.ratio):
            return f"{told} All features predict without error, the selected ones alone do not."
        spread = f"({least} to {most} over environments)"
        only = "Predicting with the selected features alone"
        if self.ratio > 1.0 + _LITTLE:
            insured = (
                ": an insurance against environments like the worst"
                if self.uses == "selected"
                else ""
            )
            return f"{told} {only} costs {self.ratio - 1.0:.0%} {spread}{insured}."
        if self.ratio < 1.0 - _LITTLE and self.uses == "selected":
            return f"{told} {only} gains {1.0 - self.ratio:.0%} {spread}."
        return f"{told} {only} costs nothing that these environments show {spread}."


def _over(selected: Any, everything: Any) -> Floats:
    """Return the ratio of errors, 1 if both are 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(
            (selected == 0.0) & (everything == 0.0), 1.0, np.divide(selected, everything)
        )


@dataclass(eq=False)
class Predictions:
    """Hold the predictors of a fit by the names in PREDICT_WITH, each computed at first use.

    regressor : predicts in place of a linear fit, if given.
    """

    selection: Selection
    outcome: PredictedOutcome
    regressor: Any = None
    progress: ProgressMode = False
    _predictors: dict[str, Predictor] = field(default_factory=dict)
    _elsewhere: dict[str, NewEnvironments] = field(default_factory=dict)
    _selected: Selected = field(default_factory=dict)
    _by_factor: dict[str, Predictions] = field(default_factory=dict)

    @cached_property
    def choice(self) -> Choice:
        """Return whether all features predict or the selected ones."""
        return choose(self.selection, self._refits)

    @cached_property
    def _refits(self) -> Refits | None:
        return (
            None
            if self.regressor is None
            else Refits(self.regressor, rows_for("regressor", self.selection.data))
        )

    @cached_property
    def cost_of_invariance(self) -> CostOfInvariance:
        """Return the cost of invariance; repeat the selection without each environment."""
        self.leave_out(("selected", "everything", "constant"))
        errors = self._elsewhere
        if errors["selected"].not_left_out:
            raise SettingError(f"What invariance costs was not estimated: {OUT_OF_TIME}.")
        return CostOfInvariance.of(
            errors["selected"], errors["everything"], errors["constant"], self.choice.uses
        )

    @cached_property
    def new_sites(self) -> NewSites:
        """What the training sites show about new ones, of numbers."""
        return new_sites(self.selection)

    @cached_property
    def batch_errors(self) -> NewEnvironments:
        """Errors of each environment, its rows predicted together without it, of numbers."""
        return batch_errors(self.selection, self.outcome)

    @property
    def repeated(self) -> bool:
        """Return whether the selection was repeated without each environment."""
        return bool(self._selected)

    def told(self, asked: str) -> str:
        """Return what predicts, and why; asked : one of PREDICT_WITH."""
        if asked == "average" and self.selection.findings.predictive is None:
            return (
                f"{self.choice.named('selected')}: no subset is compatible with invariance, "
                "and none to average."
            )
        return self.choice.told(asked)

    def resolved(self, kind: str) -> str:
        """Return the predictor that "auto" stands for."""
        return self.choice.uses if kind == "auto" else kind

    def predictor(self, kind: str) -> Predictor:
        """kind: one of PREDICT_WITH"""
        kind = self.resolved(kind)
        if kind not in self._predictors:
            self._predictors[kind] = build(kind, self.selection, self.regressor)
        return self._predictors[kind]

    def new_environments(self, kind: str) -> NewEnvironments:
        """Return errors of predictions in held-out environments."""
        kind = self.resolved(kind)
        self.leave_out([kind])
        return self._elsewhere[kind]

    def of_factor(self, name: str) -> Predictions:
        """Return the same predictions if the levels of one of several factors are held out."""
        selection = self.selection
        data = rows_for("crossed", self.selection.data)
        if data.design is None:
            raise SettingError(
                f"new={name!r} is for environments by several factors: leave it out."
            )
        factor = data.design.relabelled(name)
        if name not in self._by_factor:
            rows = replace(
                data,
                environment_index=factor.codes,
                environments=factor.levels,
                environment_name=name,
            )
            again = Selection.known(selection.settings, rows, selection.findings, selection.mask)
            self._by_factor[name] = replace(
                self, selection=again, _elsewhere={}, _selected={}, _by_factor={}
            )
        return self._by_factor[name]

    def leave_out(self, kinds: Sequence[str]) -> None:
        """Compute the errors of these predictors together, if they are not known."""
        new = [kind for kind in kinds if kind not in self._elsewhere]
        if new:
            about = self.progress, self._refits, self._selected
            self._elsewhere |= cross_validate(self.selection, self.outcome, new, *about)
