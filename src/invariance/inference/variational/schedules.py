"""Learning rates as functions of the iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..._tools.arrays import Floats


class Schedule(Protocol):
    def rates(self, n_iterations: int) -> Floats:
        """(n_iterations,) learning rate of each step."""
        ...


@dataclass(frozen=True)
class Cyclical:
    """Up from `base` to `maximum` in `steps_up` iterations and down again in as many (Smith 2017).

    halve : "triangular2": every cycle rises half as high above `base` as the one before; False is "triangular".
    """

    base: float = 1.0
    maximum: float = 10.0
    steps_up: int = 500
    halve: bool = False

    def rates(self, n_iterations: int) -> Floats:
        step = np.arange(n_iterations)
        cycle, within = np.divmod(step, 2 * self.steps_up)
        height = 1.0 - np.abs(within / self.steps_up - 1.0)
        return self.base + (self.maximum - self.base) * height * (0.5**cycle if self.halve else 1.0)
