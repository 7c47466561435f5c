"""From the name of an engine, or "auto", to an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..priors import BoundPrior
from .base import Engine, RunOptions
from .enumeration import Enumeration
from .tempering import Tempering
from .variational import Variational

ENGINES: dict[str, Callable[[], Engine]] = {"exact": Enumeration, "tempering": Tempering, "vi": Variational}
_CHEAP_SECONDS = 10.0


def choose_engine(inference: str | Engine, conditional: Any, prior: BoundPrior, options: RunOptions) -> Engine:
    """The engine that `inference` names; "auto" is exact while that is estimated to take under ten seconds, and
    tempering beyond."""
    if not isinstance(inference, str):
        return inference
    if inference in ENGINES:
        return ENGINES[inference]()
    if inference != "auto":
        known = ", ".join(map(repr, ("auto", *ENGINES)))
        raise ValueError(f"inference={inference!r} is not known: use {known} or an engine such as Enumeration().")
    if not hasattr(conditional, "subset_blocks"):
        return Tempering()
    seconds = Enumeration().estimate_seconds(conditional, prior, options.n_jobs)
    return Enumeration() if seconds <= _CHEAP_SECONDS else Tempering()
