"""The family of engines by name, and how "auto" chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._tools.family import Family, Member
from ..exceptions import SettingError

if TYPE_CHECKING:
    from .base import Engine
    from .target import Target

ENGINES = Family(
    {
        "exact": Member("inference.enumeration:Enumeration", "scores all subsets"),
        "tempering": Member("inference.tempering.engine:Tempering", "samples"),
        "vi": Member("inference.variational.engine:Variational", "approximates"),
    }
)
# 28 features in five environments: about ten seconds of one core.
_CHEAP_STEPS = 2_000_000_000


def choose_engine(inference: str | Engine, target: Target) -> Engine:
    """The engine that `inference` names; "auto" is exact while that takes about ten seconds of one core, and tempering
    beyond. Work is counted, not timed: neither the machine nor its load changes the choice."""
    if isinstance(inference, str) and inference == "auto":
        from .enumeration import enumeration_steps

        inference = "exact" if enumeration_steps(target) <= _CHEAP_STEPS else "tempering"
    return as_engine(inference)


def as_engine(inference: str | Engine) -> Engine:
    """The engine that a name other than "auto" stands for, or the one that is given."""
    if not isinstance(inference, str):
        if isinstance(inference, type) or not hasattr(inference, "run"):
            raise SettingError(
                f"inference={inference!r} is not an engine: use a name, or an engine such as Tempering()."
            )
        return inference
    if inference not in ENGINES:
        known = ", ".join(map(repr, ("auto", *ENGINES)))
        raise SettingError(f"inference={inference!r} is not known: use {known} or an engine such as Enumeration().")
    engine: Engine = ENGINES[inference]()
    return engine
