"""Annealed searches for modes: short ones, of several kinds, until several of them have come near the best subset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..._tools.arrays import Floats, Integers, Mask
from ..._tools.parallel import ordered_map
from ...kernels.active_set import ActiveSet, Scoring, active_set, flip_scores, load
from ...kernels.moves import BlockRule, SubsetPrior
from ...kernels.row_residuals import GramRows, without_values
from ...kernels.search import (
    FORWARD,
    MATCHING,
    add_synergies,
    cliques,
    inverse_scale_of,
    pursuit,
    scan_cliques,
    undecidable_cliques,
)
from ...models.gaussian import GaussianModel
from ..base import Target
from .ladders import CompiledTarget, Proposals, Replica, Round, block_rules

_LEAST_GAIN = 1e-6


def climb(scoring: Scoring, prior: SubsetPrior, included: Mask, state: ActiveSet, most_steps: int) -> None:
    """Change `included` (d,) for the better, a flip or an exchange at a time, until none helps."""
    for _ in range(most_steps):
        if not load(scoring, state, included):
            return
        change = np.empty(included.size)
        flip_scores(scoring, state, change)
        gains = _flip_gains(prior, included, change)
        column = int(np.argmax(gains))
        if gains[column] > _LEAST_GAIN:
            included[column] = not included[column]
            continue
        leaving, entering, gain = _best_exchange(scoring, prior, state, included, change)
        if not gain > _LEAST_GAIN:
            return
        included[[leaving, entering]] = False, True


def _flip_gains(prior: SubsetPrior, included: Mask, change: Floats) -> Floats:
    """(d,) by how much each flip raises log p(z)Λ(z); change (d,): by how much log Λ."""
    size = int(included.sum())
    up = prior.by_size[size + 1] - prior.by_size[size] if size + 1 < prior.by_size.size else -np.inf
    down = prior.by_size[size - 1] - prior.by_size[size] if size > 0 else -np.inf
    gains = np.full(included.size, -np.inf)
    open_ones = prior.free & ~np.isnan(change)
    for way, sign, columns in ((down, -1.0, open_ones & included), (up, 1.0, open_ones & ~included)):
        gains[columns] = change[columns] + way + sign * prior.log_odds[columns]
    return gains


def _best_exchange(
    scoring: Scoring, prior: SubsetPrior, state: ActiveSet, included: Mask, change: Floats
) -> tuple[int, int, float]:
    """The free member and the free other column whose exchange raises log p(z)Λ(z) most, and by how much.

    change (d,): of the flips of `included` (d,), to which `state` belongs before, and to something else after.
    """
    best, without = (-1, -1, 0.0), np.empty(included.size)
    for leaving in np.flatnonzero(included & prior.free & ~np.isnan(change)):
        rest = included.copy()
        rest[leaving] = False
        if load(scoring, state, rest):
            flip_scores(scoring, state, without)
            others = np.flatnonzero(prior.free & ~included & ~np.isnan(without))
            if len(others):
                gains = without[others] + prior.log_odds[others]
                top = int(np.argmax(gains))
                gain = float(change[leaving] + gains[top] - prior.log_odds[leaving])
                best = max(best, (int(leaving), int(others[top]), gain), key=lambda found: found[2])
    return best


Groups = tuple[int, int]


def groupings(target: CompiledTarget) -> tuple[Groups, Groups]:
    """Groups whose second moments are added up: first and one past the last, within environments and over the pool."""
    n_environments = len(target.scoring.weights) - 1
    return (0, n_environments), (n_environments, n_environments + 1)


def regression_path(
    target: CompiledTarget,
    groups: Groups,
    damping: float,
    length: int,
    given: Integers | None = None,
    without: Mask | None = None,
) -> Mask:
    """(d,) at most `length` columns: those that are given, and what a regression of the outcome adds; see `pursuit`.

    Columns of `without` (d,) may not be added.
    """
    given = np.empty(0, np.int64) if given is None else given
    free = target.prior.free if without is None else target.prior.free & ~without
    path = np.empty(min(length, target.n_free), np.int64)
    path[: len(given)] = given[: len(path)]
    scale = inverse_scale_of(target.scoring, *groups)
    n = pursuit(target.scoring, target.scoring.outcome, *groups, scale, free, damping, path, len(given))
    chosen = np.zeros(target.n_columns, bool)
    chosen[given], chosen[path[:n]] = True, True
    return chosen


# A column and at most this many partners.
_PARTNERS = 5
# Squared correlation from which on a partner counts as nearly a copy.
_KIN = 0.6
# So many columns follow a clique in a regression of the outcome.
_FOLLOWING = 6
# The cliques in which a search looks for a needle.
_MOST_JOINT = 6
# Steepest ascent from a clique ends well before.
_MOST_STEPS = 200
# Synergies of unrelated columns, times the number of rows, stay below this times the logarithm of their number.
_CHANCE = 4.0


@dataclass(frozen=True, eq=False)
class Cliques:
    """Each column with its partners: members (s, k), of which the first sizes (s,) count; synergies (s,), times the
    number of rows, of the first `joint` (s,) of them; determining (s,): whether they leave next to nothing of the
    outcome."""

    members: Integers
    sizes: Integers
    synergies: Floats
    joint: Integers
    determining: Mask

    @classmethod
    def of(cls, target: CompiledTarget, starts: Integers, n_jobs: int | None = None) -> Self:
        """Of the columns in `starts`, by second moments within environments and over the pool, with and without those
        that are nearly copies."""
        width = 1 + min(_PARTNERS, max(target.n_free - 1, 0))

        def found(how: tuple[Groups, float]) -> tuple[NDArray[Any], ...]:
            groups, closest = how
            members, sizes = np.zeros((len(starts), width), np.int64), np.zeros(len(starts), np.int64)
            cliques(target.scoring, *groups, target.prior.free, closest, starts, members, sizes)
            synergies, joint = np.zeros(len(starts)), np.zeros(len(starts), np.int64)
            determining = np.zeros(len(starts), bool)
            add_synergies(target.scoring, *groups, members, sizes, synergies, joint, determining)
            return members, sizes, target.n_rows * synergies, joint, determining

        # Second moments on demand have one cache, which threads cannot share.
        jobs = 1 if isinstance(target.scoring.scatter, GramRows) else n_jobs
        parts = ordered_map(found, list(product(groupings(target), (1.0, _KIN))), jobs)
        return cls(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def synergic(self, n_columns: int) -> list[Integers]:
        """The cliques that explain the outcome together and not one by one, beyond chance, the strongest first."""
        found: list[Integers] = []
        known: set[frozenset[int]] = set()
        for s in np.argsort(-self.synergies, kind="stable"):
            if self.synergies[s] <= _CHANCE * np.log(n_columns) or len(found) == _MOST_JOINT:
                break
            clique = self.members[s, : self.joint[s]]
            if frozenset(clique.tolist()) not in known:
                known.add(frozenset(clique.tolist()))
                found.append(clique)
        return found

    def joint_columns(self, target: CompiledTarget) -> Mask:
        """(d,) the columns of the synergic cliques, and those that a regression of the outcome adds to each: the
        originals of noisy copies, what else it depends on."""
        chosen = np.zeros(target.n_columns, bool)
        for clique in self.synergic(target.n_columns):
            for groups in groupings(target):
                chosen |= regression_path(target, groups, FORWARD, len(clique) + _FOLLOWING, clique)
        return chosen

    def all_synergic(self, n_columns: int) -> Integers:
        """The columns of all synergic cliques that share none with a stronger one."""
        apart: list[int] = []
        for clique in self.synergic(n_columns):
            if not set(apart) & set(clique.tolist()):
                apart += clique.tolist()
        return np.array(apart, dtype=np.int64)

    def climbed(self, target: CompiledTarget) -> list[tuple[Mask, float]]:
        """The subsets (d,) to which steepest ascent leads from each synergic clique and from all of them together, and
        their log p(z)Λ(z)."""
        starts = []
        for clique in (*self.synergic(target.n_columns), self.all_synergic(target.n_columns)):
            included = target.start.copy()
            included[clique[: target.capacity - int(target.start.sum())]] = True
            starts.append(included)
        return self._climb(target, starts if self.synergic(target.n_columns) else [])

    def best_step(self, target: CompiledTarget, included: Mask, n_jobs: int | None = None) -> tuple[Mask, float]:
        """The best subset (d,), and its log p(z)Λ(z), to which steepest ascent leads when one clique has changed as a
        whole, from `included` (d,) or from nothing but the forced columns."""
        if not len(self.sizes):
            return included, -np.inf
        # Where second moments cannot decide, the synergies from rows have their say, and scanning them takes too long.
        scoring = target.scoring._replace(rows=without_values(target.scoring.rows))
        jobs = 1 if isinstance(scoring.scatter, GramRows) else n_jobs

        def scanned(base: Mask) -> Mask:
            found = np.empty_like(base)
            scan_cliques(scoring, target.prior, base, self.members, self.sizes, found)
            return found

        return max(self._climb(target, list(ordered_map(scanned, [included, target.start], jobs))), key=_value)

    @staticmethod
    def _climb(target: CompiledTarget, starts: list[Mask]) -> list[tuple[Mask, float]]:
        state = active_set(len(target.scoring.weights), target.n_columns, target.capacity + 1)
        for included in starts:
            climb(target.scoring, target.prior, included, state, _MOST_STEPS)
        return [(included, target.value_of(included)) for included in starts]


def _value(found: tuple[Mask, float]) -> float:
    return found[1]


def undecidable_subsets(target: CompiledTarget, from_rows: bool, most: int, known: Cliques | None = None) -> Mask:
    """(m, p) at most so many subsets of features that pick each other and that cannot be decided.

    With rows these are features that together determine the outcome. Cliques that are known already are not looked for.
    """
    every = Cliques.of(target, np.flatnonzero(target.prior.free)) if known is None else known
    wanted = every.determining if from_rows else np.ones(len(every.sizes), bool)
    found = undecidable_cliques(target.scoring, target.prior, every.members, every.sizes, target.capacity, wanted)
    masks = np.zeros((min(int(found.sum()), most), target.n_columns), bool)
    for mask, s in zip(masks, np.flatnonzero(found), strict=False):
        mask[every.members[s, : every.sizes[s]][: target.capacity]] = True
    return np.unique(masks[:, target.features], axis=0)


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


_EXAMPLES = 64


def support_note(
    target: Target, known: Cliques | None = None, met: Mask | None = None, look: bool = True
) -> str | None:
    """A sentence when single features, or some that belong together, put subsets outside the support.

    met (k, p): subsets without a value that a sampler came across. They are what is known of models without a compiled
    scorer, and of others that were not to be looked through.
    """
    model, prior = target.model, target.prior
    allowed = ~prior.forced_out
    nearly = np.flatnonzero(allowed & model.nearly_outcome())
    alone = np.arange(len(allowed)) == nearly[:, None]
    every = allowed[None] if allowed.sum() <= prior.max_size else alone[:0]
    together = alone[:0] if met is None else met
    from_rows = model.has_rows if isinstance(model, GaussianModel) else model.rows is not None
    # Another compiled target would be another cache of second moments on demand.
    if look and (known is None or not from_rows or known.determining.any()):
        compiled = CompiledTarget.of(target)
        if compiled is not None:
            together = undecidable_subsets(compiled, from_rows, _EXAMPLES, known)
    reasons = model.unsupported(np.concatenate([alone, together, every])).reasons
    return f"Some subsets are outside the support: {'; '.join(reasons)}." if reasons else None
