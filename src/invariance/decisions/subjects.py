"""What a picture is drawn of: a decision, or something that leads to one."""

from __future__ import annotations

from typing import Any

from ..exceptions import WrongTypeError
from .decision import Decision
from .environments import ComparedEnvironments, compared_environments


def decision_of(given: Any, function: str) -> Decision:
    """A decision or that of a fitted model; function: the name of what was called with it."""
    if isinstance(given, Decision):
        return given
    if hasattr(type(given), "decision_"):
        decision: Decision = given.decision_
        return decision
    raise WrongTypeError(
        f"{function} draws a decision, not {type(given).__name__}: pass a fitted model, or its model.decision_."
    )


def compared_of(given: Any, function: str) -> ComparedEnvironments:
    """Environments that were compared, or those of a decision or a fitted model."""
    if isinstance(given, ComparedEnvironments):
        return given
    if isinstance(given, Decision) or hasattr(type(given), "decision_"):
        decision = decision_of(given, function)
        return compared_environments(decision.findings.target.model, decision.mask)
    raise WrongTypeError(
        f"{function} draws a diagnosis, not {type(given).__name__}: pass model.diagnose(), a fitted model, or its "
        "model.decision_."
    )
