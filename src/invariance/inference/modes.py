"""Searches for modes of p(z)Λ(z): annealed ones of several kinds, steepest ascent from columns that help only together
(synergies), and swaps of members for look-alikes around what they found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import ordered_map
from ..exceptions import DataError
from ..kernels.active_set import ActiveSet, Scoring, active_set, flip_scores, load
from ..kernels.moves import BlockRule, SubsetPrior
from ..kernels.row_residuals import without_values
from ..kernels.search import (
    FORWARD,
    MATCHING,
    add_synergies,
    cliques,
    inverse_scale_of,
    pursuit,
    scan_cliques,
    undecidable_cliques,
)
from .base import Target
from .tempering.ladders import CompiledTarget, Proposals, Replica, Round, block_rules
from .variational.mean_field import MeanField

_LEAST_GAIN = 1e-6
# A subset (d,) and its log p(z)Λ(z).
Mode = tuple[Mask, float]


def climb(scoring: Scoring, prior: SubsetPrior, included: Mask, state: ActiveSet, most_steps: int) -> None:
    """Steepest ascent: change `included` (d,) by a flip or an exchange at a time, until none helps."""
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

    change (d,): of the flips of `included` (d,). Overwrites `state`.
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
    """(d,) at most `length` columns: the given ones and what a regression of the outcome adds, except `without` (d,);
    see `pursuit`."""
    given = np.empty(0, np.int64) if given is None else given
    free = target.free if without is None else target.free & ~without
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
# So many columns follow a synergy in a regression of the outcome.
_FOLLOWING = 6
_MOST_SYNERGIES = 6
# Steepest ascent from a synergy ends well before.
_MOST_STEPS = 200
# Synergies of unrelated columns, times the number of rows, stay below this times the logarithm of their number.
_CHANCE = 4.0


@dataclass(frozen=True, eq=False)
class Synergies:
    """Columns, each with the partners that a regression of it picks, and how much more they explain together.

    members (s, k), of which the first sizes (s,) count; gains (s,): synergy times the number of rows, of the first
    `joint` (s,) members; determining (s,): whether they leave next to nothing of the outcome.
    """

    members: Integers
    sizes: Integers
    gains: Floats
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
            cliques(target.scoring, *groups, target.free, closest, starts, members, sizes)
            gains, joint = np.zeros(len(starts)), np.zeros(len(starts), np.int64)
            determining = np.zeros(len(starts), bool)
            add_synergies(target.scoring, *groups, members, sizes, gains, joint, determining)
            return members, sizes, target.n_rows * gains, joint, determining

        parts = ordered_map(found, list(product(groupings(target), (1.0, _KIN))), 1 if target.on_demand else n_jobs)
        return cls(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def leading(self, n_columns: int) -> list[Integers]:
        """The columns that explain the outcome together and not one by one, beyond chance, the strongest first."""
        found: dict[frozenset[int], Integers] = {}
        for s in np.argsort(-self.gains, kind="stable"):
            if self.gains[s] <= _CHANCE * np.log(n_columns) or len(found) == _MOST_SYNERGIES:
                break
            columns = self.members[s, : self.joint[s]]
            found.setdefault(frozenset(columns.tolist()), columns)
        return list(found.values())

    def disjoint(self, n_columns: int) -> Integers:
        """The columns of all leading synergies that share none with a stronger one."""
        apart: list[int] = []
        for columns in self.leading(n_columns):
            if not set(apart) & set(columns.tolist()):
                apart += columns.tolist()
        return np.array(apart, dtype=np.int64)

    def with_regressions(self, target: CompiledTarget) -> Mask:
        """(d,) the columns of the leading synergies, and those that a regression of the outcome adds to each"""
        chosen = np.zeros(target.n_columns, bool)
        for columns in self.leading(target.n_columns):
            for groups in groupings(target):
                chosen |= regression_path(target, groups, FORWARD, len(columns) + _FOLLOWING, columns)
        return chosen

    def climbed(self, target: CompiledTarget) -> list[Mode]:
        """Where steepest ascent leads from each leading synergy and from all of them together"""
        leading = self.leading(target.n_columns)
        starts = []
        for columns in (*leading, self.disjoint(target.n_columns)) if leading else ():
            included = target.start.copy()
            included[columns[: target.capacity - int(target.start.sum())]] = True
            starts.append(included)
        return _climbed(target, starts)

    def best_step(self, target: CompiledTarget, included: Mask, n_jobs: int | None = None) -> Mode:
        """The best subset to which steepest ascent leads when the members of one row have changed as a whole, from
        `included` (d,) or from the forced columns alone."""
        if not len(self.sizes):
            return included, -np.inf
        # Where second moments cannot decide, `climbed` knows the synergies from rows, and scanning takes too long.
        scoring = target.scoring._replace(rows=without_values(target.scoring.rows))

        def scanned(base: Mask) -> Mask:
            found = np.empty_like(base)
            scan_cliques(scoring, target.prior, base, self.members, self.sizes, found)
            return found

        starts = ordered_map(scanned, [included, target.start], 1 if target.on_demand else n_jobs)
        return max(_climbed(target, list(starts)), key=_value)


def _climbed(target: CompiledTarget, starts: list[Mask]) -> list[Mode]:
    state = active_set(len(target.scoring.weights), target.n_columns, target.capacity + 1)
    for included in starts:
        climb(target.scoring, target.prior, included, state, _MOST_STEPS)
    return [(included, target.value_of(included)) for included in starts]


def _value(mode: Mode) -> float:
    return mode[1]


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
_EXAMPLES = 64


@dataclass
class Searched:
    """What the searches found.

    ends: the best subset of each search; stepped: better ones to which synergies led;
    states: what each search left at every temperature (t, d) and its log Λ (t,);
    interest (d,): how often each column was worth including, at any temperature.
    """

    interest: Floats
    ends: list[Mode] = field(default_factory=list)
    stepped: list[Mode] = field(default_factory=list)
    states: list[tuple[Mask, Floats]] = field(default_factory=list)
    synergies: Synergies | None = None

    @property
    def values(self) -> Floats:
        """(s,) log p(z)Λ(z) of the best subset of each search"""
        return np.array([value for _, value in self.ends])

    @property
    def best(self) -> Mode:
        return max(self.ends + self.stepped, key=_value)

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


class _Kind(NamedTuple):
    """A kind of search; see `Replica.search`."""

    rules: tuple[BlockRule, BlockRule]
    thrift: float = 0.0
    free: Mask | None = None


def search_modes(
    target: CompiledTarget,
    replicas: list[Replica],
    betas: Floats,
    block_size: int,
    searches: int,
    told: Callable[[Iterable[Round]], list[Round]],
    n_jobs: int | None = None,
) -> Searched:
    """Anneal every replica at least `searches` times, by all kinds of search in turn, each replica beginning with
    another. told : shows the progress of what it passes on

    Two kinds move among all columns, one with blocks that follow the flips, one thriftily; the others are held to a few
    columns: two to those of a regression path, one to synergies and to what a regression adds to these when it may not
    use the paths, which the outcome's own effects fill. Before it ends, all synergies are tried on the best subset;
    where that finds a better one, it goes on.
    """
    paths = [regression_path(target, groups, MATCHING, _PATH) for groups in groupings(target)]
    # On demand, second moments of all columns take too long: those on a path have to do.
    starts = np.any(paths, axis=0) & target.free if target.on_demand else target.free
    synergies = Synergies.of(target, np.flatnonzero(starts), n_jobs)
    climbed = synergies.climbed(target)
    given = synergies.disjoint(target.n_columns)
    aside = regression_path(target, groupings(target)[0], FORWARD, _PATH + len(given), given, np.any(paths, axis=0))
    synergic = np.any([synergies.with_regressions(target), aside, *(mask for mask, _ in climbed)], axis=0)
    guide = np.sum([*paths, synergic], axis=0, dtype=float)
    few, many = block_rules(target, guide, block_size, guide)
    mixed, nothing = (few, many), np.zeros((0, target.n_columns), bool)
    kinds = [_Kind((few, many._replace(follows=True))), _Kind(mixed, THRIFT)]
    kinds += [_Kind(mixed, free=columns) for columns in (*paths, synergic)]

    def anneal(turn: tuple[Replica, _Kind]) -> Round:
        replica, kind = turn
        return replica.search(Proposals(betas, kind.rules, nothing), _SWEEPS, kind.thrift, kind.free)

    result = Searched(np.zeros(target.n_columns), stepped=climbed, synergies=synergies)
    least = max(searches, -(-len(kinds) // len(replicas)))
    for number in range(max(most_searches(searches), least)):
        turns = [(replica, kinds[(number + i) % len(kinds)]) for i, replica in enumerate(replicas)]
        rounds = told(ordered_map(anneal, turns, n_jobs))
        result.interest += np.sum([found.interest for found in rounds], axis=0)
        result.ends += [(replica.found.included.copy(), float(replica.found.log_posterior[0])) for replica in replicas]
        result.states += [(replica.included, replica.log_ratios) for replica in replicas]
        if number + 1 >= least and result.settled(len(kinds)):
            better = synergies.best_step(target, result.best[0], n_jobs)
            if better[1] < result.best[1] + _SAME:
                break
            kinds.append(_Kind(mixed, free=better[0] | result.best[0] | synergic))
            result.stepped.append(better)
    result.interest /= len(result.ends)
    return result


def leading_modes(found: list[Mode]) -> tuple[Mask, Floats]:
    """The best distinct subsets (m, d), best first, and their log p(z)Λ(z) (m,): those within 15 nats of the best."""
    distinct = {included.tobytes(): (included, value) for included, value in found}
    ranked = sorted(distinct.items(), key=lambda item: (-item[1][1], item[0]))[:_MOST_MODES]
    top = ranked[0][1][1]
    chosen = [mode for _, mode in ranked if mode[1] > top - _RELEVANT_NATS]
    return np.array([included for included, _ in chosen]), np.array([value for _, value in chosen])


def undecidable_subsets(target: CompiledTarget, synergies: Synergies) -> Mask:
    """(m, p) subsets of features that pick each other and that cannot be decided; with rows, these are features that
    together determine the outcome."""
    wanted = synergies.determining if target.scoring.rows.values.size else np.ones(len(synergies.sizes), bool)
    members, sizes = synergies.members, synergies.sizes
    found = np.flatnonzero(undecidable_cliques(target.scoring, target.prior, members, sizes, target.capacity, wanted))
    masks = np.zeros((min(len(found), _EXAMPLES), target.n_columns), bool)
    for mask, s in zip(masks, found, strict=False):
        mask[members[s, : sizes[s]][: target.capacity]] = True
    return np.unique(masks[:, target.features], axis=0)


def support_notes(target: Target, met: Mask) -> list[str]:
    """A sentence when single features, or some that belong together, put subsets outside the support.

    met (k, p): subsets without a value that the engine came across
    """
    allowed = ~target.prior.forced_out
    nearly = np.flatnonzero(allowed & target.model.nearly_outcome())
    alone = np.arange(len(allowed)) == nearly[:, None]
    every = allowed[None] if allowed.sum() <= target.prior.max_size else alone[:0]
    reasons = target.model.outside_support(np.concatenate([alone, met, every]))
    return [f"Some subsets are outside the support: {'; '.join(reasons)}."] if reasons else []


# A subset is missed by a law that gives it less than this share of its probability.
MISSED_SHARE = 1 / 50
_STEEPEST = 10.0
_MOST_PEAKS = 24
_WITHIN_NATS = 8.0
_ROUNDS, _REPLACEMENTS = 3, 4
_MOST_WORK = 1e10


def log_joint_changes(target: Target, mask: Mask) -> Floats:
    """(p,) change of log p(z)Λ(z) when each single feature is added to the subset (p,) or removed; -inf where that, or
    the subset itself, is outside the support."""
    prior = target.prior
    try:
        change = target.model.flip_neighbours(mask)
    except DataError:
        return np.full(len(mask), -np.inf)
    size = int(mask.sum())
    weight = np.append(prior.log_size_weight, -np.inf)
    added = prior.log_odds + weight[size + 1] - weight[size]
    removed = -prior.log_odds + weight[size - 1] - weight[size]
    change += np.where(mask, removed, added)
    change[prior.forced_in | prior.forced_out] = -np.inf
    return change


def around(target: Target, mode: Mask) -> MeanField:
    """The product that has the right odds for every single flip of one feature from the mode (p,)."""
    change = np.clip(log_joint_changes(target, mode), -_STEEPEST, _STEEPEST)
    logits = np.where(mode, -change, change)
    logits[target.prior.forced_in], logits[target.prior.forced_out] = np.inf, -np.inf
    return MeanField(logits, target.prior.max_size)


def with_swaps(target: Target, modes: Mask) -> Mask:
    """(m, p) modes and the subsets that one or a few swaps of a member for one or two other features lead to.

    Searches end with the best subset that they meet; a feature that others nearly give leads to a second one, about as
    probable. Best first, within 8 nats of the best, without those that are `around` a better one. Large subsets of many
    features are swapped only as far as that is quick.
    """
    size = float(modes.sum(axis=1).max()) + 1.0
    # Multiplications for the swaps of the largest mode: one factorisation for each replacement.
    work = size * (1 + 2 * _REPLACEMENTS) * target.model.flip_steps(size)
    most = int(_MOST_WORK / work)
    leading, swapped = modes, np.zeros_like(modes[:0])
    for _ in range(_ROUNDS):
        fresh = leading[~(leading[:, None] == swapped).all(axis=2).any(axis=1)][: most - len(swapped)]
        if not len(fresh):
            break
        swapped = np.concatenate([swapped, fresh])
        swaps = [mask for mode in fresh for mask in _best_swaps(target, mode)]
        leading = _apart(target, np.unique(np.array([*leading, *swaps]), axis=0))
    return leading


def _best_swaps(target: Target, mode: Mask) -> Iterator[Mask]:
    """For each member of the mode (p,) the best few subsets that have another feature in its place, or two."""
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
    """Those of masks (S, p), best first, that the laws around the better ones do not reach."""
    value = target.log_joint(masks)
    order = np.argsort(-value, kind="stable")
    order = order[value[order] >= value.max() - _WITHIN_NATS]
    masks, value = masks[order], value[order]
    kept = np.zeros(len(masks), dtype=bool)
    reached = np.full(len(masks), -np.inf)
    for s in range(len(masks)):
        if reached[s] < value[s] + np.log(MISSED_SHARE):
            kept[s] = True
            log_law = around(target, masks[s]).log_prob(masks)
            reached = np.maximum(reached, value[s] - log_law[s] + log_law)
        if kept.sum() == _MOST_PEAKS:
            break
    return masks[kept]
