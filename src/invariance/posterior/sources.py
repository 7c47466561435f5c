"""What a fit may leave behind a posterior, to answer what its table cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from .._tools.arrays import Floats, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SubsetTable = tuple[Mask, Floats, Floats]


class SubsetSource(Protocol):
    """What an engine may leave behind to answer for subsets that are not in the table."""

    def log_probability(self, masks: Mask) -> Floats:
        """Log posterior probability (S,) of boolean masks (S, p); -inf outside the support."""

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        """Draw n subsets as boolean masks (n, p)."""

    def leading(self, mass: float) -> SubsetTable | None:
        """Masks (k, p), log ratios (k,), log probabilities (k,) of the most probable subsets that
        together hold at least `mass`, or None when the engine cannot tell."""


class Drawer(Protocol):
    """A decision, which draws kinds of pictures that need more than a posterior."""

    def plot(self, kind: str, ax: Axes | None, top: int | None) -> Any: ...
