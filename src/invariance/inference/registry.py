"""From the name of an engine, or "auto", to an engine."""

from __future__ import annotations

from collections.abc import Callable

from ..exceptions import SettingError
from .base import Engine
from .enumeration import Enumeration, enumeration_steps
from .target import Target
from .tempering.engine import Tempering
from .variational.engine import Variational

ENGINES: dict[str, Callable[[], Engine]] = {"exact": Enumeration, "tempering": Tempering, "vi": Variational}
# 28 features in five environments: about ten seconds of one core.
_CHEAP_STEPS = 2_000_000_000


def choose_engine(inference: str | Engine, target: Target) -> Engine:
    """The engine that `inference` names; "auto" is exact while that takes about ten seconds of one core, and tempering
    beyond. Work is counted, not timed: neither the machine nor its load changes the choice."""
    if not isinstance(inference, str):
        return inference
    if inference in ENGINES:
        return ENGINES[inference]()
    if inference != "auto":
        known = ", ".join(map(repr, ("auto", *ENGINES)))
        raise SettingError(f"inference={inference!r} is not known: use {known} or an engine such as Enumeration().")
    return Enumeration() if enumeration_steps(target) <= _CHEAP_STEPS else Tempering()
