"""Settings that say how a table is read: they mean nothing to data that are read already."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..data.terms import Spline
from ..exceptions import SettingError

# What each setting is when nothing is said: those that make features of columns, and all that concern tables.
READING: dict[str, Any] = {"categorical": "auto", "numeric": (), "groups": None}
OF_TABLES: dict[str, Any] = {"environment": None, **READING, "handle_unknown": "error"}


def stated(model: Any, defaults: Mapping[str, Any] = READING) -> dict[str, Any]:
    """{setting: value} of those settings of the model that say something, in a form that can be typed."""
    values = {name: getattr(model, name) for name in defaults}
    return {name: _plain(value) for name, value in values.items() if not _says_nothing(value, defaults[name])}


def typed(settings: Mapping[str, Any]) -> str:
    """ "categorical=['code'], groups=[spline('age', knots=4)]" """
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


def defaults_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: OF_TABLES[name] for name in settings}


def refuse_for_ready_data(model: Any, caller: str, reader: str) -> None:
    """Raise when the model says how a table is read; `reader`: what makes the data that the caller takes."""
    settings = stated(model)
    if settings:
        raise SettingError(
            f"{typed(settings)} says how a table is read, and {caller} takes data that are read already: say it to "
            f"{reader}(..., {typed(settings)}), and not here, set_params({typed(defaults_of(settings))})."
        )


def refuse_inside(outer: str, model: Any) -> None:
    """Raise when the model says something of tables, of which it sees none inside the outer one."""
    settings, name = stated(model, OF_TABLES), type(model).__name__
    if settings:
        moved = {f"estimator__{setting}": value for setting, value in defaults_of(settings).items()} | settings
        raise SettingError(
            f"{name}({typed(settings)}) inside {outer} never sees the table: say it to {outer} instead, "
            f"set_params({typed(moved)})."
        )


def _says_nothing(value: Any, default: Any) -> bool:
    if isinstance(value, str):
        return value == default
    return value is None or (isinstance(value, Collection) and not len(value))


def _plain(value: Any) -> Any:
    """Names in any collection as lists of text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(members) for name, members in value.items()}
    if isinstance(value, str | Spline) or not isinstance(value, Collection):
        return value
    return [member if isinstance(member, Spline) else str(member) for member in value]
