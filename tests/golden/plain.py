"""Results as short plain values: numbers, names and counts, without sentences and times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

# Words for people, clocks and rounding errors.
LEFT_OUT = {
    *("notes", "note", "sentence", "rule", "engine", "prior", "model", "model_reason", "unjudged", "format"),
    *("seconds", "versions", "settings", "rescoring_difference", "trace", "fingerprint", "tolerance"),
}
MOST, HEAD = 6, 3
_LONGEST_NAME = 4  # words


def plain(value: Any) -> Any:
    """As JSON can hold it; long lists are cut to their head, with their sum and that of absolute values."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        kept = {str(key): item for key, item in value.items() if key not in LEFT_OUT and not _sentence(item)}
        return {key: plain(item) for key, item in kept.items()}
    if isinstance(value, list | tuple):
        return _shortened(list(value))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _shortened(values: list[Any]) -> Any:
    if len(values) <= MOST:
        return [plain(value) for value in values]
    short: dict[str, Any] = {"n": len(values), "head": [plain(value) for value in values[:HEAD]]}
    numbers = [value for value in values if isinstance(value, int | float) and math.isfinite(value)]
    if numbers:
        short |= {"finite": len(numbers), "total": [math.fsum(numbers), math.fsum(map(abs, numbers))]}
    return short


def _sentence(value: Any) -> bool:
    return isinstance(value, str) and len(value.split()) > _LONGEST_NAME
