"""The predictive posterior where there are too many subsets to score them all: over the compatible ones that are found.

Several annealed searches follow a soft gate, each another one. What they visit is put to the real test, and what passes
is completed by the subsets around it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from scipy.special import logsumexp

from .._tools.arrays import Floats, Mask
from .._tools.parallel import ordered_map
from .._tools.progress import ProgressBar
from ..inference.base import RunOptions, described
from ..inference.target import Target
from ..posterior.judge import Judge
from ..posterior.posterior import Posterior, SubsetTable, table_order
from ..priors.bound import BoundPrior
from .predictive import PredictiveModel
from .soft_gate import Neighbours, SoftGate, neighbours_of

# A gate that costs little lets a search see where it is going, one that costs much keeps it where it may be.
_KAPPAS, _WIDTHS = (5.0, 20.0, 80.0), (0.0, 2.0)
_STEPS = 300
# At its hottest a search gives this many nats for the whole way from the start to where the slope leads at first.
_HOTTEST = 5.0
# Subsets that are this many nats less probable than the best do not matter.
_RELEVANT = 20.0
# How many of the known subsets are tested, how many subsets around those that passed, and around how many at a time.
_MOST_KNOWN, _MOST_AROUND, _AT_A_TIME = 256, 2048, 16
_MOST_LISTED, _MOST_PAIRED = 4096, 1000


def searched_posterior(
    target: Target, model: PredictiveModel, options: RunOptions, known: Mask | None = None
) -> Posterior | None:
    """None where no compatible subset was found."""
    started = time.perf_counter()
    gates = [_gate(model, width, kappa) for kappa, width in product(_KAPPAS, _WIDTHS)]
    runs = list(zip(gates, options.rng.spawn(len(gates)), strict=True))

    def work(run: tuple[SoftGate, np.random.Generator]) -> Mask:
        gate, rng = run
        return annealed(target, neighbours_of(Target(model.model, target.prior), gate), rng, _STEPS)

    visited = []
    with ProgressBar("searching compatible subsets", len(runs) + 1, options.progress) as bar:
        for masks in ordered_map(work, runs, options.n_jobs):
            visited.append(masks)
            bar.advance()
        examined = Examined(target, model)
        examined.add(np.concatenate([*visited, target.start[None]] + ([] if known is None else [known[:_MOST_KNOWN]])))
        n_visited = len(examined.masks)
        complete = examined.completed(neighbours_of(Target(model.model, target.prior), _gate(model, 0.0, 0.0)))
        bar.advance()
    if examined.best == -np.inf:
        return None
    return _posterior(target, model, examined, visited, n_visited, complete, started)


def _gate(model: PredictiveModel, width: float, kappa: float) -> SoftGate:
    return SoftGate.of(model.price, model.tolerance, model.n_rows, width, kappa)


def flipped_log_prior(prior: BoundPrior, mask: Mask) -> Floats:
    """(p,) log prior, less its constant, of the subset (p,) with each feature flipped; -inf where that is not open"""
    size, weights = int(mask.sum()), np.append(prior.log_size_weight, -np.inf)
    odds = prior.log_odds[mask].sum() + np.where(mask, -prior.log_odds, prior.log_odds)
    values = odds + np.where(mask, weights[max(size - 1, 0)], weights[size + 1])
    closed = prior.forced_in | prior.forced_out
    return np.where(closed, -np.inf, values)


def annealed(target: Target, neighbours: Neighbours, rng: np.random.Generator, n_steps: int) -> Mask:
    """(m, p) the distinct subsets that a search visits, in the order of their packed flags.

    Each step flips a feature, by the root of how probable the result is, then lets a member go and draws what takes
    its place. It starts from the forced features.
    """

    def values(mask: Mask) -> Floats:
        return neighbours.flipped(mask) + flipped_log_prior(target.prior, mask)

    mask = target.start
    first = values(mask)
    slope = np.abs(first[first > -np.inf]).max(initial=_HOTTEST)
    seen: set[bytes] = set()
    for beta in np.geomspace(_HOTTEST / slope, 1.0, n_steps):
        flips = values(mask)
        if flips.max(initial=-np.inf) == -np.inf:
            mask = target.start
            continue
        mask = _flip(mask, _drawn(0.5 * beta * flips, rng))
        seen.add(np.packbits(mask).tobytes())
        members = target.free[mask[target.free]]
        if len(members):
            without = _flip(mask, int(rng.choice(members)))
            entering = np.where(without, -np.inf, values(without))
            if entering.max() > -np.inf:
                mask = _flip(without, _drawn(beta * entering, rng))
                seen.add(np.packbits(mask).tobytes())
    packed = np.frombuffer(b"".join(sorted(seen)), np.uint8).reshape(len(seen), -(-target.n_features // 8))
    return np.unpackbits(packed, axis=1, count=target.n_features).astype(bool)


def _flip(mask: Mask, feature: int) -> Mask:
    changed = mask.copy()
    changed[feature] ^= True
    return changed


def _drawn(log_weights: Floats, rng: np.random.Generator) -> int:
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


@dataclass
class Examined:
    """Subsets that were put to the test.

    masks (m, p): all in the prior's support; log_joint (m,): log of p(z)·exp(−½ cost), -inf where not compatible.
    """

    target: Target
    model: PredictiveModel
    masks: Mask = field(init=False)
    log_joint: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.masks, self.log_joint = np.zeros((0, self.target.n_features), dtype=bool), np.zeros(0)
        self._keys: set[bytes] = set()
        self._surrounded: set[int] = set()

    @property
    def best(self) -> float:
        return float(self.log_joint.max(initial=-np.inf))

    def add(self, masks: Mask) -> None:
        """Test those of masks (n, p) that are new."""
        packed = np.packbits(masks, axis=1)
        _, first = np.unique(packed, axis=0, return_index=True)
        inside = self.target.prior.log_prob(masks) > -np.inf
        fresh = [row for row in np.sort(first) if inside[row] and packed[row].tobytes() not in self._keys]
        if fresh:
            values = self.model.log_ratio_many(masks[fresh]) + self.target.prior.log_prob(masks[fresh])
            self.masks, self.log_joint = np.vstack([self.masks, masks[fresh]]), np.append(self.log_joint, values)
            self._keys.update(packed[row].tobytes() for row in fresh)

    def completed(self, open_gate: Neighbours) -> bool:
        """Test what lies one flip from relevant subsets, those included that are found so; False where that are too
        many, when the most probable ones come first."""
        left = _MOST_AROUND
        while True:
            centres = self._next_centres()
            if not len(centres):
                return True
            around, values = self._around(centres, open_gate)
            order = np.argsort(-values, kind="stable")[:left]
            self.add(around[order])
            left -= len(order)
            if left == 0:
                return False

    def _next_centres(self) -> list[int]:
        relevant = np.flatnonzero(self.log_joint > self.best - _RELEVANT)
        open_ones = [row for row in relevant.tolist() if row not in self._surrounded]
        chosen = sorted(open_ones, key=lambda row: -self.log_joint[row])[:_AT_A_TIME]
        self._surrounded.update(chosen)
        return chosen

    def _around(self, centres: list[int], open_gate: Neighbours) -> tuple[Mask, Floats]:
        """Untested subsets (n, p) one flip from the centres that would be relevant if they passed, and their values."""
        prior, found = self.target.prior, {}
        for row in centres:
            mask = self.masks[row]
            values = open_gate.flipped(mask) + flipped_log_prior(prior, mask) - prior.log_normalizer
            for feature in np.flatnonzero(values > self.best - _RELEVANT).tolist():
                flipped = _flip(mask, feature)
                key = np.packbits(flipped).tobytes()
                if key not in self._keys:
                    found[key] = flipped, float(values[feature])
        masks = np.array([mask for mask, _ in found.values()], dtype=bool).reshape(len(found), self.target.n_features)
        return masks, np.array([value for _, value in found.values()])


@dataclass(frozen=True, eq=False)
class FoundSource:
    """Answers relative to the compatible subsets that were found.

    masks (m, p): these, most probable first; log_probabilities (m,).
    """

    target: Target
    model: PredictiveModel
    log_evidence: float
    masks: Mask
    log_probabilities: Floats

    def log_probability(self, masks: Mask) -> Floats:
        log_joint = self.model.log_ratio_many(masks) + self.target.prior.log_prob(masks)
        return np.minimum(log_joint - self.log_evidence, 0.0)

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        weights = np.exp(self.log_probabilities)
        return self.masks[rng.choice(len(weights), size=n, p=weights / weights.sum())]

    def leading(self, mass: float) -> SubsetTable:
        needed = int(np.searchsorted(np.cumsum(np.exp(self.log_probabilities)), mass)) + 1
        masks = self.masks[:needed]
        return masks, self.model.model.log_ratio_many(masks), self.log_probabilities[:needed]


def _posterior(
    target: Target,
    model: PredictiveModel,
    examined: Examined,
    visited: list[Mask],
    n_visited: int,
    complete: bool,
    started: float,
) -> Posterior:
    compatible = np.flatnonzero(examined.log_joint > -np.inf)
    order = compatible[table_order(examined.masks[compatible], examined.log_joint[compatible])]
    masks, log_joint = examined.masks[order], examined.log_joint[order]
    log_evidence = float(logsumexp(log_joint))
    log_probabilities = log_joint - log_evidence
    weights = np.exp(log_probabilities)
    listed = slice(_MOST_LISTED)
    pairwise = None
    if target.n_features <= _MOST_PAIRED:
        pairwise = (masks * weights[:, None]).T @ masks.astype(float)
    n_found = sum(bool((run == masks[0]).all(axis=1).any()) for run in visited)
    return Posterior(
        **described(target) | {"judge": Judge(model.model, model.tolerance)},
        inclusion=weights @ masks,
        pairwise=pairwise,
        masks=masks[listed],
        log_ratios=model.model.log_ratio_many(masks[listed]),
        log_probabilities=log_probabilities[listed],
        kind="predictive",
        log_evidence=log_evidence,
        entropy=max(0.0, -float(weights @ log_probabilities)),
        engine=f"annealed search ({len(visited)} searches)",
        notes=_notes(len(examined.masks), n_visited, len(masks), len(visited), n_found, complete),
        diagnostics={
            "seconds": time.perf_counter() - started,
            "subsets_visited": n_visited,
            "subsets_tested": len(examined.masks),
            "subsets_compatible": len(masks),
            "searches": len(visited),
            "searches_that_found_the_best": n_found,
            "complete": complete,
        },
        source=FoundSource(target, model, log_evidence, masks, log_probabilities),
    )


def _notes(
    n_tested: int, n_visited: int, n_compatible: int, n_searches: int, n_found: int, complete: bool
) -> tuple[str, ...]:
    around = "all that matter around those that passed" if complete else "the best around those that passed"
    notes = [
        f"probabilities are over the {n_compatible:,} compatible subsets that were found, of {n_tested:,} tested: "
        f"{n_visited:,} that were visited, and {around}."
    ]
    if n_found < 2:
        notes.append(f"{n_found} of {n_searches} searches came to the best subset: a better one may be hidden.")
    return tuple(notes)
