"""What an inference engine may ask of a conditional model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from numpy.typing import ArrayLike

from .._tools.arrays import Floats
from ..moments.moments import Moments


class Conditional(Protocol):
    """A model of the outcome given a subset of features, fitted per environment and pooled.

    Log ratios are at most 0, and -inf outside the model's support. Beyond `log_ratio_many`, a model may offer
    `subset_blocks` (all subsets, block by block), `flip_neighbours` and `rescore`; an engine names what it needs.
    Without `invariance_tails` (how low log Λ of an invariant subset may be) nobody is told when no subset is invariant.
    """

    @property
    def feature_names(self) -> tuple[str, ...]: ...

    @property
    def moments(self) -> Moments: ...

    @property
    def largest_size(self) -> int: ...

    def log_ratio_many(self, masks: ArrayLike) -> Floats: ...


def require_abilities(conditional: Any, abilities: Sequence[str], engine: str) -> None:
    """Raise when a conditional model lacks something an engine needs."""
    missing = [name for name in abilities if not hasattr(conditional, name)]
    if missing:
        raise TypeError(
            f"{engine} needs a conditional model with {', '.join(f'`{name}`' for name in missing)}, which "
            f"{type(conditional).__name__} does not have. Choose another inference engine or another model."
        )
