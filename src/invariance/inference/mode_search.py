"""Searches for modes of p(z)Λ(z): annealing, steepest ascent from synergies, and swaps of members.

Synergies are columns that explain the outcome only together. Swaps replace members by similar
features around the modes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice, product
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import ordered_map
from .._tools.progress import ProgressBar
from .._tools.time_limit import out_of_time
from ..exceptions import DataError
from ..kernels.active_set import ActiveSet, active_set, flip_changes
from ..kernels.cholesky import score_subsets
from ..kernels.matching_pursuit import FORWARD, MATCHING, add_synergies, cliques, scan_cliques
from ..kernels.mcmc import Best, BlockRule
from ..kernels.row_residuals import without_values
from .base import EXAMPLES, RunOptions, Target
from .mean_field import MeanField
from .replicas import (
    AnySampler,
    CompiledReplica,
    CompiledSampler,
    GenericSampler,
    Proposals,
    block_rules,
    sampler_of,
)

_LEAST_GAIN = 1e-6
_MAX_CLIMB_STEPS = 200  # of steepest ascent, which ends well before
# each a column and at most so many partners
_MOST_SYNERGIES = 6
_PARTNERS = 5
_KIN = 0.6  # squared correlation from which on a partner counts as nearly a copy
_FOLLOWING = 6  # columns that follow a synergy in a regression of the outcome
# Synergies of unrelated columns, times the number of rows, stay below this times the logarithm of
# their number.
_CHANCE = 4.0
_SWEEPS_OF_A_SEARCH = 20  # at each temperature: more searches find more than longer ones
_THRIFT = 3.0  # nats that one kind of search pays for each member while it is hot
# columns of a regression: few enough to be searched thoroughly, a few times those that matter
_PATH = 30
_MOST_MODES = 8
_RELEVANT_NATS = 15.0
# Searching ends when enough of the searches have come this near to the best subset, in nats, or
# when this many times the asked-for number of searches has been spent. With fewer than
# _FEWEST_NEAR of them the best subset is in doubt.
_NEAR = 3.0
PATIENCE = 4
_FEWEST_NEAR = 3
SAME = 1e-6  # between log p(z)Λ(z) of two subsets, up to rounding
# where nothing is sampled
_REPLICAS = 4
_SEARCHES = 4
# log Λ of this many rows is where chains move freely
_HOTTEST_ROWS = 30.0
_TEMPERATURES = 10
MISSED_SHARE = 1 / 50  # a subset is missed by a law that gives it less of its probability
_STEEPEST = 10.0
_WITHIN_NATS = 8.0
_MOST_PEAKS = 24
_ROUNDS_OF_SWAPS = 3
_REPLACEMENTS = 4
_MOST_WORK = 1e10

_MODE_SEARCH = "searches for the most probable subsets"  # as a limit on the time lists it

# A subset (d,) and its log p(z)Λ(z).
ScoredMode = tuple[Mask, float]
_log_posterior = itemgetter(1)
GroupRange = tuple[int, int]
# Of searches: rules for blocks, thrift, and columns that may enter; see `CompiledSampler.search`.
Kind = tuple[tuple[BlockRule, BlockRule], float, Mask | None]
_NO_COLUMNS = np.empty(0, np.int64)


def climb(sampler: CompiledSampler, included: Mask, state: ActiveSet) -> None:
    """Steepest ascent: change `included` (d,) by a flip or an exchange at a time, until none
    helps."""
    prior = sampler.prior
    for _ in range(_MAX_CLIMB_STEPS):
        change = flip_changes(sampler.scoring, state, included)
        gains = change + prior_changes(prior.log_odds, prior.by_size, prior.free, included)
        gains[np.isnan(gains)] = -np.inf
        column = int(np.argmax(gains))
        if gains[column] > _LEAST_GAIN:
            included[column] = not included[column]
            continue
        leaving, entering, gain = _best_exchange(sampler, state, included, change)
        if not gain > _LEAST_GAIN:
            return
        included[[leaving, entering]] = False, True


def prior_changes(log_odds: Floats, by_size: Floats, free: Mask, included: Mask) -> Floats:
    """Return the change (d,) of the log prior by each flip of a subset (d,); -inf if it is not
    open."""
    size = int(included.sum())
    weight = np.append(by_size, -np.inf)
    removed = weight[size - 1] - weight[size] - log_odds
    added = weight[size + 1] - weight[size] + log_odds
    return np.where(free, np.where(included, removed, added), -np.inf)


def _best_exchange(
    sampler: CompiledSampler, state: ActiveSet, included: Mask, change: Floats
) -> tuple[int, int, float]:
    """Return the best exchange of a free member for a free other column, and its gain of log
    p(z)Λ(z).

    change (d,) : of the flips of `included` (d,). Overwrites `state`.
    """
    prior = sampler.prior
    best = (-1, -1, 0.0)
    for leaving in np.flatnonzero(included & prior.free & ~np.isnan(change)).tolist():
        rest = included.copy()
        rest[leaving] = False
        without = flip_changes(sampler.scoring, state, rest)
        gains = np.where(
            prior.free & ~included & ~np.isnan(without), without + prior.log_odds, -np.inf
        )
        entering = int(np.argmax(gains))
        gain = float(change[leaving] + gains[entering] - prior.log_odds[leaving])
        best = max(best, (leaving, entering, gain), key=itemgetter(2))
    return best


def groupings(sampler: CompiledSampler) -> tuple[GroupRange, GroupRange]:
    """Groups whose second moments are added up: first and one past the last, within environments
    and over the pool."""
    n_environments = len(sampler.scoring.weights) - 1
    return (0, n_environments), (n_environments, n_environments + 1)


def regression_path(
    sampler: CompiledSampler,
    groups: GroupRange,
    damping: float,
    length: int,
    given: Integers = _NO_COLUMNS,
    apart: Any = False,
) -> Mask:
    """Return the given columns and those that a regression adds, at most `length`, (d,).

    Columns `apart` (d,) are excluded.
    """
    free = sampler.free & ~np.asarray(apart)
    starts = np.array([sampler.scoring.outcome])
    path = np.empty((1, 1 + min(length, sampler.n_free)), np.int64)
    size = np.empty(1, np.int64)
    path[0, 1 : 1 + len(given)] = given[: path.size - 1]
    cliques(sampler.scoring, *groups, free, 1.0, damping, starts, path, len(given), size)
    return np.isin(np.arange(sampler.n_columns), np.concatenate([given, path[0, 1 : size[0]]]))


class Synergies:
    """Columns in `starts`, each with the partners that a regression of it picks, by second moments
    within environments and over the pool, with and without those that are nearly copies; and how
    much more they explain together. members (s, k), of which the first sizes (s,) count; gains
    (s,): synergy times the number of rows, of the first `joint` (s,) members; determining (s,):
    whether they leave next to nothing of the outcome."""

    def __init__(self, sampler: CompiledSampler, starts: Integers) -> None:
        self.sampler = sampler
        n = len(starts)
        width = 1 + min(_PARTNERS, max(sampler.n_free - 1, 0))

        def found(how: tuple[GroupRange, float]) -> tuple[NDArray[Any], ...]:
            groups, closest = how
            members = np.zeros((n, width), np.int64)
            sizes, joint = np.zeros((2, n), np.int64)
            cliques(
                sampler.scoring, *groups, sampler.free, closest, FORWARD, starts, members, 0, sizes
            )
            gains = np.zeros(n)
            determining = np.zeros(n, bool)
            add_synergies(sampler.scoring, *groups, members, sizes, gains, joint, determining)
            return members, sizes, sampler.n_rows * gains, joint, determining

        parts = ordered_map(found, list(product(groupings(sampler), (1.0, _KIN))), sampler.n_jobs)
        joined = map(np.concatenate, zip(*parts, strict=True))
        self.members, self.sizes, self.gains, self.joint, self.determining = joined

    def leading(self) -> list[Integers]:
        """Return columns that explain the outcome together and not one by one, the strongest first.

        Only sets beyond chance are returned.
        """
        found: dict[frozenset[int], Integers] = {}
        for s in np.argsort(-self.gains, kind="stable"):
            if self.gains[s] <= _CHANCE * np.log(self.sampler.n_columns):
                break
            columns = self.members[s, : self.joint[s]]
            found.setdefault(frozenset(columns.tolist()), columns)
        return list(found.values())[:_MOST_SYNERGIES]

    def disjoint(self) -> Integers:
        """Return the columns of all leading synergies that share none with a stronger one."""
        apart: list[int] = []
        for columns in self.leading():
            if not set(apart) & set(columns.tolist()):
                apart += columns.tolist()
        return np.array(apart, dtype=np.int64)

    def with_regressions(self) -> Mask:
        """Return the columns (d,) of the leading synergies and those that a regression adds to
        each."""
        chosen = np.zeros(self.sampler.n_columns, bool)
        for columns, groups in product(self.leading(), groupings(self.sampler)):
            chosen |= regression_path(
                self.sampler, groups, FORWARD, len(columns) + _FOLLOWING, columns
            )
        return chosen

    def climbed(self) -> list[ScoredMode]:
        """Return the ends of steepest ascent from each leading synergy and from all of them
        together."""
        forced = self.sampler.start
        leading = self.leading()
        starts = np.repeat(forced[None], len(leading) + bool(leading), axis=0)
        for included, columns in zip(starts, (*leading, self.disjoint()), strict=False):
            included[columns[: self.sampler.capacity - int(forced.sum())]] = True
        return _climbed(self.sampler, starts)

    def best_step(self, included: Mask) -> ScoredMode:
        """Return the best end of steepest ascent after one clique changed as a whole.

        It starts from `included` (d,) or from the forced columns alone.
        """
        if not len(self.sizes):
            return included, -np.inf
        # Where second moments cannot decide, `climbed` knows the synergies from rows, and scanning
        # takes too long.
        scoring = self.sampler.scoring._replace(rows=without_values(self.sampler.scoring.rows))

        def scanned(base: Mask) -> Mask:
            found = np.empty_like(base)
            scan_cliques(scoring, self.sampler.prior, base, self.members, self.sizes, found)
            return found

        starts = ordered_map(scanned, [included, self.sampler.start], self.sampler.n_jobs)
        return max(_climbed(self.sampler, starts), key=_log_posterior)

    def undecidable(self) -> Mask:
        """Return subsets (m, p) of features that select each other and that cannot be decided.

        With rows, these are features that determine the outcome together.
        """
        sampler = self.sampler
        every = np.arange(len(self.sizes))
        wanted = every[self.determining] if sampler.scoring.rows.values.size else every
        cliques = [
            own[: self.sizes[s]] for s, own in zip(wanted, self.members[wanted], strict=True)
        ]
        blocks = [np.sort(own[sampler.free[own]][: sampler.capacity]) for own in cliques]
        starts = np.cumsum([0, *map(len, blocks)])
        values = np.empty(len(blocks))
        score_subsets(
            sampler.scoring, np.nan, starts, np.concatenate([_NO_COLUMNS, *blocks]), values
        )
        found = wanted[np.isnan(values)][:EXAMPLES]
        masks = np.zeros((len(found), sampler.n_columns), bool)
        for mask, s in zip(masks, found, strict=True):
            mask[self.members[s, : self.sizes[s]][: sampler.capacity]] = True
        return np.unique(masks[:, sampler.features], axis=0)


def _climbed(sampler: CompiledSampler, starts: Iterable[Mask]) -> list[ScoredMode]:
    state = active_set(len(sampler.scoring.weights), sampler.n_columns, sampler.capacity + 1)
    found = []
    for included in starts:
        climb(sampler, included, state)
        found.append((included, sampler.value_of(included)))
    return found


@dataclass
class Searched:
    """Hold the results of searches.

    interest (d,) : how often a column was worth including, at any temperature; ends : the best
    subset of each search; stepped : better ones that synergies led to; states : final subsets at
    every temperature (t, d), and log Λ (t,)
    """

    interest: Floats
    ends: list[ScoredMode] = field(default_factory=list)
    stepped: list[ScoredMode] = field(default_factory=list)
    states: list[tuple[Mask, Floats]] = field(default_factory=list)
    synergies: Synergies | None = None

    @property
    def best(self) -> ScoredMode:
        return max(self.ends + self.stepped, key=_log_posterior)

    @property
    def n_near(self) -> int:
        """Return the number of searches that came near the best value."""
        return sum(value > self.best[1] - _NEAR for _, value in self.ends)

    @property
    def hidden(self) -> bool:
        """Return whether so few searches came near that a better subset may have been missed."""
        return self.n_near < _FEWEST_NEAR

    def found_often(self, n_kinds: int) -> bool:
        """Return whether as many searches came near the best as there are of one of n_kinds."""
        return not self.hidden and self.n_near >= len(self.ends) // n_kinds

    def best_met(self, sampler: AnySampler) -> ScoredMode:
        """Return the best subset that any replica met or synergies led to."""
        return max(sampler.bests() + self.stepped, key=_log_posterior)

    def modes(self, sampler: AnySampler) -> tuple[Mask, Floats]:
        """Good distinct subsets met so far (m, d), best first, and their log p(z)Λ(z) (m,)."""
        coldest, log_ratios = (np.array(part)[:, -1] for part in zip(*self.states, strict=True))
        left = zip(coldest, sampler.log_posterior(coldest, log_ratios).tolist(), strict=True)
        return leading_modes([*self.ends, *self.stepped, *left, *sampler.bests()])


def first_betas(n_rows: int) -> Floats:
    """Return inverse temperatures, ascending to 1; at the first of them chains move freely."""
    return np.geomspace(min(0.5, _HOTTEST_ROWS / n_rows), 1.0, _TEMPERATURES)


def find_modes(target: Target, options: RunOptions) -> Mask:
    """Return distinct subsets (m, p) at which searches ended, within 15 nats of the best, best
    first."""
    with ProgressBar(
        "searching subsets", PATIENCE * _SEARCHES * _REPLICAS, options.progress
    ) as bar:
        sampler = sampler_of(target, _REPLICAS, options, bar.advance)
        searched = search_modes(sampler, first_betas(sampler.n_rows), sampler.block_size, _SEARCHES)
    return sampler.masks(leading_modes(searched.ends + searched.stepped)[0])


def search_modes(sampler: AnySampler, betas: Floats, block_size: int, searches: int) -> Searched:
    """Run annealed searches from the hottest to the coldest temperature, a minimum for each
    replica."""
    if isinstance(sampler, GenericSampler):
        result = _generic_searches(sampler, betas, block_size, searches)
    else:
        result = _compiled_searches(sampler, betas, block_size, searches)
    result.interest /= len(result.ends)
    return result


def _generic_searches(
    sampler: GenericSampler, betas: Floats, block_size: int, searches: int
) -> Searched:
    """Every replica anneals `searches` chains at a time, half of them thriftily."""
    result = Searched(np.zeros(sampler.n_columns))
    c = searches * len(sampler.replicas)
    for _ in range(PATIENCE):
        rules = block_rules(sampler, result.interest, block_size, result.interest)
        proposals = Proposals(betas, rules, np.zeros((0, sampler.n_columns), dtype=bool))
        thrifts = np.where((np.arange(c) + len(result.ends)) % 2, _THRIFT, 0.0)
        chains, left, log_ratios = sampler.anneal(proposals, searches, thrifts)
        result.states += zip(left, log_ratios, strict=True)
        result.ends += zip(chains.best_included, chains.best.tolist(), strict=True)
        result.interest += (chains.flips / np.maximum(chains.n_flips, 1.0)).sum(axis=0)
        sampler.report(c, f"best {result.best[1]:.1f}")
        if result.found_often(2) or out_of_time(_MODE_SEARCH):
            break
    return result


def _compiled_searches(
    sampler: CompiledSampler, betas: Floats, block_size: int, searches: int
) -> Searched:
    """Run all kinds of search in each replica, each beginning with another kind.

    They are among all columns, with blocks that follow the flips or thriftily; among columns of a
    regression path; and among synergies and what a regression adds to these, if it may not use the
    paths, which effects of the outcome fill. Finally all synergies are tried on the best subset; if
    that finds a better one, the search continues.
    """
    paths = [regression_path(sampler, groups, MATCHING, _PATH) for groups in groupings(sampler)]
    synergies = Synergies(sampler, np.flatnonzero(sampler.free))
    climbed = synergies.climbed()
    given = synergies.disjoint()
    aside = regression_path(
        sampler, groupings(sampler)[0], FORWARD, _PATH + len(given), given, np.any(paths, axis=0)
    )
    synergic = np.any([synergies.with_regressions(), aside, *(mask for mask, _ in climbed)], axis=0)
    guide = np.sum([*paths, synergic], axis=0, dtype=float)
    few, many = block_rules(sampler, guide, block_size, guide)
    mixed = (few, many)
    nothing = np.zeros((0, sampler.n_columns), bool)
    kinds: list[Kind] = [((few, many._replace(follows=True)), 0.0, None), (mixed, _THRIFT, None)]
    kinds += [(mixed, 0.0, columns) for columns in (*paths, synergic)]

    def anneal(turn: tuple[CompiledReplica, Kind]) -> tuple[Best, Floats]:
        replica, (rules, thrift, free) = turn
        return sampler.search(
            replica, Proposals(betas, rules, nothing), _SWEEPS_OF_A_SEARCH, thrift, free
        )

    result = Searched(np.zeros(sampler.n_columns), stepped=climbed, synergies=synergies)
    least = max(searches, -(-len(kinds) // len(sampler.replicas)))
    for number in range(max(PATIENCE * searches, least)):
        turns = zip(sampler.replicas, islice(cycle(kinds), number, None), strict=False)
        for found, interest in ordered_map(anneal, turns, sampler.n_jobs):
            result.interest += interest
            result.ends.append((found.included, float(found.log_posterior[0])))
            sampler.report(1, f"best {result.best[1]:.1f}")
        result.states += [(replica.included, replica.log_ratios) for replica in sampler.replicas]
        if out_of_time(_MODE_SEARCH):
            break
        if number + 1 >= least and result.found_often(len(kinds)):
            better = synergies.best_step(result.best[0])
            if better[1] < result.best[1] + SAME:
                break
            kinds.append((mixed, 0.0, better[0] | result.best[0] | synergic))
            result.stepped.append(better)
    return result


def leading_modes(found: list[ScoredMode]) -> tuple[Mask, Floats]:
    """Return the best distinct subsets (m, d), best first, and their log p(z)Λ(z) (m,).

    They are within 15 nats of the best.
    """
    distinct = {mode[0].tobytes(): mode for mode in found}
    ranked = sorted(distinct.items(), key=lambda item: (-item[1][1], item[0]))[:_MOST_MODES]
    included, values = (np.array(part) for part in zip(*(mode for _, mode in ranked), strict=True))
    relevant = values > values[0] - _RELEVANT_NATS
    return included[relevant], values[relevant]


# ---------------------------------------------------------------- around known modes


def log_joint_changes(target: Target, mask: Mask) -> Floats:
    """Return the change (p,) of log p(z)Λ(z) by each flip of a feature of the subset (p,).

    -inf if the result, or the subset itself, is outside the support.
    """
    prior = target.prior
    try:
        change = target.model.flip_neighbours(mask)
    except DataError:
        return np.full(len(mask), -np.inf)
    free = ~(prior.forced_in | prior.forced_out)
    return change + prior_changes(prior.log_odds, prior.log_size_weight, free, mask)


def around(target: Target, mode: Mask) -> MeanField:
    """Return the product with the right odds for every single flip from the mode (p,)."""
    change = np.clip(log_joint_changes(target, mode), -_STEEPEST, _STEEPEST)
    logits = np.where(mode, -change, change)
    logits[target.prior.forced_in] = np.inf
    logits[target.prior.forced_out] = -np.inf
    return MeanField(logits, target.prior.max_size)


def with_swaps(target: Target, modes: Mask) -> Mask:
    """Return modes and the subsets (m, p) that a few swaps of a member for one or two others lead
    to.

    The search is bounded. Best first, within 8 nats of the best, without subsets that are `around`
    a better one.
    """
    size = float(modes.sum(axis=1).max()) + 1.0
    # Multiplications for the swaps of the largest mode: one factorisation for each replacement.
    work = size * (1 + 2 * _REPLACEMENTS) * target.model.flip_steps(size)
    most = int(_MOST_WORK / work)
    leading = modes
    swapped = np.zeros_like(modes[:0])
    for _ in range(_ROUNDS_OF_SWAPS):
        fresh = leading[~(leading[:, None] == swapped).all(axis=2).any(axis=1)][
            : most - len(swapped)
        ]
        if not len(fresh):
            break
        swapped = np.concatenate([swapped, fresh])
        swaps = [mask for mode in fresh for mask in _best_swaps(target, mode)]
        leading = _apart(target, np.unique(np.array([*leading, *swaps]), axis=0))
    return leading


def _best_swaps(target: Target, mode: Mask) -> Iterator[Mask]:
    """Yield, for each member of the mode (p,), the best subsets with one or two others in its
    place."""
    for member in np.flatnonzero(mode & ~target.prior.forced_in).tolist():
        without = mode.copy()
        without[member] = False
        change = np.where(mode, -np.inf, log_joint_changes(target, without))
        good = np.argsort(-change, kind="stable")[:_REPLACEMENTS]
        for feature in dict.fromkeys([*good, *target.model.alike(member, _REPLACEMENTS)]):
            if change[feature] > -np.inf:
                swapped = without.copy()
                swapped[feature] = True
                yield swapped
                further = np.where(mode | swapped, -np.inf, log_joint_changes(target, swapped))
                if further.max() > -np.inf:
                    swapped = swapped.copy()
                    swapped[further.argmax()] = True
                    yield swapped


def _apart(target: Target, masks: Mask) -> Mask:
    """Return those of masks (S, p), best first, that the distributions around better ones do not
    reach."""
    value = target.log_joint(masks)
    order = np.argsort(-value, kind="stable")
    order = order[value[order] >= value.max() - _WITHIN_NATS]
    masks = masks[order]
    value = value[order]
    kept: list[int] = []
    reached = np.full(len(masks), -np.inf)
    for s in range(len(masks)):
        if reached[s] < value[s] + np.log(MISSED_SHARE):
            kept.append(s)
            log_law = around(target, masks[s]).log_prob(masks)
            reached = np.maximum(reached, value[s] - log_law[s] + log_law)
        if len(kept) == _MOST_PEAKS:
            break
    return masks[kept]
