"""Moves of one chain over subsets, each of which leaves π_β(z) ∝ p(z)·Λ(z)^β unchanged.

A subset is decidable or not by `subset_log_ratio`: a move to one that is not is refused, and a move
whose own, faster path cannot score the present subset stays. Both keep detailed balance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .active_set import add_column, flip_scores, load, remove_column
from .cholesky import subset_log_ratio
from .compiled import ZERO, copy_into, kernel
from .elementary import exp_shifted
from .subset_tree import score_block


@kernel
def block_terms(odds, by_size, sums):
    """sums (2**b,) = Σ of odds (b,) over the members of each subset, plus by_size[number of
    members] (b+1,)."""
    b = odds.size
    sizes = np.zeros(1 << b, np.int64)
    sums[0] = 0.0
    for i in range(b):
        half = 1 << i
        for s in range(half):
            sums[half + s] = sums[s] + odds[i]
            sizes[half + s] = sizes[s] + 1
    for s in range(1 << b):
        sums[s] += by_size[sizes[s]]


@kernel
def normalised(log_weights, weights):
    """weights = exp(log_weights), scaled to sum to 1; entries that are NaN get 0. False when
    nothing is left."""
    highest = -np.inf
    for s in range(log_weights.size):
        if log_weights[s] > highest:
            highest = log_weights[s]
        elif log_weights[s] != log_weights[s]:
            log_weights[s] = -np.inf
    if highest == -np.inf:
        return False
    exp_shifted(log_weights, highest, weights)
    weights /= weights.sum()
    return True


@kernel
def draw_index(weights, u):
    """Index with probability ∝ weights[index], u uniform up to their sum; never one of weight 0."""
    below = 0.0
    last = 0
    for s in range(weights.size):
        if weights[s] > 0.0:
            last = s
            below += weights[s]
            if u < below:
                return s
    return last


@kernel
def block_inclusion(weights, b, out):
    """out[i] = sum of weights (2**b,) over the subsets with bit i. Overwrites weights."""
    half = weights.size
    for i in range(b - 1, -1, -1):
        half >>= 1
        total = 0.0
        for s in range(half):
            total += weights[half + s]
            weights[s] += weights[half + s]
        out[i] = total


MOST_ACTIVE = 0.9


class SubsetPrior(NamedTuple):
    """log p(z) = Σ log_odds·z + by_size[|z|] + constant over columns (d,); only columns in `free`
    may change."""

    log_odds: np.ndarray
    by_size: np.ndarray
    free: np.ndarray
    constant: float


class BlockRule(NamedTuple):
    """How `choose_block` chooses. chance (d,): of a column outside the subset (0 where it is not
    free), and with `follows` False of every column; active: expected number from the subset;
    largest: a move of more is skipped."""

    chance: np.ndarray
    active: float
    largest: int
    follows: bool


class Best(NamedTuple):
    """The best subset met anywhere. included (d,) bool; log_posterior (1,): log p(z)Λ(z)."""

    included: np.ndarray
    log_posterior: np.ndarray


@kernel
def members_of(included):
    """Columns where `included` (d,) holds, ascending."""
    members = np.empty(included.size, np.int64)
    k = 0
    for j in range(included.size):
        if included[j]:
            members[k] = j
            k += 1
    return members[:k]


@kernel
def log_ratio_of(scoring, included):
    """log Λ of the columns where `included` (d,) holds; NaN where undecidable."""
    return subset_log_ratio(scoring, members_of(included))


@kernel
def log_prior_of(prior, included):
    total = prior.constant
    for j in range(included.size):
        if included[j]:
            total += prior.log_odds[j]
    return total + prior.by_size[included.sum()]


@kernel
def note_best(prior, included, log_ratio, best):
    value = log_prior_of(prior, included) + log_ratio
    if value > best.log_posterior[0]:
        best.log_posterior[0] = value
        copy_into(best.included, included)


@kernel
def flip_chances(prior, beta, included, size, change, chance):
    """chance[j] = π_β(flipped) / (π_β(flipped) + π_β(now)), the single-site conditional; returns
    their sum."""
    up = prior.by_size[size + 1] - prior.by_size[size] if size + 1 < prior.by_size.size else -np.inf
    down = prior.by_size[size - 1] - prior.by_size[size] if size > 0 else -np.inf
    total = 0.0
    for j in range(included.size):
        chance[j] = 0.0
        if prior.free[j] and change[j] == change[j]:
            gain = beta * change[j] + (
                down - prior.log_odds[j] if included[j] else up + prior.log_odds[j]
            )
            chance[j] = 1.0 / (1.0 + np.exp(-gain)) if gain > -700.0 else 0.0
            total += chance[j]
    return total


@kernel
def _toggle(scoring, state, included, column):
    """Flip a column in the active set and in `included`; when that is undecidable, reload and
    return False."""
    if included[column]:
        remove_column(scoring, state, column)
        included[column] = False
        return True
    if add_column(scoring, state, column):
        included[column] = True
        return True
    load(scoring, state, included)
    return False


@kernel
def _toggle_back(scoring, state, included, column):
    if not _toggle(scoring, state, included, column):
        included[column] = True
        load(scoring, state, included)


@kernel
def informed_flips(
    scoring, prior, beta, n, included, log_ratio, state, change, chance, inclusion, best, rng
):
    """n proposals of one flip with probability ∝ its single-site conditional (Zanella 2020,
    Barker's weight), accepted with min(1, Z(z)/Z(z')), Z the sum of all. inclusion (d,): adds P(z_j
    = 1 | the others), n + 1 times. Returns log Λ; change, chance (d,): of the last subset."""
    d = included.size
    other_change = np.empty(d)
    other_chance = np.empty(d)
    size = included.sum()
    flip_scores(scoring, state, change)
    total = flip_chances(prior, beta, included, size, change, chance)
    for step in range(n + 1):
        for j in range(d):
            inclusion[j] += 1.0 - chance[j] if included[j] else chance[j]
        if step == n or total <= 0.0:
            continue
        column = draw_index(chance, rng.random() * total)
        u = rng.random()
        if not _toggle(scoring, state, included, column):
            continue
        new_size = size + 1 if included[column] else size - 1
        flip_scores(scoring, state, other_change)
        new_total = flip_chances(prior, beta, included, new_size, other_change, other_chance)
        # The way back must exist in the proposal's own arithmetic too.
        accepted = other_change[column] == other_change[column] and u * new_total < total
        proposed = log_ratio_of(scoring, included) if accepted else np.nan
        if proposed == proposed:
            size = new_size
            total = new_total
            log_ratio = proposed
            copy_into(change, other_change)
            copy_into(chance, other_chance)
            note_best(prior, included, log_ratio, best)
        else:
            _toggle_back(scoring, state, included, column)
    return log_ratio


@kernel
def place_weights(scoring, prior, beta, rest, state, log_weights):
    """log_weights[j] = log π_β(rest + j) up to a constant, for free columns j outside `rest` (d,),
    to which `state` belongs; -inf elsewhere and where undecidable."""
    change = np.empty(rest.size)
    flip_scores(scoring, state, change)
    for j in range(rest.size):
        log_weights[j] = -np.inf
        if prior.free[j] and not rest[j] and change[j] == change[j]:
            log_weights[j] = beta * change[j] + prior.log_odds[j]


@kernel
def exchange(scoring, prior, beta, included, log_ratio, state, best, rng):
    """Take one free member out, uniformly, and draw what fills its place from the exact conditional
    over all columns: a Gibbs step, as every candidate has the same number of members. Returns log
    Λ."""
    members = members_of(included & prior.free)
    if members.size == 0:
        return log_ratio
    out = members[rng.integers(0, members.size)]
    u = rng.random()
    _toggle(scoring, state, included, out)
    log_weights = np.empty(included.size)
    weights = np.empty(included.size)
    place_weights(scoring, prior, beta, included, state, log_weights)
    chosen = out
    if log_weights[out] > -np.inf and normalised(log_weights, weights):
        chosen = draw_index(weights, u)
    if chosen != out:
        included[chosen] = True
        proposed = log_ratio_of(scoring, included)
        included[chosen] = False
        if proposed == proposed and _toggle(scoring, state, included, chosen):
            note_best(prior, included, proposed, best)
            return proposed
    _toggle_back(scoring, state, included, out)
    return log_ratio


@kernel
def active_chance(expected, size):
    """Probability that each of `size` free members enters a block."""
    return min(MOST_ACTIVE, expected / max(size, 1))


@kernel
def choose_block(prior, rule, included, rng):
    """Columns of a block, ascending; one more than `rule.largest` stands for "too many". All enter
    independently: free members, k of them, with probability a(k) = min(0.9, rule.active / k) where
    the rule follows z, the others with rule.chance[j]."""
    q = active_chance(rule.active, (included & prior.free).sum())
    block = np.empty(rule.largest + 1, np.int64)
    b = 0
    for j in range(included.size):
        if prior.free[j] and rng.random() < (q if included[j] and rule.follows else rule.chance[j]):
            block[b] = j
            b += 1
            if b > rule.largest:
                break
    return block[:b]


@kernel
def write_block(included, block, code):
    for i in range(block.size):
        included[block[i]] = (code >> i) & 1 == 1


@kernel
def score_in_block(scoring, prior, included, block, log_ratios, log_prior):
    """Of every z that agrees with `included` outside the block: log Λ, NaN where undecidable, and
    log p(z) (2**b,). Returns the members outside."""
    outside = included.copy()
    write_block(outside, block, ZERO)
    fixed = members_of(outside)
    constant = prior.constant
    for j in fixed:
        constant += prior.log_odds[j]
    score_block(scoring, fixed, np.arange(block.size + 1), block, log_ratios)
    block_terms(
        prior.log_odds[block],
        constant + prior.by_size[fixed.size : fixed.size + block.size + 1],
        log_prior,
    )
    return fixed


@kernel
def best_of(log_ratios, log_prior):
    """The largest sum, and where it is; -inf and -1 where none is decidable"""
    highest = -np.inf
    top = -1
    for s in range(log_ratios.size):
        if log_ratios[s] + log_prior[s] > highest:
            highest = log_ratios[s] + log_prior[s]
            top = s
    return highest, top


@kernel
def block_log_weights(scoring, prior, rule, beta, included, block, tilted, log_ratios, log_prior):
    """(2**b,) log of π_β(z)·P(block | z), up to a constant, for every z that agrees with `included`
    outside the block. With m free members outside and s inside, P(block | z) ∝ a(m+s)^s · (1 -
    a(m+s))^m · Π_{j in block, not z} chance_j. Drawing z from the product is a Gibbs step for the
    pair (z, block). `tilted` False leaves P(block | z) out, for blocks whose choice did not depend
    on z. log_ratios, log_prior (2**b,): filled as by `score_in_block`."""
    fixed = score_in_block(scoring, prior, included, block, log_ratios, log_prior)
    log_weights = np.zeros(log_prior.size)
    if tilted:
        n_outside = prior.free[fixed].sum()
        by_size = np.empty(block.size + 1)
        for s in range(by_size.size):
            q = active_chance(rule.active, n_outside + s)
            by_size[s] = s * np.log(q) + n_outside * np.log(1.0 - q)
        block_terms(-np.log(rule.chance[block]), by_size, log_weights)
    for s in range(log_weights.size):
        log_weights[s] += beta * log_ratios[s] + log_prior[s]
    return log_weights


@kernel
def block_move(
    scoring, prior, rule, beta, included, log_ratio, block, tilted, inclusion, count, best, rng
):
    """Draw all columns of the block jointly, given the others. Returns log Λ. inclusion, count
    (d,): add P(z_j = 1 | columns outside the block) and 1, unless `tilted`: then the plain average
    over blocks would be wrong."""
    b = block.size
    u = rng.random()
    if b == 0 or b > rule.largest:
        return log_ratio
    present = ZERO
    for i in range(b):
        if included[block[i]]:
            present |= 1 << i
    log_ratios = np.empty(1 << b)
    log_prior = np.empty(1 << b)
    weights = np.empty(1 << b)
    log_weights = block_log_weights(
        scoring, prior, rule, beta, included, block, tilted, log_ratios, log_prior
    )
    if log_ratios[present] != log_ratios[present] or not normalised(log_weights, weights):
        return log_ratio
    highest, top = best_of(log_ratios, log_prior)
    drawn = draw_index(weights, u)
    if highest > best.log_posterior[0]:
        write_block(included, block, top)
        value = log_ratio_of(scoring, included)
        if value == value:
            note_best(prior, included, value, best)
    write_block(included, block, drawn)
    proposed = log_ratio if drawn == present else log_ratio_of(scoring, included)
    if proposed != proposed:
        write_block(included, block, present)
        proposed = log_ratio
    if not tilted:
        shares = np.empty(b)
        block_inclusion(weights, b, shares)
        for i in range(b):
            inclusion[block[i]] += shares[i]
            count[block[i]] += 1.0
    return proposed


@kernel
def jump_acceptance(scoring, prior, beta, included, log_ratio, flipped, proposal):
    """Probability of flipping the columns `flipped` (d,) together, and log Λ of the `proposal`
    (d,), written here."""
    for j in range(proposal.size):
        proposal[j] = included[j] != flipped[j]
    if prior.by_size[proposal.sum()] == -np.inf:
        return 0.0, np.nan
    value = log_ratio_of(scoring, proposal)
    gain = (
        beta * (value - log_ratio) + log_prior_of(prior, proposal) - log_prior_of(prior, included)
    )
    return np.exp(min(0.0, gain)) if gain == gain else 0.0, value


@kernel
def jump(scoring, prior, beta, included, log_ratio, differences, best, rng):
    """Flip all columns of one row of `differences` (n, d), fixed beforehand and drawn uniformly:
    symmetric proposal."""
    if differences.shape[0] == 0:
        return log_ratio
    flipped = differences[rng.integers(0, differences.shape[0])]
    u = rng.random()
    proposal = np.empty(included.size, np.bool_)
    probability, value = jump_acceptance(
        scoring, prior, beta, included, log_ratio, flipped, proposal
    )
    if u >= probability:
        return log_ratio
    copy_into(included, proposal)
    note_best(prior, included, value, best)
    return value


@kernel
def swap_acceptance(beta, other_beta, log_ratio, other_log_ratio):
    """Probability of exchanging the subsets of two chains at inverse temperatures beta and
    other_beta."""
    return min(1.0, np.exp(min(0.0, (beta - other_beta) * (other_log_ratio - log_ratio))))


_ANY = 2


class Effort(NamedTuple):
    """Moves of each kind per chain and sweep; blocks: of the coldest chain, the others change one;
    `searching` lets blocks follow the flip scores (warm-up only); rounds: how often the coldest
    chain, from which alone the answer comes, makes them between swaps."""

    exchanges: int
    flips: int
    blocks: int
    jumps: int
    searching: bool
    rounds: int = 1


@kernel
def searching_block(prior, rule, beta, included, change, rng):
    """A block for finding modes: members, then others, then any. What it draws must be thrown away:
    it depends on z. The others are drawn in proportion to the weight of their flip where the rule
    follows the subset, else to the rule's own chances: columns that help only together have flips
    that all look bad."""
    d = included.size
    n_members = min((included & prior.free).sum(), max(int(rule.active), 1))
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
                if (
                    included[j] == member
                    and not chosen[j]
                    and keys[j] > (keys[top] if top >= 0 else -np.inf)
                ):
                    top = j
            if top >= 0:
                chosen[top] = True
    for _ in range(_ANY if n_others > _ANY else 0):
        j = rng.integers(0, d)
        if prior.free[j]:
            chosen[j] = True
    return members_of(chosen)


@kernel
def sweeps(
    scoring,
    prior,
    rules,
    jumps,
    effort,
    betas,
    included,
    log_ratios,
    state,
    sums,
    rejected,
    best,
    draws,
    trace,
    rng,
):
    """n sweeps of a ladder with ascending betas (t,), in place.

    rules: recipes for blocks; jumps (m, d): see `jump`; included (t, d), log_ratios (t,): the
    chains; sums (t, 3, d): add inclusion by flips, by blocks, and in how many blocks; rejected
    (t-1,): adds the probability that a swap is refused; draws (n, d): the coldest chain after each
    sweep; trace (n, t): log Λ of all chains. Moves of single columns, the dearer ones, visit all
    but the coldest chain every fourth sweep. Pairs alternate between even and odd (Okabe et al.
    2001); every swap is a Metropolis step on the product target.
    """
    t, d = included.shape
    change = np.empty(d)
    chance = np.empty(d)
    for step in range(draws.shape[0]):
        for i in range(t):
            chain = included[i]
            log_ratio = log_ratios[i]
            beta = betas[i]
            coldest = i == t - 1
            own = sums[i]
            for _ in range(effort.rounds if coldest else 1):
                singles = coldest or (step + i) % 4 == 0
                if singles and load(scoring, state, chain):
                    for _ in range(effort.exchanges):
                        log_ratio = exchange(
                            scoring, prior, beta, chain, log_ratio, state, best, rng
                        )
                    log_ratio = informed_flips(
                        scoring,
                        prior,
                        beta,
                        effort.flips,
                        chain,
                        log_ratio,
                        state,
                        change,
                        chance,
                        own[0],
                        best,
                        rng,
                    )
                elif singles:
                    for j in range(d):
                        own[0, j] += chain[j] * (effort.flips + 1)
                for _ in range(effort.blocks if coldest else 1):
                    rule = rules[rng.integers(0, len(rules))]
                    if effort.searching:
                        block = searching_block(prior, rule, beta, chain, change, rng)
                    else:
                        block = choose_block(prior, rule, chain, rng)
                    tilted = rule.follows and not effort.searching
                    log_ratio = block_move(
                        scoring,
                        prior,
                        rule,
                        beta,
                        chain,
                        log_ratio,
                        block,
                        tilted,
                        own[1],
                        own[2],
                        best,
                        rng,
                    )
                for _ in range(effort.jumps):
                    log_ratio = jump(scoring, prior, beta, chain, log_ratio, jumps, best, rng)
            log_ratios[i] = log_ratio
            note_best(prior, chain, log_ratio, best)
        for i in range(t - 1):
            accept = swap_acceptance(betas[i], betas[i + 1], log_ratios[i], log_ratios[i + 1])
            rejected[i] += 1.0 - accept
            if (step + i) % 2 == 0 and rng.random() < accept:
                log_ratios[i], log_ratios[i + 1] = log_ratios[i + 1], log_ratios[i]
                for j in range(d):
                    included[i, j], included[i + 1, j] = included[i + 1, j], included[i, j]
        copy_into(draws[step], included[t - 1])
        copy_into(trace[step], log_ratios)
