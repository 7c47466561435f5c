"""What all tempered samplers have in common, whichever way they score: ladders of chains and what they leave behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..._tools.arrays import Floats, Mask
from ...kernels.chain_moves import Best, BlockRule


class Space(Protocol):
    """Where chains move: a subset is a row of d flags, one for each column of a compiled scorer, or one for each free
    feature where scores come from a memory."""

    @property
    def n_columns(self) -> int:
        """d"""
        ...

    @property
    def free(self) -> Mask:
        """(d,) columns that may change"""
        ...

    @property
    def n_free(self) -> int: ...

    @property
    def n_rows(self) -> int: ...

    @property
    def block_sizes(self) -> tuple[int, int]:
        """Columns of a block unless the user says otherwise, and at most."""
        ...

    @property
    def start(self) -> Mask:
        """(d,) the subset of forced features"""
        ...

    @property
    def start_log_ratio(self) -> float: ...

    def log_posterior(self, included: Mask, log_ratios: Floats) -> Floats:
        """(n,) log p(z)Λ(z), unnormalised by the evidence, of rows of `included` (n, d)"""
        ...

    def masks(self, included: Mask) -> Mask:
        """(n, p) the features of rows of `included` (n, d)"""
        ...

    def by_feature(self, values: Floats, of_forced: float) -> Floats:
        """(p,) values (d,) of the columns by feature; features that no column stands for have of_forced, or 0"""
        ...


@dataclass(frozen=True, eq=False)
class Proposals:
    """What the moves draw from, besides the subset itself: fixed while samples are kept.

    betas (t,): inverse temperatures, ascending to 1; rules: two recipes for blocks;
    differences (n, d) bool: between pairs of known modes.
    """

    betas: Floats
    rules: tuple[BlockRule, BlockRule]
    differences: Mask


@dataclass(frozen=True, eq=False)
class Round:
    """n sweeps of one replica.

    draws (n, ⌈d/8⌉): packed subsets of the coldest chain; trace (n, t): log Λ of all chains, the coldest last;
    inclusion (d,): Rao-Blackwellised mean;
    interest (d,): the same averaged over all temperatures; rejected (t-1,): mean probability of refusing a swap.
    """

    draws: NDArray[np.uint8]
    trace: Floats
    inclusion: Floats
    interest: Floats
    rejected: Floats

    @property
    def log_ratios(self) -> Floats:
        """(n,) of the draws"""
        return self.trace[:, -1]


class Ladder:
    """The chains of one replica. included (t, d), log_ratios (t,): the present subset of each.

    best: the best subset met so far.
    """

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self.rng = rng
        self.best = Best(space.start.copy(), np.array([-np.inf]))
        self.included = space.start[None].copy()
        self.log_ratios = np.array([space.start_log_ratio])

    def place(self, included: Mask, log_ratios: Floats) -> None:
        self.included, self.log_ratios = included.copy(), log_ratios.copy()

    def note(self, included: Mask, log_posterior: float) -> None:
        """Remember a subset (d,), and its log p(z)Λ(z), if it is the best so far."""
        keep_better(self.best, included, log_posterior)


def keep_better(record: Best, included: Mask, log_posterior: float) -> None:
    if log_posterior > record.log_posterior[0]:
        record.included[:] = included
        record.log_posterior[0] = log_posterior
