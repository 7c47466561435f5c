"""What engines and decisions ask of a fitted subset, and a memory for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._tools.arrays import Floats, Integers, Mask

_MOST_REMEMBERED = 500_000


class Figures(NamedTuple):
    """Of S subsets, (S,) each: log Λ, the pooled log-likelihood, the degrees of freedom of −2 log Λ, and the parameters
    of the pooled fit."""

    log_ratio: Floats
    pooled: Floats
    degrees: Floats
    parameters: Floats

    @classmethod
    def of(cls, log_ratio: Floats, pooled: Floats, ranks: Integers, profiled: Integers | int) -> Figures:
        """ranks (S, E + 1): parameters that can be told apart, of each environment and, last, of the pool; profiled:
        those of the fits, (E + 1,) or of each, that are not counted there."""
        parameters = (ranks + profiled).astype(float)
        degrees = parameters[:, :-1].sum(axis=1) - parameters[:, -1]
        return cls(log_ratio, pooled, degrees, parameters[:, -1])


class FigureMemory:
    """The figures that `compute` gives to subsets, masks (S, p), each asked for once.

    At most so many are remembered; with more, all are forgotten, and so they are in a copy by pickle.
    """

    def __init__(self, compute: Callable[[Mask], Figures], most: int = _MOST_REMEMBERED) -> None:
        self._compute, self._most = compute, most
        self._known: dict[bytes, tuple[float, ...]] = {}

    def figures(self, masks: Mask) -> Figures:
        keys = [row.tobytes() for row in np.packbits(masks, axis=1)]
        known = self._known
        new = {key: place for place, key in enumerate(keys) if key not in known}
        if new:
            if len(known) + len(new) > self._most:
                known = self._known = {key: known[key] for key in keys if key in known}
            computed = self._compute(masks[list(new.values())])
            known.update(zip(new, zip(*(values.tolist() for values in computed), strict=True), strict=True))
        rows = np.array([known[key] for key in keys]).reshape(len(keys), len(Figures._fields))
        return Figures(*rows.T)

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_known": {}}
