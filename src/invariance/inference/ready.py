"""An engine whose work is done."""

from __future__ import annotations

from dataclasses import dataclass

from ..posterior.posterior import Posterior
from .base import RunOptions
from .target import Target


@dataclass(frozen=True, eq=False)
class Ready:
    """Gives a posterior of the same target that was computed before, for example with many others at once."""

    posterior: Posterior

    def run(self, target: Target, options: RunOptions) -> Posterior:
        return self.posterior
