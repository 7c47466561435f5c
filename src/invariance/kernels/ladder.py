"""Sweeps of a whole ladder of chains: the moves at every inverse temperature, then swaps between neighbours."""

from typing import NamedTuple

import numpy as np

from .active_set import load
from .chain_moves import (
    block_move,
    choose_block,
    exchange,
    informed_flips,
    jump,
    members_of,
    n_free_members,
    note_best,
    swap_acceptance,
)
from .compiled import kernel

_ANY = 2


class Effort(NamedTuple):
    """Moves of each kind per chain and sweep; `searching` lets blocks follow the flip scores (warm-up only).

    blocks: of the coldest chain; the others, whose subsets nobody reads, change one block.
    """

    exchanges: int
    flips: int
    blocks: int
    jumps: int
    searching: bool


@kernel(inline="always")
def searching_block(prior, rule, beta, included, change, rng):
    """A block for finding modes, not for sampling them: members, then others, then any.

    The others are drawn in proportion to the weight of their flip where the rule follows the subset, and else to the
    rule's own chances: several columns that help only together have flips that all look bad.
    Depends on z in a way that no correction undoes: what it draws must be thrown away.
    """
    d = included.size
    n_members = min(n_free_members(prior, included), max(int(rule.active), 1))
    n_others = rule.largest - n_members
    # Gumbel noise makes the largest keys a draw without replacement, in proportion to the weights.
    keys = np.empty(d)
    for j in range(d):
        keys[j] = -np.inf
        noise = -np.log(-np.log(rng.random()))
        if prior.free[j] and included[j]:
            keys[j] = noise
        elif prior.free[j] and not rule.follows:
            keys[j] = np.log(rule.chance[j]) + noise
        elif prior.free[j] and change[j] == change[j]:
            keys[j] = beta * change[j] + prior.log_odds[j] + noise
    chosen = np.zeros(d, np.bool_)
    for member in (True, False):
        for _ in range(n_members if member else n_others - _ANY):
            top = -1
            for j in range(d):
                if included[j] == member and not chosen[j] and keys[j] > (keys[top] if top >= 0 else -np.inf):
                    top = j
            if top >= 0:
                chosen[top] = True
    for _ in range(_ANY if n_others > _ANY else 0):
        j = rng.integers(0, d)
        if prior.free[j]:
            chosen[j] = True
    return members_of(chosen)


@kernel(inline="always")
def visit(
    scoring,
    prior,
    rules,
    differences,
    effort,
    beta,
    coldest,
    singles,
    included,
    log_ratio,
    state,
    change,
    chance,
    sums,
    best,
    rng,
):
    """All moves of one chain, `coldest` or not, in one sweep, those of single columns with `singles`. Returns log Λ.

    rules: recipes for blocks, (chances (m, d), active (m,), largest); sums (3, d): inclusion by flips, by
    blocks, and in how many blocks.
    """
    if singles and load(scoring, state, included):
        for _ in range(effort.exchanges):
            log_ratio = exchange(scoring, prior, beta, included, log_ratio, state, best, rng)
        log_ratio = informed_flips(
            scoring, prior, beta, effort.flips, included, log_ratio, state, change, chance, sums[0], best, rng
        )
    elif singles:
        for j in range(included.size):
            sums[0, j] += included[j] * (effort.flips + 1)
    for _ in range(effort.blocks if coldest else 1):
        rule = rules[rng.integers(0, len(rules))]
        if effort.searching:
            block = searching_block(prior, rule, beta, included, change, rng)
        else:
            block = choose_block(prior, rule, included, rng)
        tilted = rule.follows and not effort.searching
        log_ratio = block_move(
            scoring, prior, rule, beta, included, log_ratio, block, tilted, sums[1], sums[2], best, rng
        )
    for _ in range(effort.jumps):
        log_ratio = jump(scoring, prior, beta, included, log_ratio, differences, best, rng)
    return log_ratio


@kernel
def sweeps(
    scoring,
    prior,
    rules,
    differences,
    effort,
    betas,
    included,
    log_ratios,
    n,
    state,
    sums,
    rejected,
    best,
    draws,
    trace,
    rng,
):
    """n sweeps of a ladder with ascending betas (t,), in place.

    included (t, d), log_ratios (t,): the chains. sums (t, 3, d): running sums, see `visit`. rejected (t-1,): adds the
    probability that a swap is refused, for every pair in every sweep. draws (n, d): the coldest chain after each
    sweep; trace (n, t): log Λ of all chains.
    Moves of single columns, the dearer ones, visit all but the coldest chain every other sweep.
    Pairs alternate between even and odd (Okabe et al. 2001); every swap is a Metropolis step on the product target.
    """
    t, d = included.shape
    change, chance = np.empty(d), np.empty(d)
    for step in range(n):
        for i in range(t):
            log_ratios[i] = visit(
                scoring,
                prior,
                rules,
                differences,
                effort,
                betas[i],
                i == t - 1,
                i == t - 1 or (step + i) % 2 == 0,
                included[i],
                log_ratios[i],
                state,
                change,
                chance,
                sums[i],
                best,
                rng,
            )
            note_best(prior, included[i], log_ratios[i], best)
        for i in range(t - 1):
            accept = swap_acceptance(betas[i], betas[i + 1], log_ratios[i], log_ratios[i + 1])
            rejected[i] += 1.0 - accept
            if (step + i) % 2 == 0 and rng.random() < accept:
                log_ratios[i], log_ratios[i + 1] = log_ratios[i + 1], log_ratios[i]
                for j in range(d):
                    included[i, j], included[i + 1, j] = included[i + 1, j], included[i, j]
        for j in range(d):
            draws[step, j] = included[t - 1, j]
        for i in range(t):
            trace[step, i] = log_ratios[i]
