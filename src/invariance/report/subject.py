"""What a report is about: a fit, the data, and how both came about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..data.multi_environment import MultiEnvironmentData
from ..decisions.decision import Decision
from ..decisions.diagnosis import Diagnosis
from ..models.base import Family
from ..models.registry import Chosen
from ..moments.moments import Moments
from ..posterior.posterior import Posterior


class ComparedMethod(Protocol):
    """What one method said; see `invariance.compare`."""

    @property
    def name(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def selected(self) -> Any: ...
    @property
    def status(self) -> Any: ...
    @property
    def evidence(self) -> tuple[str, Any] | None: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def verdict(self) -> str | None: ...
    @property
    def pooled(self) -> bool: ...
    @property
    def as_number(self) -> bool: ...


class Compared(Protocol):
    """What `invariance.compare` returns."""

    @property
    def feature_names(self) -> tuple[str, ...]: ...
    @property
    def outcome_name(self) -> str: ...
    @property
    def methods(self) -> Sequence[ComparedMethod]: ...


@dataclass(frozen=True)
class Source:
    """Where the rows came from, where that is known.

    table : the arguments, by name, of MultiEnvironmentData.from_table or, for moments, of Moments.from_rows
    command : as it was typed in a shell
    worded : what to make of a sentence that may name a remedy; remark : what to know before the rows are read again
    """

    table: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    worded: Callable[[str], str] = str
    remark: str = ""


@dataclass(frozen=True, eq=False)
class Subject:
    """decision : what was decided, and from what; data : as fitted; conditional : as it was settled for the data
    diagnosis : of the selected subset; a sentence where there is none
    estimator : name of its class; settings, defaults : {parameter: value}; by_name : whether a ready data set was given
    """

    decision: Decision
    data: MultiEnvironmentData | Moments
    family: Family
    diagnosis: Diagnosis | str
    estimator: str
    settings: Mapping[str, Any]
    defaults: Mapping[str, Any]
    by_name: bool
    comparison: Compared | None = None
    source: Source = Source()

    @property
    def settled(self) -> Any:
        """The conditional, whoever chose it."""
        return self.family.family if isinstance(self.family, Chosen) else self.family

    @property
    def posterior(self) -> Posterior:
        return self.decision.findings.posterior

    @property
    def predictive(self) -> Posterior | None:
        return self.decision.findings.predictive

    @property
    def rows(self) -> MultiEnvironmentData | None:
        """None where second moments alone are known."""
        return None if isinstance(self.data, Moments) else self.data
