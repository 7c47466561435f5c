"""Columns that help only together: where searches by single flips are blind, and what is done about it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..._tools.arrays import Floats, Integers, Mask
from ..._tools.parallel import ordered_map
from ...kernels.active_set import active_set
from ...kernels.cliques import (
    add_synergies,
    cliques,
    scan_cliques,
    undecidable_cliques,
)
from ...kernels.gram_rows import GramRows
from ...kernels.group_rows import without_values
from ...kernels.pursuit import FORWARD
from .climbing import climb
from .regression_paths import Groups, groupings, regression_path
from .replicas import CompiledTarget

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
