"""Parallel tempering over subsets: samples the posterior where there are too many subsets to enumerate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..._tools.arrays import Floats, Mask
from ..._tools.progress import ProgressBar
from ...exceptions import SettingError
from ...posterior.posterior import Posterior
from ..base import RunOptions, Target, judged
from ..modes import leading_modes, most_searches
from .crews import AnyCrew, crew_of, n_proposed
from .ladders import Ladder, Proposals, Round, Space, block_rules
from .posterior import Agreement, Sampled, Visited, agreement_of, evidence_of, tempering_posterior

_FIRST_TEMPERATURES = 10
_FEWEST_TEMPERATURES, _MOST_TEMPERATURES = 4, 10
# log Λ is about proportional to the number of rows: this many rows' worth is where chains move freely.
_HOTTEST_ROWS = 30.0
_TUNING_SWEEPS = (20, 20, 20, 20)
_ROUND = 25
_FEWEST_ROUNDS = 6
_MOST_SWEEPS, _FEWEST_SWEEPS = 3000, 200
# What all sweeps may cost, in steps of a linear Gaussian's dense walk: minutes.
_AFFORDABLE = 5e10


@dataclass(frozen=True)
class Tempering:
    """Posterior by parallel tempering with block Gibbs moves.

    Each replica is a ladder of chains, one at each inverse temperature β, whose target is π_β(z) ∝ p(z)·Λ(z)^β.
    During warm-up an annealed search looks for modes, and the ladder, the block choice and a list of mode-to-mode
    jumps are tuned; then all of that is frozen and samples are kept. Every kept move leaves π_β unchanged:

    - exchange: a member leaves, uniformly chosen, and what takes its place is drawn from the exact conditional over
      all features;
    - informed flips: Metropolis-Hastings with proposals ∝ single-site conditionals (Zanella 2020);
    - blocks: features enter a block independently, all 2^b subsets of the block are scored and one is drawn. In one
      recipe the chances do not depend on z, and the draw is from π_β given the rest. In the other, members of z have
      another chance than the rest, and the draw has weight π_β(z)·P(block | z): a Gibbs step for the pair (z, block),
      in which z has the law π_β, so this block may follow z without a correction afterwards;
    - jumps: flip all features in which two known modes differ (a symmetric proposal, the modes found in warm-up);
    - swaps between neighbouring temperatures.

    Inclusion probabilities are Rao-Blackwellised: averages of P(z_j = 1 | others), from the flips' conditionals and,
    with more weight, from those of the blocks that do not follow z. Sampling goes on until the replicas agree or
    `steps` is reached. Models without a compiled scorer, and features of several columns, are sampled by plainer moves
    of the same kinds: Metropolis flips of every feature in turn, uniform exchanges, small blocks that do not follow z.

    chains : independent replicas, spread over threads; the result does not depend on the number of threads
    temperatures : number of inverse temperatures, the values themselves (ascending to 1), or "auto"
    steps : most sweeps kept per replica; "auto" is 3,000, or where subsets take long to score, as regressions of many
        rows do, as many as take some minutes, at least 200
    block_size : most features in a block, all of whose subsets are scored; "auto" is 12 (10 beyond 20 environments);
        without a compiled scorer "auto" is 4, and more than 8 count as 8
    searches : annealed searches per replica; up to four times as many until several come near the best subset
    precision : target for the largest Monte-Carlo standard error of an inclusion probability
    agreement : target for the largest R̂ of an inclusion probability
    keep : how many leading subsets the result lists
    rescore : how many of them are scored again from the rows
    """

    chains: int = 4
    temperatures: int | Sequence[float] | Literal["auto"] = "auto"
    steps: int | Literal["auto"] = "auto"
    block_size: int | Literal["auto"] = "auto"
    searches: int = 4
    precision: float = 0.01
    agreement: float = 1.05
    keep: int = 4096
    rescore: int = 20

    def __post_init__(self) -> None:
        for name, least in (("chains", 1), ("searches", 1), ("keep", 1), ("rescore", 0)):
            _check_whole(name, getattr(self, name), least)
        if self.steps != "auto":
            _check_whole("steps", self.steps, 1)
        if self.block_size != "auto":
            _check_whole("block_size", self.block_size, 1)
            if self.block_size > 20:
                raise SettingError(f"block_size={self.block_size!r}: scoring 2^{self.block_size} subsets is too many.")
        if not self.precision > 0 or not self.agreement > 1:
            raise SettingError("precision must be positive and agreement above 1.")
        self.first_betas(1000)

    def run(self, target: Target, options: RunOptions) -> Posterior:
        started = time.perf_counter()
        most_sweeps = self.most_sweeps(target)
        n_rounds = max(1, -(-most_sweeps // _ROUND))
        stages = most_searches(self.searches) + len(_TUNING_SWEEPS)
        with ProgressBar("sampling subsets", (stages + n_rounds) * self.chains, options.progress) as bar:
            crew = crew_of(target, self.chains, options, bar)
            proposals = self._warm_up(crew)
            found_by = [float(replica.best.log_posterior[0]) for replica in crew.replicas]
            rounds, verdict = self._sample(crew, proposals, n_rounds, min(_ROUND, most_sweeps))
            visited = Visited.of(crew.target, rounds)
            evidence = evidence_of(target, crew, proposals, rounds, visited)
        sampled = Sampled(crew, proposals, rounds, visited, evidence, verdict, np.array(found_by))
        posterior = tempering_posterior(target, sampled, self, started)
        return judged(target, posterior)

    def most_sweeps(self, target: Target) -> int:
        if self.steps != "auto":
            return self.steps
        chains = self.chains * len(self.first_betas(target.model.n_rows))
        cost = chains * n_proposed(len(target.free)) * target.model.steps_per_subset
        return int(np.clip(_AFFORDABLE / max(cost, 1.0), _FEWEST_SWEEPS, _MOST_SWEEPS))

    def used_block_size(self, target: Space) -> int:
        usual, most = target.block_sizes
        size = usual if self.block_size == "auto" else min(self.block_size, most)
        return max(1, min(size, target.n_free))

    def first_betas(self, n_rows: int) -> Floats:
        if self.temperatures == "auto" or isinstance(self.temperatures, int):
            number = _FIRST_TEMPERATURES if self.temperatures == "auto" else self.temperatures
            _check_whole("temperatures", number, 1)
            return np.geomspace(min(0.5, _HOTTEST_ROWS / n_rows), 1.0, number) if number > 1 else np.ones(1)
        betas = np.array(self.temperatures, dtype=float)
        if betas.ndim != 1 or not len(betas) or (np.diff(betas) <= 0).any() or betas[0] <= 0 or betas[-1] != 1.0:
            raise SettingError("temperatures: inverse temperatures must ascend from above 0 to 1.")
        return betas

    def _warm_up(self, crew: AnyCrew) -> Proposals:
        """Search, gather, tune. Nothing that is drawn here is kept."""
        target, size = crew.target, self.used_block_size(crew.target)
        betas = self.first_betas(target.n_rows)
        crew.searched = crew.search(betas, size, self.searches)
        interest, doubt = crew.searched.interest, np.zeros(target.n_columns)
        _redistribute(target, crew.replicas, betas, crew.searched.states, crew.modes())
        for n in _TUNING_SWEEPS:
            proposals = Proposals(betas, block_rules(target, interest, size, doubt), differences(crew.modes()[0]))
            rounds = crew.advance(proposals, n)
            interest = 0.5 * interest + 0.5 * np.mean([found.interest for found in rounds], axis=0)
            coldest = np.clip(np.mean([found.inclusion for found in rounds], axis=0), 0.0, 1.0)
            doubt = 0.5 * doubt + coldest * (1.0 - coldest)
            if isinstance(self.temperatures, str | int):
                rejected = np.mean([found.rejected for found in rounds], axis=0)
                betas = retuned(betas, rejected, self.temperatures == "auto")
                for replica in crew.replicas:
                    nearest = np.abs(np.log(proposals.betas)[:, None] - np.log(betas)).argmin(axis=0)
                    replica.place(replica.included[nearest], replica.log_ratios[nearest])
        return Proposals(betas, block_rules(target, interest, size, doubt), differences(crew.modes()[0]))

    def _sample(
        self, crew: AnyCrew, proposals: Proposals, n_rounds: int, length: int
    ) -> tuple[list[list[Round]], Agreement]:
        """At most so many rounds of `length` sweeps each"""
        rounds: list[list[Round]] = [[] for _ in crew.replicas]
        verdict: Agreement | None = None
        for number in range(1, n_rounds + 1):
            for kept, new in zip(rounds, crew.advance(proposals, length), strict=True):
                kept.append(new)
            if number == n_rounds or (number >= _FEWEST_ROUNDS and number % 2 == 0):
                verdict = agreement_of(np.array([[part.inclusion for part in kept] for kept in rounds]))
                crew.largest_r_hat = verdict.largest_r_hat
                if verdict.reached(self.precision, self.agreement) and number >= _FEWEST_ROUNDS:
                    break
        assert verdict is not None
        return rounds, verdict


def find_modes(target: Target, options: RunOptions) -> Mask:
    """(m, p) distinct subsets that searches ended with, within 15 nats of the best of all, best first."""
    engine = Tempering()
    with ProgressBar("searching subsets", most_searches(engine.searches) * engine.chains, options.progress) as bar:
        crew = crew_of(target, engine.chains, options, bar)
        betas, block_size = engine.first_betas(crew.target.n_rows), engine.used_block_size(crew.target)
        searched = crew.search(betas, block_size, engine.searches)
    return crew.target.masks(leading_modes(searched.ends + searched.stepped)[0])


def _redistribute(
    target: Space,
    replicas: Sequence[Ladder],
    betas: Floats,
    states: list[tuple[Mask, Floats]],
    modes: tuple[Mask, Floats],
) -> None:
    """Let every chain start from what any search left at its temperature (at the coldest, also from the modes),
    drawn in proportion to π_β. Searches that ended in a poor mode are so abandoned."""
    prior_of = target.log_posterior
    for replica in replicas:
        included, log_ratios = np.empty((len(betas), target.n_columns), bool), np.empty(len(betas))
        for i, beta in enumerate(betas):
            masks = np.array([masks[i] for masks, _ in states])
            ratios = np.array([values[i] for _, values in states])
            if i == len(betas) - 1:
                masks = np.concatenate([masks, modes[0]])
                ratios = np.concatenate([ratios, modes[1] - prior_of(modes[0], np.zeros(len(modes[0])))])
            weights = prior_of(masks, beta * ratios)
            weights = np.exp(weights - weights.max())
            chosen = replica.rng.choice(len(weights), p=weights / weights.sum())
            included[i], log_ratios[i] = masks[chosen], ratios[chosen]
        replica.place(included, log_ratios)


def differences(modes: Mask) -> Mask:
    """(n, d): in which columns each pair of modes (m, d) differs, pairs one or two flips apart left out."""
    pairs = [modes[i] ^ modes[j] for i in range(len(modes)) for j in range(i)]
    wide = [pair for pair in pairs if pair.sum() > 2]
    return np.array(wide) if wide else np.zeros((0, modes.shape[1]), bool)


def retuned(betas: Floats, rejected: Floats, free_number: bool) -> Floats:
    """Inverse temperatures between which swaps are refused equally often (Syed et al. 2022).

    The barrier, the sum of refusal rates from the hottest chain on, is interpolated in log β and cut into equal parts.
    With free_number, the number of temperatures becomes a little more than the barrier.
    """
    if len(betas) == 1:
        return betas
    # A small slope keeps the curve increasing where no swap was refused.
    barrier = np.concatenate([[0.0], np.cumsum(rejected + 0.02)])
    number = len(betas)
    if free_number:
        number = int(np.clip(round(1.3 * rejected.sum()) + 2, _FEWEST_TEMPERATURES, _MOST_TEMPERATURES))
    tuned = np.exp(np.interp(np.linspace(0.0, barrier[-1], number), barrier, np.log(betas)))
    tuned[0], tuned[-1] = betas[0], 1.0
    return tuned


def _check_whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise SettingError(f"{name}={value!r} must be a whole number from {least} on.")
