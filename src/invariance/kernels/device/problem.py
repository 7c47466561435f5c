"""What scoring subsets for several outcomes takes on a device."""

from typing import NamedTuple

import torch


class Problem(NamedTuple):
    """B outcomes over the same d columns in G groups, the pool last; float64 tensors on one device.

    scatter (G, d, d): of all rows, shared by all outcomes
    outcome (B,): the column of each; scale (B, G, d): 1 / root of its sum of squares, 0 where it does not vary
    removed (B, R, G, d): rows that are not used for an outcome; its scatter is scatter − Σ_r removed_r removed_r'
    weights (B, G), offset (B,): log Λ = offset + Σ_g weight·log(residual share)
    tolerance: smallest decidable pivot
    """

    scatter: torch.Tensor
    outcome: torch.Tensor
    scale: torch.Tensor
    removed: torch.Tensor
    weights: torch.Tensor
    offset: torch.Tensor
    tolerance: float

    @property
    def device(self) -> torch.device:
        return self.scatter.device

    def choosing(self, which: torch.Tensor) -> "Problem":
        """Some of the outcomes."""
        return self._replace(
            outcome=self.outcome[which],
            scale=self.scale[which],
            removed=self.removed[which],
            weights=self.weights[which],
            offset=self.offset[which],
        )


class Subsets(NamedTuple):
    """S subsets: owner (S,), the outcome of each among the B; size (S,): of how many columns; members (S, k): these.

    A subset of more than k members is not scored.
    """

    owner: torch.Tensor
    members: torch.Tensor
    size: torch.Tensor
