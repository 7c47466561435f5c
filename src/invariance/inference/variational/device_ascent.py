"""Ascents from many starts at once on a device, and what they come to on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..._tools.arrays import Floats, Integers, Mask
from ...conditionals.gaussian_device import OutcomeArrays, SharedScatter
from ...priors.bound import PriorTerms
from .ascent import Climb, Iterate

if TYPE_CHECKING:
    import torch

    from ...kernels.device.ascent import Objectives, State
    from ...kernels.device.leading import Leaders
    from .engine import Variational

_STRETCH = 50


class Start(NamedTuple):
    """One start of one outcome; what it draws is settled before it goes to the device.

    columns (f,): of the free features; forced (k,): of those that are always in; logits (f,)
    seed: of its draws; analytic (T,): when the KL term's gradient is exact; rng: for what comes after
    """

    arrays: OutcomeArrays
    terms: PriorTerms
    n_rows: int
    columns: Integers
    forced: Integers
    logits: Floats
    seed: int
    analytic: Mask
    rng: np.random.Generator

    @classmethod
    def of(
        cls,
        arrays: OutcomeArrays,
        terms: PriorTerms,
        n_rows: int,
        columns: Integers,
        forced: Integers,
        logits: Floats,
        rng: np.random.Generator,
        engine: Variational,
    ) -> Start:
        seed = int(rng.integers(-(1 << 63), 1 << 63))
        analytic = rng.random(engine.iterations) < engine.kl_analytic_probability
        return cls(arrays, terms, n_rows, columns, forced, logits, seed, analytic, rng)

    @property
    def room(self) -> int:
        """The most members of a subset inside the support"""
        return len(self.forced) + self.terms.max_size


def climb_together(engine: Variational, starts: Sequence[Start], shared: SharedScatter) -> list[Climb | None]:
    """What each start comes to; None where a draw could not be scored."""
    import torch

    from ...kernels.device.ascent import ascend
    from ...kernels.device.leading import Leaders, with_prior_and_entropy

    device, d = shared.device, shared.scatter.shape[1]
    problem = shared.problem([start.arrays for start in starts])
    objectives, state = _objectives(engine, starts, d, device), _state(starts, d, device)
    constant = torch.tensor([start.terms.constant for start in starts], dtype=torch.float64, device=device)
    analytic = torch.as_tensor(np.array([start.analytic for start in starts]).T, device=device)
    rates = engine.schedule.rates(engine.iterations).tolist()
    leaders = Leaders.none(len(starts), engine.leading, d, device)
    going = _Going(starts, engine)
    for first in range(0, engine.iterations, _STRETCH):
        part = slice(first, min(first + _STRETCH, engine.iterations))
        stretch = ascend(problem, objectives, state, first, rates[part], analytic[part], engine.pairs)
        elbo = with_prior_and_entropy(objectives, stretch, constant)
        leaders = leaders.joined(elbo - 2.0 * stretch.error, first, stretch.logits)
        traces = torch.stack([elbo, stretch.error, stretch.feasible]).cpu().numpy()
        left = going.after(traces, state.undecidable.cpu().numpy(), part.stop)
        if left.all():
            continue
        for place in np.flatnonzero(~left).tolist():
            going.stop(place, leaders, stretch.logits[-1])
        if not left.any():
            break
        kept = torch.as_tensor(np.flatnonzero(left), device=device)
        problem, objectives, state = problem.choosing(kept), objectives.choosing(kept), state.choosing(kept)
        leaders, constant, analytic = leaders.choosing(kept), constant[kept], analytic[:, kept]
        going.keep(left)
    return going.climbs


def _objectives(engine: Variational, starts: Sequence[Start], d: int, device: torch.device) -> Objectives:
    import torch

    from ...kernels.device.ascent import Objectives

    log_odds = np.zeros((len(starts), d))
    by_size = np.full((len(starts), max(start.room for start in starts) + 2), -np.inf)
    for odds, weights, start in zip(log_odds, by_size, starts, strict=True):
        odds[start.columns] = start.terms.log_odds
        weights[len(start.forced) : start.room + 1] = start.terms.log_size_weight[: start.terms.max_size + 1]

    def tensor(values: object) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values, dtype=float), device=device)

    n_rows = tensor([start.n_rows for start in starts])
    return Objectives(tensor(log_odds), tensor(by_size), n_rows, engine.infeasible_value)


def _state(starts: Sequence[Start], d: int, device: torch.device) -> State:
    import torch

    from ...kernels.device.ascent import State

    logits = np.full((len(starts), d), -np.inf)
    for row, start in zip(logits, starts, strict=True):
        row[start.forced] = np.inf
        row[start.columns] = start.logits
    return State(
        logits=torch.as_tensor(logits, device=device),
        lowest=torch.zeros(len(starts), dtype=torch.float64, device=device),
        undecidable=torch.zeros(len(starts), dtype=torch.bool, device=device),
        seeds=torch.as_tensor(np.array([start.seed for start in starts], dtype=np.int64), device=device),
    )


class _Going:
    """Which starts are still on the device, and what the others came to."""

    def __init__(self, starts: Sequence[Start], engine: Variational) -> None:
        self.climbs: list[Climb | None] = [None] * len(starts)
        self._starts = starts
        self._engine = engine
        self._places = np.arange(len(starts))
        self._undecidable = np.zeros(len(starts), dtype=bool)
        self._traces = np.empty((3, engine.iterations, len(starts)))
        self._done = 0

    def after(self, traces: Floats, undecidable: Mask, done: int) -> Mask:
        """(b,) which of those on the device go on, after a stretch with these traces (3, T, b)"""
        self._traces[:, self._done : done, self._places] = traces
        self._done = done
        self._undecidable = undecidable
        finished = np.full(len(self._places), done >= self._engine.iterations)
        if self._engine.patience is not None:
            best_at = self._traces[0, :done, self._places].argmax(axis=1)
            finished |= done - best_at > self._engine.patience
        return ~(finished | undecidable)

    def stop(self, place: int, leaders: Leaders, last: torch.Tensor) -> None:
        """Take down what one of those on the device came to."""
        which = int(self._places[place])
        if self._undecidable[place]:
            return
        columns = self._starts[which].columns
        promise, iteration = leaders.promise[place].cpu().numpy(), leaders.iteration[place].cpu().numpy()
        logits = leaders.logits[place].cpu().numpy()[:, columns]
        kept = [Iterate(float(p), int(i), row) for p, i, row in zip(promise, iteration, logits, strict=True)]
        kept = [iterate for iterate in kept if iterate.promise > -np.inf]
        end = Iterate(-np.inf, self._done - 1, last[place].cpu().numpy()[columns])
        self.climbs[which] = Climb([*kept, end], *self._traces[:, : self._done, which].copy())

    def keep(self, left: Mask) -> None:
        self._places = self._places[left]
