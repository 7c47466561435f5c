"""Ascents from many starts at once on a device, and what they come to on the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from ..._tools.arrays import Floats, Integers, Mask
from ..._tools.parallel import ordered_map
from ..._tools.progress import ProgressBar
from ...exceptions import EngineError, InvarianceError
from ...models.gaussian import GaussianFromMoments
from ...models.gaussian_device import GaussianOnDevice, OutcomeArrays, SharedScatter
from ...moments.moments import Moments
from ...posterior.posterior import Posterior
from ...priors.base import PriorTerms
from ..base import RunOptions, Target
from .ascent import Ascent, Climb, FreeSpace, Iterate, ScoredDraws, measured
from .engine import Prepared, Variational

if TYPE_CHECKING:
    import torch

    from ...kernels.device.ascent import Leaders, Objectives, State
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

    from ...kernels.device.ascent import Leaders, ascend, with_prior_and_entropy

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


# Keeps an H200 busy: 3.4 GB of it beside the moments, of 6,170 columns, for subsets of up to 200.
LARGEST_BATCH = 128

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Job:
    """One outcome: how to make its target, and how to run.

    removed (R, G, d): rows that are not used for it, as in `kernels.device.problem.Problem`
    """

    name: str
    target: Callable[[], Target]
    removed: Floats
    options: RunOptions


class Found(NamedTuple):
    """The posterior of an outcome, and the moments that it comes from."""

    moments: Moments
    posterior: Posterior


class _Waiting(NamedTuple):
    """A job and what is kept of it while others are prepared: not its target, whose moments may be its own."""

    job: Job
    ready: Prepared
    starts: list[Start]


class _Climbed(NamedTuple):
    """climbs: one for each start; None where the device could not score all draws. seconds: its share of the batch"""

    waiting: _Waiting
    climbs: list[Climb] | None
    seconds: float


def each_posterior(
    engine: Variational,
    jobs: Iterable[Job],
    shared: SharedScatter,
    use: Callable[[str, Found | None], Result],
    n_jobs: int | None = None,
) -> Iterator[Result]:
    """use(name, found) of each job, the same whatever is computed together and for any n_jobs; found is None where the
    device cannot score for the model, or where something is wrong with the outcome: who fits it alone learns what.

    n_jobs : threads that prepare what goes to the device, finish what comes from it, and use it
    """

    def finish(climbed: _Climbed | str) -> Result:
        if isinstance(climbed, str):
            return use(climbed, None)
        name = climbed.waiting.job.name
        try:
            found = _finished(engine, climbed, shared)
        except InvarianceError:
            return use(name, None)
        return use(name, found)

    with threadpool_limits(1):
        yield from ordered_map(finish, _climbed(engine, jobs, shared, n_jobs), n_jobs)


def _climbed(
    engine: Variational, jobs: Iterable[Job], shared: SharedScatter, n_jobs: int | None
) -> Iterator[_Climbed | str]:
    """What each job came to, in batches; the name of those that did not go to the device"""
    remaining = iter(jobs)
    while batch := list(islice(remaining, LARGEST_BATCH)):
        prepared = list(ordered_map(lambda job: _prepared(engine, job, shared), batch, n_jobs))
        yield from (one for one in prepared if isinstance(one, str))
        waiting = [one for one in prepared if isinstance(one, _Waiting)]
        if waiting:
            yield from _together(engine, waiting, shared)


def _prepared(engine: Variational, job: Job, shared: SharedScatter) -> _Waiting | str:
    try:
        target = job.target()
        model = target.model
        if not isinstance(model, GaussianFromMoments) or not shared.suits(model, job.removed):
            return job.name
        ready = engine.prepared(FreeSpace(target), job.options)
    except InvarianceError:
        return job.name
    columns = model.moments.feature_columns
    arrays = OutcomeArrays.of(model, job.removed)
    free, forced = columns[target.free], columns[target.forced]
    starts = [
        Start.of(arrays, target.terms, model.n_rows, free, forced, logits, rng, engine)
        for logits, rng in zip(ready.beginnings.values(), ready.generators, strict=True)
    ]
    return _Waiting(job, ready, starts)


def _together(engine: Variational, batch: Sequence[_Waiting], shared: SharedScatter) -> Iterator[_Climbed]:
    """Climb from all starts of a batch; in halves where the device has too little memory for all at once."""
    import torch

    started = time.perf_counter()
    try:
        climbs = climb_together(engine, [start for one in batch for start in one.starts], shared)
    except torch.OutOfMemoryError as error:
        if len(batch) == 1:
            raise EngineError(
                f"device {shared.device} has too little memory for one outcome ({batch[0].job.name}): {error}. Use "
                "fewer pairs, or leave device= out."
            ) from error
        climbs = None
    if climbs is None:
        torch.cuda.empty_cache()
        half = len(batch) // 2
        yield from _together(engine, batch[:half], shared)
        yield from _together(engine, batch[half:], shared)
        return
    seconds = (time.perf_counter() - started) / len(batch)
    remaining = iter(climbs)
    for one in batch:
        own = list(islice(remaining, len(one.starts)))
        known = [climb for climb in own if climb is not None]
        yield _Climbed(one, known if len(known) == len(own) else None, seconds)


def _finished(engine: Variational, climbed: _Climbed, shared: SharedScatter) -> Found:
    started = time.perf_counter() - climbed.seconds
    job, ready, starts = climbed.waiting
    target = job.target()
    assert isinstance(target.model, GaussianFromMoments)
    space = FreeSpace(replace(target, model=GaussianOnDevice(target.model, shared, job.removed)))
    fits: dict[str, Ascent] = {}
    for i, (name, logits) in enumerate(ready.beginnings.items()):
        rng = starts[i].rng
        if climbed.climbs is None:
            with ProgressBar("variational inference", engine.iterations, job.options.progress) as bar:
                fits[name] = engine.ascended(space, logits, rng, bar)
            continue
        scorer = ScoredDraws(_scored(space), len(space.free), space.max_size, engine.memory)
        fits[name] = measured(space, climbed.climbs[i], rng, engine.fresh, scorer)
    return Found(target.model.moments, engine.finished(space, ready, fits, started))


def _scored(space: FreeSpace) -> Callable[[Mask], Floats]:
    return lambda draws: space.target.model.log_ratio_many(space.target.masks(draws))
