"""From text to an engine: the forms that the command line accepts."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from .._tools.settings import is_a, read_call
from ..data.checks import did_you_mean
from ..exceptions import SettingError
from .base import Engine
from .registry import ENGINES


def parse_inference(text: str) -> str | Engine:
    """ "auto", the name of an engine, or an engine with settings, such as tempering(chains=8, steps=20000)."""
    name, settings = read_call(text)
    name = name.lower()
    if name != "auto" and name not in ENGINES:
        known = ", ".join(map(repr, ("auto", *ENGINES)))
        raise SettingError(f"inference: {name!r} is not one of {known}.")
    if not settings:
        return name
    if name == "auto":
        raise SettingError(f"inference: auto has no settings: name the engine instead, one of {', '.join(ENGINES)}.")
    engine: Any = ENGINES[name]
    known_settings = {field.name: str(field.type) for field in fields(engine)}
    for key, value in settings.items():
        if key not in known_settings:
            hint = did_you_mean(key, list(known_settings)) or "."
            raise SettingError(f"{name} has no setting {key!r}{hint} It has {', '.join(known_settings)}.")
        if not is_a(value, known_settings[key]):
            raise SettingError(f"{text}: {key} cannot be {value!r}, it is of the kind {known_settings[key]}.")
    try:
        built: Engine = engine(**{key: tuple(v) if isinstance(v, list) else v for key, v in settings.items()})
    except ValueError as error:
        raise SettingError(f"{text}: {error}") from None
    return built
