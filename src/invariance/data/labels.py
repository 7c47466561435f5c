"""Environments by their labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..exceptions import DataError
from .checks import closest, quoted


def places_of(labels: Iterable[Hashable], available: Sequence[Hashable]) -> NDArray[np.intp]:
    """Where each of the labels is among those available. A label that is no text may be given as it is written."""
    if isinstance(labels, str):
        raise DataError(f"{labels!r} is a single label: pass a list of labels, [{labels!r}].")
    written = {str(label): place for place, label in enumerate(available)}
    exact = {label: place for place, label in enumerate(available)}
    places = []
    for label in labels:
        place = exact.get(label, written.get(label) if isinstance(label, str) else None)
        if place is None:
            raise DataError(f"there is no environment {label!r}; {_nearest(label, available)}")
        places.append(place)
    if not places:
        raise DataError(f"no environment is named. The environments are {quoted(available, 12)}.")
    return np.array(places, dtype=np.intp)


def _nearest(label: Hashable, available: Sequence[Hashable]) -> str:
    close = closest(str(label), [str(other) for other in available])
    named = f"he environments are {quoted(available, 12)}."
    if close is None:
        return f"t{named}"
    return f"did you mean {next(a for a in available if str(a) == close)!r}? T{named}"
