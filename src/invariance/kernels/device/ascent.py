"""Stochastic gradient ascent of many mean-field ELBOs at once: the twin of `mean_field.ascend` on a
device.

No result of an iteration comes to the host: what is recorded stays on the device until a stretch of
them is done.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

import torch

from . import torch_kernels
from .torch_kernels import Problem, Subsets


def kernels_on(device: torch.device) -> ModuleType:
    """Fused kernels on a CUDA device where Triton is installed, as it is with torch on Linux;
    torch's own elsewhere."""
    if device.type != "cuda":
        return torch_kernels
    try:
        from . import triton_kernels
    except ImportError:
        return torch_kernels
    return triton_kernels


def log_ratios(problem: Problem, subsets: Subsets) -> torch.Tensor:
    """(S,) log Λ; NaN where undecidable or not scored"""
    weights = problem.weights[subsets.owner]
    shares = kernels_on(problem.device).log_shares(problem, subsets)
    total = problem.offset[subsets.owner] + (weights * shares).sum(dim=1)
    # As `subset_tree.settled`: rounding above 0 is 0, more than rounding is undecidable.
    rounding = 1e-6 + 1e-9 * weights[:, -1].abs()
    bounded = (total > 0.0) & (weights.sum(dim=1) >= 0.0)
    return torch.where(bounded, torch.where(total <= rounding, 0.0, torch.nan), total)


class Objectives(NamedTuple):
    """As `mean_field.Objective`, for B outcomes over d columns. log_odds (B, d); log_size_weight
    (B, room + 2): by the number of members, forced ones counted, -inf for too many; n_rows (B,);
    infeasible: per row, NaN puts a draw outside the support below the lowest one seen"""

    log_odds: torch.Tensor
    log_size_weight: torch.Tensor
    n_rows: torch.Tensor
    infeasible: float

    @property
    def room(self) -> int:
        """The most members of a subset that is scored"""
        return self.log_size_weight.shape[1] - 2


class State(NamedTuple):
    """Where B ascents are: logits (B, d), ±inf for columns that are always in or out; lowest (B,):
    objective of a draw seen inside the support; undecidable (B,): whether a draw could not be
    scored; seeds (B,): of their draws."""

    logits: torch.Tensor
    lowest: torch.Tensor
    undecidable: torch.Tensor
    seeds: torch.Tensor


class Stretch(NamedTuple):
    """Of T iterations: elbo, error, feasible (T, B) as in `mean_field.Trace`; logits (T, B, d)."""

    elbo: torch.Tensor
    error: torch.Tensor
    feasible: torch.Tensor
    logits: torch.Tensor


def ascend(
    problem: Problem,
    objectives: Objectives,
    state: State,
    first: int,
    rates: list[float],
    analytic: torch.Tensor,
    pairs: int,
) -> Stretch:
    """Iterations first, first + 1, … with rates (T,) and analytic (T, B), whether the KL term's
    gradient is the exact one; the state changes in place."""
    n_steps, logits, (n_outcomes, d) = len(rates), state.logits, state.logits.shape
    elbo, error, feasible = torch.empty(
        (3, n_steps, n_outcomes), dtype=torch.float64, device=problem.device
    )
    history = torch.empty((n_steps, n_outcomes, d), dtype=torch.float64, device=problem.device)
    open_columns = torch.isfinite(logits)
    kernels = kernels_on(problem.device)
    for t, rate in enumerate(rates):
        history[t] = logits
        inclusion = torch.sigmoid(logits)
        direction = torch.where(open_columns, objectives.log_odds - logits, 0.0)
        draws = kernels.draw_pairs(
            inclusion, direction, state.seeds, first + t, pairs, objectives.room
        )
        size = draws.subsets.size.clamp(max=objectives.room + 1).view(n_outcomes, 2 * pairs)
        scored = log_ratios(problem, draws.subsets).view(n_outcomes, 2 * pairs)
        size_weight = objectives.log_size_weight.gather(1, size)
        state.undecidable.logical_or_((scored.isnan() & (size_weight > -torch.inf)).any(dim=1))
        values = scored + size_weight
        inside = values > -torch.inf
        torch.minimum(
            state.lowest, torch.where(inside, values, torch.inf).amin(dim=1), out=state.lowest
        )
        penalty = objectives.infeasible * objectives.n_rows
        if objectives.infeasible != objectives.infeasible:
            penalty = torch.where(state.lowest < 0.0, 1.1 * state.lowest, -objectives.n_rows)
        values = torch.where(inside, values, penalty[:, None]).view(n_outcomes, pairs, 2)
        means = values.mean(dim=2)
        elbo[t], feasible[t] = means.mean(dim=1), inside.double().mean(dim=1)
        error[t] = torch.sqrt(((means**2).mean(dim=1) - elbo[t] ** 2).clamp(min=0.0) / pairs)
        difference = (
            values[:, :, 0] - values[:, :, 1] + torch.where(analytic[t][:, None], 0.0, draws.slopes)
        )
        larger = torch.maximum(inclusion, 1.0 - inclusion)
        gradient = 0.5 * larger * (difference[:, :, None] * draws.signs).sum(dim=1) / pairs
        exact = torch.where(analytic[t][:, None], inclusion * (1.0 - inclusion) * direction, 0.0)
        logits += rate * (gradient + exact) / objectives.n_rows[:, None]
    return Stretch(elbo, error, feasible, history)


class Leaders(NamedTuple):
    """Of B ascents: promise (B, L), ELBO less two errors, largest first; iteration (B, L); logits
    (B, L, d)."""

    promise: torch.Tensor
    iteration: torch.Tensor
    logits: torch.Tensor

    @classmethod
    def none(cls, n_outcomes: int, room: int, d: int, device: torch.device) -> Leaders:
        promise = torch.full((n_outcomes, room), -torch.inf, dtype=torch.float64, device=device)
        iteration = torch.zeros((n_outcomes, room), dtype=torch.int64, device=device)
        return cls(
            promise,
            iteration,
            torch.zeros((n_outcomes, room, d), dtype=torch.float64, device=device),
        )

    def joined(self, promise: torch.Tensor, first: int, logits: torch.Tensor) -> Leaders:
        """With the best of T iterates: promise (T, B), logits (T, B, d). Of equals the earlier ones
        lead."""
        n_steps = len(promise)
        room = self.promise.shape[1]
        promise = torch.cat([self.promise, promise.T], dim=1)
        steps = torch.arange(first, first + n_steps, device=promise.device).expand(
            len(promise), n_steps
        )
        iteration = torch.cat([self.iteration, steps], dim=1)
        order = torch.sort(promise, dim=1, descending=True, stable=True).indices[:, :room]
        outcome = torch.arange(len(promise), device=promise.device)[:, None]
        kept = torch.where(
            (order < room)[:, :, None],
            self.logits[outcome, order.clamp(max=room - 1)],
            logits[(order - room).clamp(min=0), outcome],
        )
        return Leaders(promise.gather(1, order), iteration.gather(1, order), kept)


def with_prior_and_entropy(
    objectives: Objectives, stretch: Stretch, constant: torch.Tensor
) -> torch.Tensor:
    """(T, B) the ELBO: what was recorded, and the terms of the prior and the entropy that are known
    exactly."""
    q = torch.sigmoid(stretch.logits)
    # A column that is always in or out has no entropy, and its odds are 0.
    entropy = torch.special.entr(q).sum(dim=2) + torch.special.entr(1.0 - q).sum(dim=2)
    return stretch.elbo + (q * objectives.log_odds).sum(dim=2) + constant + entropy
