"""A common inclusion probability that is itself uncertain."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..exceptions import SettingError
from .base import Prior, as_float, bound_prior
from .bound import BoundPrior


@dataclass(frozen=True)
class BetaBinomialPrior(Prior):
    """A common inclusion probability drawn from Beta(a, b): p(z) = B(a + |z|, b + p - |z|) / B(a, b).

    With a = b = 1 all sizes are equally probable, which corrects for the number of subsets of each size.
    Truncated at `max_size` (None: no limit) and renormalised.
    """

    a: float = 1.0
    b: float = 1.0
    max_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for label in ("a", "b"):
            value = as_float(getattr(self, label), f"{label} of the beta-binomial prior")
            if not 0.0 < value < math.inf:
                raise SettingError(f"{label} of the beta-binomial prior must be positive and finite: {value:g}")
            object.__setattr__(self, label, value)

    def _build(self, names: tuple[str, ...], max_size: int) -> BoundPrior:
        # Rising factorials over powers of a + b: differences of log-beta lose digits for large a and b.
        steps = np.arange(len(names))
        scale = np.logaddexp(np.log(self.a), np.log(self.b))
        rising_a = np.concatenate([[0.0], np.cumsum(np.log(self.a + steps) - scale)])
        rising_b = np.concatenate([[0.0], np.cumsum(np.log(self.b + steps) - scale)])
        total = np.sum(np.logaddexp(np.log(self.a), np.log(self.b + steps)) - scale)
        what = f"beta-binomial({self.a:g}, {self.b:g}) over subsets"
        return bound_prior(names, max_size, rising_a + rising_b[::-1] - total, np.full(steps.size, 0.5), what)
