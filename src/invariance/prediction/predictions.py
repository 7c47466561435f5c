"""All that predicts after a fit, and what is known of its errors, found when it is first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from .._tools.progress import ProgressMode
from ..exceptions import SettingError
from ..models.base import rows_for
from .choice import Choice, Refits, Selection, build, choose
from .new_environments import NewEnvironments, Selected, cross_validate
from .predictor import PredictedOutcome, Predictor
from .price import Price


@dataclass(eq=False)
class Predictions:
    """regressor : that predicts in place of a linear fit, if any; asked : what is to predict, one of PREDICT_WITH"""

    selection: Selection
    outcome: PredictedOutcome
    regressor: Any = None
    progress: ProgressMode = False
    asked: str = "auto"
    _predictors: dict[str, Predictor] = field(default_factory=dict)
    _elsewhere: dict[str, NewEnvironments] = field(default_factory=dict)
    _selected: Selected = field(default_factory=dict)
    _by_factor: dict[str, Predictions] = field(default_factory=dict)

    @cached_property
    def choice(self) -> Choice:
        """Whether all features predict, or the selected ones."""
        return choose(self.selection, self._refits)

    @cached_property
    def _refits(self) -> Refits | None:
        return None if self.regressor is None else Refits(self.regressor, rows_for("regressor", self.selection.data))

    @cached_property
    def price(self) -> Price:
        """What invariance costs. Repeats the selection without each environment."""
        self.leave_out(("selected", "everything", "constant"))
        errors = self._elsewhere
        return Price.of(errors["selected"], errors["everything"], errors["constant"], self.choice.uses)

    @property
    def known_price(self) -> Price | None:
        """As far as it was asked for."""
        return vars(self).get("price")

    def __str__(self) -> str:
        """What predicts, and why."""
        if self.asked == "average" and self.selection.findings.predictive is None:
            return f"{self.choice.named('selected')}: no subset is compatible with invariance, and none to average."
        return self.choice.told(self.asked)

    def resolved(self, kind: str) -> str:
        """What "auto" stands for"""
        return self.choice.uses if kind == "auto" else kind

    def predictor(self, kind: str) -> Predictor:
        """kind: one of PREDICT_WITH"""
        kind = self.resolved(kind)
        if kind not in self._predictors:
            self._predictors[kind] = build(kind, self.selection, self.regressor)
        return self._predictors[kind]

    def new_environments(self, kind: str) -> NewEnvironments:
        """Errors of predictions in environments that are left out, each in turn."""
        kind = self.resolved(kind)
        self.leave_out([kind])
        return self._elsewhere[kind]

    def of_factor(self, name: str) -> Predictions:
        """The same, where environments that are left out are the levels of one of several factors."""
        selection, data = self.selection, rows_for("crossed", self.selection.data)
        if data.design is None:
            raise SettingError(f"new={name!r} is for environments by several factors: leave it out.")
        factor = data.design.relabelled(name)
        if name not in self._by_factor:
            rows = replace(data, environment_index=factor.codes, environments=factor.levels, environment_name=name)
            again = Selection.known(selection.settings, rows, selection.findings, selection.mask)
            self._by_factor[name] = replace(
                self, selection=again, _elsewhere={}, _selected={}, _by_factor={}, asked=self.asked
            )
        return self._by_factor[name]

    def leave_out(self, kinds: Sequence[str]) -> None:
        """Find the errors of these kinds of predictions, together, where they are not known."""
        new = [kind for kind in kinds if kind not in self._elsewhere]
        if new:
            about = self.progress, self._refits, self._selected
            self._elsewhere |= cross_validate(self.selection, self.outcome, new, *about)
