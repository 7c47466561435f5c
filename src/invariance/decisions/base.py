"""What a rule that selects features is, and what it may look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from .._tools.arrays import Mask
from ..conditionals.tolerance import Tolerance
from ..inference.base import Engine, RunOptions
from ..inference.target import Target
from ..posterior.judge import Judge
from ..posterior.posterior import Posterior
from .predictive import predictive_posterior


@dataclass(eq=False)
class Findings:
    """What is known before anything is decided: the paper's posterior over invariant subsets, and what it came from."""

    target: Target
    posterior: Posterior
    engine: Engine
    options: RunOptions
    tolerance: Tolerance

    @property
    def judge(self) -> Judge:
        return Judge(self.target.model, self.tolerance)

    @property
    def allowed(self) -> str:
        """To be said of "subsets" where it is the prior that rules some out."""
        prior, n_features = self.target.prior, len(self.target.prior.feature_names)
        limited = len(prior.free) < n_features or prior.max_size < min(self.target.model.largest_size, n_features)
        return " that the prior allows" if limited else ""

    @cached_property
    def predictive(self) -> Posterior | None:
        """The posterior over compatible subsets by how well they predict; None where no subset is compatible."""
        known = self.posterior.masks
        return predictive_posterior(self.target, self.tolerance, self.engine, self.options, known)


class Rule(Protocol):
    """A specification: parameters only."""

    def select(self, findings: Findings) -> Mask:
        """(p,) the features to use"""
        ...
