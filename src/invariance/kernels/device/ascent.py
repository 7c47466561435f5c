"""Stochastic gradient ascent of many mean-field ELBOs at once: the twin of `mean_field.ascend` on a device.

No result of an iteration comes to the host: what is recorded stays on the device until a stretch of them is done.
"""

from typing import NamedTuple

import torch

from .problem import Problem
from .scoring import draw_pairs, log_ratios


class Objectives(NamedTuple):
    """What is ascended for B outcomes over d columns: as `mean_field.Objective`, one for each.

    log_odds (B, d); log_size_weight (B, room + 2): by the number of members, forced ones counted, -inf for too many
    n_rows (B,); infeasible: per row, NaN puts a draw outside the support below the lowest one seen
    """

    log_odds: torch.Tensor
    log_size_weight: torch.Tensor
    n_rows: torch.Tensor
    infeasible: float

    @property
    def room(self) -> int:
        """The most members of a subset that is scored"""
        return self.log_size_weight.shape[1] - 2

    def choosing(self, which: torch.Tensor) -> "Objectives":
        return Objectives(self.log_odds[which], self.log_size_weight[which], self.n_rows[which], self.infeasible)


class State(NamedTuple):
    """Where B ascents are: logits (B, d), ±inf for columns that are always in or out; lowest (B,): objective of a draw
    seen inside the support; undecidable (B,): whether a draw could not be scored; seeds (B,): of their draws."""

    logits: torch.Tensor
    lowest: torch.Tensor
    undecidable: torch.Tensor
    seeds: torch.Tensor

    def choosing(self, which: torch.Tensor) -> "State":
        return State(*(part[which] for part in self))


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
    """Iterations first, first + 1, … with rates (T,) and analytic (T, B), the state changing in place.

    analytic: whether the KL term's gradient is the exact one.
    """
    n_steps, (n_outcomes, d) = len(rates), state.logits.shape
    record = torch.empty((3, n_steps, n_outcomes), dtype=torch.float64, device=problem.device)
    history = torch.empty((n_steps, n_outcomes, d), dtype=torch.float64, device=problem.device)
    open_columns = torch.isfinite(state.logits)
    for t, rate in enumerate(rates):
        history[t] = state.logits
        _step(problem, objectives, state, open_columns, first + t, rate, analytic[t], pairs, record[:, t])
    return Stretch(record[0], record[1], record[2], history)


def _step(
    problem: Problem,
    objectives: Objectives,
    state: State,
    open_columns: torch.Tensor,
    step: int,
    rate: float,
    analytic: torch.Tensor,
    pairs: int,
    record: torch.Tensor,
) -> None:
    logits, (n_outcomes, _) = state.logits, state.logits.shape
    inclusion = torch.sigmoid(logits)
    direction = torch.where(open_columns, objectives.log_odds - logits, 0.0)
    draws = draw_pairs(inclusion, direction, state.seeds, step, pairs, objectives.room)
    size = draws.subsets.size.clamp(max=objectives.room + 1).view(n_outcomes, 2 * pairs)
    scored = log_ratios(problem, draws.subsets).view(n_outcomes, 2 * pairs)
    size_weight = objectives.log_size_weight.gather(1, size)
    state.undecidable.logical_or_((scored.isnan() & (size_weight > -torch.inf)).any(dim=1))
    values = scored + size_weight
    feasible = values > -torch.inf
    torch.minimum(state.lowest, torch.where(feasible, values, torch.inf).amin(dim=1), out=state.lowest)
    penalty = objectives.infeasible * objectives.n_rows
    if objectives.infeasible != objectives.infeasible:
        penalty = torch.where(state.lowest < 0.0, 1.1 * state.lowest, -objectives.n_rows)
    values = torch.where(feasible, values, penalty[:, None]).view(n_outcomes, pairs, 2)
    means = values.mean(dim=2)
    mean = means.mean(dim=1)
    record[0] = mean
    record[1] = torch.sqrt(((means**2).mean(dim=1) - mean**2).clamp(min=0.0) / pairs)
    record[2] = feasible.double().mean(dim=1)
    difference = values[:, :, 0] - values[:, :, 1] + torch.where(analytic[:, None], 0.0, draws.slopes)
    larger = torch.maximum(inclusion, 1.0 - inclusion)
    gradient = 0.5 * larger * (difference[:, :, None] * draws.signs).sum(dim=1) / pairs
    exact = torch.where(analytic[:, None], inclusion * (1.0 - inclusion) * direction, 0.0)
    logits += rate * (gradient + exact) / objectives.n_rows[:, None]
