"""The settings of a model as text: the same where results are the same, so that none of others come beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..estimators.bip import BIP
from ..exceptions import SettingError

_IRRELEVANT = {"n_jobs", "progress", "random_state", "environment", "categorical", "numeric", "groups"}
_IRRELEVANT |= {"handle_unknown", "predict_with", "regressor"}
_VAGUE = (" at 0x", "...", "array(")


def settings_of(model: BIP) -> dict[str, str]:
    """The settings that results depend on."""
    values = model.get_params(deep=False)
    return {name: _text(value, name) for name, value in values.items() if name not in _IRRELEVANT}


def _text(value: Any, setting: str, inside: tuple[int, ...] = ()) -> str:
    """Its repr, or its contents where that is a place in memory or leaves numbers or digits out.

    inside : ids of the objects that hold the value
    """
    shown = repr(value)
    if isinstance(value, str) or not any(sign in shown for sign in _VAGUE):
        return shown
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        digest = hashlib.sha256(np.ascontiguousarray(value).data).hexdigest()[:32]
        return f"array of {value.dtype} {value.shape} {digest}"
    parts = None if id(value) in inside else _parts(value)
    if parts is None:
        raise SettingError(
            f"a sweep cannot tell {shown}, which {setting}= holds, from another of its kind, and would mix their "
            "results in one folder: write a __repr__ for its class that shows its settings."
        )
    texts = [f"{name}={_text(part, setting, (*inside, id(value)))}" for name, part in parts]
    return f"{type(value).__qualname__}({', '.join(texts)})"


def _parts(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """What an object consists of, by name; None where that cannot be seen."""
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, list | tuple):
        return enumerate(value)
    elsewhere = callable(value) or any(vars(kind).get("__slots__") for kind in type(value).__mro__)
    return None if elsewhere or not hasattr(value, "__dict__") else vars(value).items()
