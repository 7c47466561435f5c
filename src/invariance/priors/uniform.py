"""Every subset up to a size equally probable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .base import Prior, bound_prior
from .bound import BoundPrior


@dataclass(frozen=True)
class UniformPrior(Prior):
    """Every subset of at most `max_size` features is equally probable (None: no limit)."""

    max_size: int | None = None

    def _build(self, names: tuple[str, ...], max_size: int) -> BoundPrior:
        p = len(names)
        return bound_prior(names, max_size, np.zeros(p + 1), np.full(p, 0.5), "uniform over subsets")
