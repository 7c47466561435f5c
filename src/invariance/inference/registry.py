"""The engines by name, and how "auto" chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._tools.registry import Member, Registry, check_settings, read_call
from ..exceptions import SettingError
from .base import Engine

if TYPE_CHECKING:
    from .base import Target

ENGINES = Registry(
    {
        "exact": Member("inference.enumeration:Enumeration", "scores all subsets"),
        "tempering": Member("inference.tempering.engine:Tempering", "samples"),
        "vi": Member("inference.variational.engine:Variational", "approximates"),
    }
)
# 28 features in five environments: about ten seconds of one core.
_CHEAP_STEPS = 2_000_000_000


def choose_engine(engine: str | Engine, target: Target) -> Engine:
    """The engine that `engine` names; "auto" is exact while that takes about ten seconds of one core, and tempering
    beyond. Work is counted, not timed: neither the machine nor its load changes the choice."""
    if isinstance(engine, str) and engine == "auto":
        from .enumeration import enumeration_steps

        engine = "exact" if enumeration_steps(target) <= _CHEAP_STEPS else "tempering"
    return as_engine(engine)


def as_engine(engine: str | Engine) -> Engine:
    """The engine that a text other than "auto" stands for, see `parse_engine`, or the one that is given."""
    if isinstance(engine, str):
        parsed = parse_engine(engine)
        if parsed == "auto":
            raise SettingError("engine='auto' chooses by the data, which are not at hand: name the engine instead.")
        named: Engine = ENGINES[parsed]() if isinstance(parsed, str) else parsed
        return named
    if isinstance(engine, type) or not hasattr(engine, "run"):
        raise SettingError(f"engine={engine!r} is not an engine: use a name, or an engine such as Tempering().")
    return engine


def parse_engine(text: str) -> str | Engine:
    """ "auto", the name of an engine, or an engine with settings, such as tempering(chains=8, steps=20000)."""
    name, settings = read_call(text)
    name = name.lower()
    if name not in ("auto", *ENGINES):
        known = ", ".join(map(repr, ("auto", *ENGINES)))
        raise SettingError(f"engine={name!r} is not known: use {known} or an engine such as Enumeration().")
    if not settings:
        return name
    if name == "auto":
        raise SettingError(f"engine: auto has no settings: name the engine instead, one of {', '.join(ENGINES)}.")
    engine: Any = ENGINES[name]
    check_settings(name, engine, settings)
    try:
        built: Engine = engine(**{key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()})
    except ValueError as error:
        raise SettingError(f"{text}: {error}") from None
    return built
