"""From the name of an engine, or "auto", to an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..priors import BoundPrior
from ..wording import approximate_count, duration
from .base import Engine, EngineError, RunOptions
from .enumeration import Enumeration
from .variational import Variational

ENGINES: dict[str, Callable[[], Engine]] = {"exact": Enumeration, "vi": Variational}
_CHEAP_SECONDS = 10.0


def choose_engine(inference: str | Engine, conditional: Any, prior: BoundPrior, options: RunOptions) -> Engine:
    """The engine that `inference` names; "auto" is exact while that is estimated to take under ten seconds."""
    if not isinstance(inference, str):
        return inference
    if inference in ENGINES:
        return ENGINES[inference]()
    if inference != "auto":
        known = ", ".join(map(repr, ("auto", *ENGINES)))
        raise ValueError(f"inference={inference!r} is not known: use {known} or an engine such as Enumeration().")
    seconds = Enumeration().estimate_seconds(conditional, prior, options.n_jobs)
    if seconds <= _CHEAP_SECONDS:
        return Enumeration()
    raise EngineError(
        f"inference='auto' goes exact up to about {_CHEAP_SECONDS:.0f} seconds, and scoring all "
        f"{approximate_count(prior.support_size())} subsets of {len(prior.feature_names)} features would take about "
        f"{duration(seconds)}. Use inference='exact' to do it all the same, or limit the subsets with "
        "UniformPrior(max_size=4) (--max-size 4 on the command line)."
    )
