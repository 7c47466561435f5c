"""The family of conditional models by name."""

from __future__ import annotations

from collections.abc import Callable

from ..data.checks import did_you_mean
from ..exceptions import SettingError
from .base import Conditional
from .linear_gaussian import LinearGaussian

CONDITIONALS: dict[str, Callable[[], Conditional]] = {"linear_gaussian": LinearGaussian}


def as_conditional(given: str | Conditional) -> Conditional:
    """The conditional that a name stands for, or the one that is given."""
    if isinstance(given, str):
        if given not in CONDITIONALS:
            hint = did_you_mean(given, list(CONDITIONALS)) or ":"
            known = ", ".join(map(repr, CONDITIONALS))
            raise SettingError(f"conditional={given!r} is not known{hint} use {known} or a conditional with settings.")
        return CONDITIONALS[given]()
    if isinstance(given, type) or not hasattr(given, "bind"):
        raise SettingError(
            f"conditional={given!r} cannot be bound to data: pass a specification, such as LinearGaussian()."
        )
    return given
