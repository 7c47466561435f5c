"""What a report is about: a fit, the data, and how both came about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..data.multi_environment import MultiEnvironmentData
from ..decisions.decision import Decision
from ..decisions.diagnosis import Diagnosis
from ..models.base import Family
from ..models.registry import Chosen
from ..moments.moments import Moments
from ..posterior.posterior import Posterior


@dataclass(frozen=True)
class Source:
    """Where the rows came from: table, the arguments of MultiEnvironmentData.from_table or Moments.from_rows; command,
    as typed in a shell; remark, on reading the rows again; worded, how a sentence that may carry remedies is written"""

    table: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    worded: Callable[[str], str] = str
    remark: str = ""


@dataclass(frozen=True, eq=False)
class Subject:
    """diagnosis : of the selected subset, a sentence where there is none; estimator : its class; settings : {parameter:
    value}; by_name : whether a ready data set was given; comparison : of `invariance.compare`"""

    decision: Decision
    data: MultiEnvironmentData | Moments
    family: Family
    diagnosis: Diagnosis | str
    estimator: type
    settings: Mapping[str, Any]
    by_name: bool
    comparison: Any = None
    source: Source = Source()

    @classmethod
    def of(
        cls, model: Any, diagnosis: Diagnosis | str, comparison: Any = None, source: Source | None = None
    ) -> Subject:
        """model : a fitted BIP"""
        fitted = model.decision_, model._data, model._family, diagnosis, type(model), model._settings, model._by_name
        return cls(*fitted, comparison, source or Source())

    @property
    def chosen_family(self) -> Any:
        """The family, whoever chose it."""
        return self.family.family if isinstance(self.family, Chosen) else self.family

    @property
    def posterior(self) -> Posterior:
        return self.decision.findings.posterior

    @property
    def predictive(self) -> Posterior | None:
        return self.decision.findings.predictive
