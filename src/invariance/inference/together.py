"""Columns that help only together: where searches by single flips are blind, and what is done about it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..kernels.active_set import active_set
from ..kernels.climbing import climb
from ..kernels.cliques import best_in_block, cliques, joined_block, scan_cliques, synergy
from ..kernels.pursuit import FORWARD
from .regression_paths import groupings, regression_path
from .replicas import Target

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# A column and at most this many partners.
_PARTNERS = 5
# Squared correlation from which on a partner counts as nearly a copy.
_KIN = 0.6
# So many columns follow a clique in a regression of the outcome.
_FOLLOWING = 6
# All subsets of a clique and of the subset it joins are scored, up to this many columns.
_JOINED = 11
# The cliques in which a search looks for a needle.
_MOST_JOINT = 6
# Steepest ascent from a clique ends well before.
_MOST_STEPS = 200
# Synergies of unrelated columns, times the number of rows, stay below this times the logarithm of their number.
_CHANCE = 4.0


@dataclass(frozen=True, eq=False)
class Cliques:
    """Each column with its partners: members (s, k), of which the first sizes (s,) count; synergies (s,), times the
    number of rows, of the first `joint` (s,) of them."""

    members: NDArray[np.int64]
    sizes: NDArray[np.int64]
    synergies: Floats
    joint: NDArray[np.int64]

    @classmethod
    def of(cls, target: Target, starts: NDArray[np.int64]) -> Self:
        """Of the columns in `starts`, by second moments within environments and over the pool, with and without those
        that are nearly copies."""
        scoring, parts = target.scoring, []
        for groups, closest in product(groupings(target), (1.0, _KIN)):
            members = np.zeros((len(starts), 1 + min(_PARTNERS, target.n_free - 1)), np.int64)
            sizes, synergies = np.zeros(len(starts), np.int64), np.zeros(len(starts))
            joint = np.zeros(len(starts), np.int64)
            cliques(scoring, *groups, target.prior.free, closest, starts, members, sizes)
            for s, clique in enumerate(members):
                synergies[s], joint[s] = synergy(scoring, *groups, clique[: sizes[s]])
            parts.append((members, sizes, target.n_rows * synergies, joint))
        return cls(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def synergic(self, n_columns: int) -> list[NDArray[np.int64]]:
        """The cliques that explain the outcome together and not one by one, beyond chance, the strongest first."""
        found: list[NDArray[np.int64]] = []
        known: set[frozenset[int]] = set()
        for s in np.argsort(-self.synergies, kind="stable"):
            if self.synergies[s] <= _CHANCE * np.log(n_columns) or len(found) == _MOST_JOINT:
                break
            clique = self.members[s, : self.joint[s]]
            if frozenset(clique.tolist()) not in known:
                known.add(frozenset(clique.tolist()))
                found.append(clique)
        return found

    def joint_columns(self, target: Target) -> Mask:
        """(d,) the columns of the synergic cliques, and those that a regression of the outcome adds to each: the
        originals of noisy copies, what else it depends on."""
        chosen = np.zeros(target.n_columns, bool)
        for clique in self.synergic(target.n_columns):
            for groups in groupings(target):
                chosen |= regression_path(target, groups, FORWARD, len(clique) + _FOLLOWING, clique)
        return chosen

    def all_synergic(self, n_columns: int) -> NDArray[np.int64]:
        """The columns of all synergic cliques that share none with a stronger one."""
        apart: list[int] = []
        for clique in self.synergic(n_columns):
            if not set(apart) & set(clique.tolist()):
                apart += clique.tolist()
        return np.array(apart, dtype=np.int64)

    def climbed(self, target: Target) -> list[tuple[Mask, float]]:
        """The subsets (d,) to which steepest ascent leads from each synergic clique and from all of them together, and
        their log p(z)Λ(z)."""
        ends = []
        state = active_set(len(target.scoring.weights), target.n_columns, target.capacity + 1)
        for clique in (*self.synergic(target.n_columns), self.all_synergic(target.n_columns)):
            if not len(clique):
                continue
            included = target.start.copy()
            included[clique[: target.capacity - int(target.start.sum())]] = True
            climb(target.scoring, target.prior, included, state, _MOST_STEPS)
            ends.append((included, target.value_of(included)))
        return ends

    def best_step(self, target: Target, included: Mask) -> tuple[Mask, float]:
        """The best subset (d,), and its log p(z)Λ(z), when any one clique may change together with `included` (d,)."""
        if not len(self.sizes):
            return included, -np.inf
        values = np.empty(len(self.sizes))
        scan_cliques(target.scoring, target.prior, included, self.members, self.sizes, _JOINED, values)
        top = int(np.argmax(values))
        found = np.empty_like(included)
        block = joined_block(target.prior, included, self.members[top, : self.sizes[top]], _JOINED)
        best_in_block(target.scoring, target.prior, included, block, found)
        return found, target.value_of(found)
