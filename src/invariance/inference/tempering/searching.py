"""Annealed searches for modes: short ones, of several kinds, until several of them have come near the best subset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ..._tools.arrays import Floats, Integers, Mask
from ...kernels.chain_moves import BlockRule
from ...kernels.gram_rows import GramRows
from ...kernels.pursuit import FORWARD, MATCHING
from .ladders import Proposals, Round
from .regression_paths import groupings, regression_path
from .replicas import CompiledTarget, Replica, block_rules
from .together import Cliques

# Runs a search of every replica and returns what came of them, in their order.
Each = Callable[[Callable[[Replica], Round]], list[Round]]

# Sweeps at each temperature: more searches find more than longer ones.
_SWEEPS = 20
# One kind of search pays this many nats for each member while it is hot.
THRIFT = 3.0
# Columns of a regression path: few enough to be searched thoroughly, a few times those that matter.
_PATH = 30
_MOST_MODES = 8
_RELEVANT_NATS = 15.0
# Searching ends when enough of the searches have come this near to the best subset, in nats, or when this many times
# the asked-for number of searches has been spent. With fewer than _FEW of them the best subset is in doubt.
_NEAR, _PATIENCE, _FEW = 3.0, 4, 3
# Two subsets with the same log p(z)Λ(z), up to rounding.
_SAME = 1e-6


@dataclass(frozen=True, eq=False)
class Kind:
    """rules: how it chooses blocks; thrift, free: see `Replica.search`."""

    rules: tuple[BlockRule, BlockRule]
    thrift: float = 0.0
    free: Mask | None = None


@dataclass
class Searched:
    """What the searches found.

    ends: the best subset (d,) of each search and its log p(z)Λ(z); stepped: better ones to which a clique led;
    states: what each search left at every temperature (t, d) and its log Λ (t,); interest (d,): how often each column
    was worth including, at any temperature; cliques: see `Cliques`.
    """

    interest: Floats
    ends: list[tuple[Mask, float]] = field(default_factory=list)
    stepped: list[tuple[Mask, float]] = field(default_factory=list)
    states: list[tuple[Mask, Floats]] = field(default_factory=list)
    cliques: Cliques | None = None

    @property
    def values(self) -> Floats:
        """(s,) log p(z)Λ(z) of the best subset of each search"""
        return np.array([value for _, value in self.ends])

    @property
    def best(self) -> tuple[Mask, float]:
        """The best subset of all and its log p(z)Λ(z)."""
        return max(self.ends + self.stepped, key=lambda found: found[1])

    @property
    def n_near(self) -> int:
        """How many searches came near the best value of all."""
        return int((self.values > self.best[1] - _NEAR).sum())

    @property
    def hidden(self) -> bool:
        """Whether so few came near that a better subset may have been missed."""
        return self.n_near < _FEW

    def settled(self, n_kinds: int) -> bool:
        """Whether as many came near as there are searches of one kind out of n_kinds."""
        return not self.hidden and self.n_near >= len(self.ends) // n_kinds


def most_searches(searches: int) -> int:
    return _PATIENCE * searches


def search_modes(
    target: CompiledTarget,
    replicas: list[Replica],
    betas: Floats,
    block_size: int,
    each: Each,
    searches: int,
    n_jobs: int | None = None,
) -> Searched:
    """Anneal every replica again and again, at least `searches` times, by all kinds of search in turn, each replica
    beginning with another.

    Two kinds move among all columns, one with blocks that follow the flips, one thriftily; the others are held to a few
    columns, among which a needle can be found: two to those of a regression path, one to the columns that help only
    together and to what a regression adds to these when it may not use the paths, which the outcome's own effects fill.
    Before it ends, every clique of columns is tried on the best subset; where that finds a better one, it goes on.
    """
    paths = [regression_path(target, groups, MATCHING, _PATH) for groups in groupings(target)]
    cliques = Cliques.of(target, _clique_starts(target, paths), n_jobs)
    climbed = cliques.climbed(target)
    given = cliques.all_synergic(target.n_columns)
    aside = regression_path(target, groupings(target)[0], FORWARD, _PATH + len(given), given, np.any(paths, axis=0))
    together = np.any([cliques.joint_columns(target), aside, *(mask for mask, _ in climbed)], axis=0)
    guide = np.sum([*paths, together], axis=0, dtype=float)
    few, many = block_rules(target, guide, block_size, guide)
    follow = few, many._replace(follows=True)
    mixed = few, many
    kinds = [Kind(follow), Kind(mixed, THRIFT), *(Kind(mixed, free=columns) for columns in (*paths, together))]
    result = Searched(np.zeros(target.n_columns), stepped=climbed, cliques=cliques)
    least = max(searches, -(-len(kinds) // len(replicas)))
    for number in range(max(most_searches(searches), least)):
        turns = {id(replica): kinds[(number + i) % len(kinds)] for i, replica in enumerate(replicas)}
        rounds = each(partial(_anneal, betas, turns))
        result.interest += np.sum([found.interest for found in rounds], axis=0)
        result.ends += [(replica.found.included.copy(), float(replica.found.log_posterior[0])) for replica in replicas]
        result.states += [(replica.included, replica.log_ratios) for replica in replicas]
        if number + 1 >= least and result.settled(len(kinds)):
            better = cliques.best_step(target, result.best[0], n_jobs)
            if better[1] < result.best[1] + _SAME:
                break
            kinds.append(Kind(mixed, free=better[0] | result.best[0] | together))
            result.stepped.append(better)
    result.interest /= len(result.ends)
    return result


def _clique_starts(target: CompiledTarget, paths: list[Mask]) -> Integers:
    """The columns whose partners are looked for: all, or those on a path where second moments come on demand."""
    on_demand = isinstance(target.scoring.scatter, GramRows)
    starts = np.any(paths, axis=0) if on_demand else target.prior.free
    return np.flatnonzero(starts & target.prior.free)


def _anneal(betas: Floats, turns: dict[int, Kind], replica: Replica) -> Round:
    kind, nothing = turns[id(replica)], np.zeros((0, replica.target.n_columns), bool)
    return replica.search(Proposals(betas, kind.rules, nothing), _SWEEPS, kind.thrift, kind.free)


def leading_modes(found: list[tuple[Mask, float]]) -> tuple[Mask, Floats]:
    """The best distinct subsets (m, d), best first, and their log p(z)Λ(z) (m,): those within 15 nats of the best."""
    distinct = {included.tobytes(): (included, value) for included, value in found}
    ranked = sorted(distinct.items(), key=lambda item: (-item[1][1], item[0]))[:_MOST_MODES]
    top = ranked[0][1][1]
    chosen = [(included, value) for _, (included, value) in ranked if value > top - _RELEVANT_NATS]
    return np.array([included for included, _ in chosen]), np.array([value for _, value in chosen])
