"""Variational inference for many outcomes at once on a device: ascents from all their starts, and what these come to on
the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import ordered_map
from ..exceptions import EngineError, InvarianceError, SettingError, use
from ..kernels.active_set import Scoring
from ..kernels.subset_sums import listed, sizes
from ..models.base import PIVOT_TOLERANCE
from ..models.gaussian import GaussianFromMoments
from ..moments.moments import Moments
from ..posterior.posterior import Posterior
from ..priors import BoundPrior
from .base import RunOptions, ScoredSubsets, Target
from .mean_field import STRETCH, Ascent, Climb, FreeSpace, Iterate, climb, measured
from .variational import Prepared, Variational

if TYPE_CHECKING:
    import torch

    from ..kernels.device.ascent import Objectives, State
    from ..kernels.device.torch_kernels import Problem

# Factors of so many bytes at a time are on the device: enough subsets of 200 to keep an H200 busy.
_WORK_BYTES = 1 << 30
LARGEST_BATCH = 128  # keeps an H200 busy; 3.4 GB beside the moments for subsets of up to 200 of 6,170 columns

Result = TypeVar("Result")


def as_device(name: str) -> torch.device:
    """The device of this name; raise where torch, or the device, is not there."""
    try:
        import torch
    except ImportError:
        raise SettingError(f"device={name!r} needs PyTorch: pip install 'invariant-prediction[gpu]'.") from None
    cuda = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    known = ["cpu", *(["cuda"] if cuda else []), *cuda]
    if name not in known:
        what = f"device={name!r} is not known to torch {torch.__version__}"
        raise SettingError(what, *(use(device=other) for other in known))
    return torch.device(name)


class SharedScatter:
    """Second moments on a device, for models of any outcome whose moments are these, with rows removed or not."""

    def __init__(self, moments: Moments, device: torch.device) -> None:
        import torch

        self.columns = moments.columns
        self.diagonal = np.einsum("gjj->gj", moments.scatter).copy()
        self.device = device
        self.scoring = Lock()  # held by the thread whose subsets are scored
        self.scatter = torch.as_tensor(moments.scatter, dtype=torch.float64, device=device)

    def suits(self, model: GaussianFromMoments, removed: Floats) -> bool:
        """Whether the model's scatter is this one without rows `removed` (R, G, d), and its features single columns."""
        if model.features.grouped or model.moments.columns != self.columns:
            return False
        left = self.diagonal - (removed**2).sum(axis=0)
        return np.allclose(left, np.einsum("gjj->gj", model.moments.scatter), rtol=1e-8, atol=0.0)

    def problem(self, outcomes: Sequence[tuple[Scoring, Floats]]) -> Problem:
        """What scores the subsets of all these outcomes, given by `scoring_by_moments` and rows removed (R, G, d)."""
        import torch

        from ..kernels.device.torch_kernels import Problem

        scorings, gone = zip(*outcomes, strict=True)
        removed = np.zeros((len(outcomes), max(map(len, gone)), *self.scatter.shape[:2]))
        for rows, own in zip(removed, gone, strict=True):
            rows[: len(own)] = own

        def tensor(values: object) -> torch.Tensor:
            return torch.as_tensor(np.asarray(values), device=self.device)

        return Problem(
            scatter=self.scatter,
            outcome=tensor([scoring.outcome for scoring in scorings]),
            scale=tensor([scoring.inverse_scale for scoring in scorings]),
            removed=tensor(removed),
            weights=tensor([scoring.weights for scoring in scorings]),
            offset=tensor([scoring.offset for scoring in scorings]),
            tolerance=PIVOT_TOLERANCE,
        )


class GaussianOnDevice(GaussianFromMoments):
    """As `GaussianFromMoments`, which decides what the device cannot."""

    def __init__(self, model: GaussianFromMoments, shared: SharedScatter, removed: Floats) -> None:
        super().__init__(model.moments if model.data is None else model.data, model.n_jobs, model.prediction)
        self._shared, self._removed = shared, removed

    def _score(self, masks: Mask, penalty: float = np.nan, scoring: Scoring | None = None) -> Floats:
        if scoring is not None or not len(masks):
            return super()._score(masks, penalty, scoring)
        import torch

        from ..kernels.device.ascent import log_ratios
        from ..kernels.device.torch_kernels import Subsets

        size, values = sizes(masks), np.empty(len(masks))
        room = max(int(size.max()), 1)
        members = listed(masks, self.moments.feature_columns, room)
        step = max(1, _WORK_BYTES // (8 * len(self._shared.scatter) * (room + 64) ** 2))
        problem = self._shared.problem([(self.scoring_by_moments(), self._removed)])
        for start in range(0, len(masks), step):
            part = slice(start, start + step)
            there = [torch.as_tensor(given[part], device=problem.device) for given in (members, size)]
            with self._shared.scoring:
                owner = torch.zeros(len(there[1]), dtype=torch.int64, device=problem.device)
                values[part] = log_ratios(problem, Subsets(owner, *there)).cpu().numpy()
        unknown = np.isnan(values)
        values[unknown] = super()._score(masks[unknown], penalty)
        return values


class Start(NamedTuple):
    """One start of one outcome, given as `SharedScatter.problem` takes it. prior: over the free features; columns (f,):
    theirs; forced (k,): of those always in; logits (f,); seed: of its draws; analytic (T,): when the KL term's gradient
    is exact"""

    outcome: tuple[Scoring, Floats]
    prior: BoundPrior
    n_rows: int
    columns: Integers
    forced: Integers
    logits: Floats
    seed: int
    analytic: Mask

    @property
    def room(self) -> int:
        """The most members of a subset inside the support"""
        return len(self.forced) + self.prior.max_size


def on_device(
    engine: Variational, starts: Sequence[Start], d: int, device: torch.device
) -> tuple[Objectives, State, torch.Tensor]:
    """What is ascended over d columns, from where, and the constants (B,) of the ELBOs."""
    import torch

    from ..kernels.device.ascent import Objectives, State

    n = len(starts)
    logits, log_odds = np.full((n, d), -np.inf), np.zeros((n, d))
    by_size = np.full((n, max(start.room for start in starts) + 2), -np.inf)
    for b, start in enumerate(starts):
        logits[b, start.forced], logits[b, start.columns] = np.inf, start.logits
        log_odds[b, start.columns] = start.prior.log_odds
        by_size[b, len(start.forced) : start.room + 1] = start.prior.log_size_weight[: start.prior.max_size + 1]

    def there(values: object, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        return torch.as_tensor(np.array(values), dtype=dtype, device=device)

    n_rows, seeds = there([start.n_rows for start in starts]), there([start.seed for start in starts], torch.int64)
    objectives = Objectives(there(log_odds), there(by_size), n_rows, engine.infeasible_value)
    state = State(there(logits), there(np.zeros(n)), there(np.zeros(n), torch.bool), seeds)
    return objectives, state, there([-start.prior.log_normalizer for start in starts])


def climb_together(engine: Variational, starts: Sequence[Start], shared: SharedScatter) -> list[Climb | None]:
    """What each start comes to; None where a draw could not be scored."""
    import torch

    from ..kernels.device.ascent import Leaders, ascend, with_prior_and_entropy

    device, d, n, iterations = shared.device, shared.scatter.shape[1], len(starts), engine.iterations
    objectives, state, constant = on_device(engine, starts, d, device)
    analytic = torch.as_tensor(np.array([start.analytic for start in starts]).T, device=device)
    problem = shared.problem([start.outcome for start in starts])
    rates = engine.schedule.rates(iterations).tolist()
    leaders = Leaders.none(n, engine.leading, d, device)
    climbs: list[Climb | None] = [None] * n
    traces, going = np.empty((3, iterations, n)), np.ones(n, dtype=bool)
    for first in range(0, iterations, STRETCH):
        part = slice(first, min(first + STRETCH, iterations))
        stretch = ascend(problem, objectives, state, first, rates[part], analytic[part], engine.pairs)
        elbo = with_prior_and_entropy(objectives, stretch, constant)
        leaders = leaders.joined(elbo - 2.0 * stretch.error, first, stretch.logits)
        traces[:, part] = torch.stack([elbo, stretch.error, stretch.feasible]).cpu().numpy()
        undecidable = state.undecidable.cpu().numpy()
        ended = going & (undecidable | (part.stop == iterations))
        for b in np.flatnonzero(ended & ~undecidable).tolist():
            columns = starts[b].columns
            promise, iteration, led = (values[b].cpu().numpy() for values in leaders)
            found = zip(promise.tolist(), iteration.tolist(), led[:, columns], strict=True)
            last = Iterate(-np.inf, part.stop - 1, stretch.logits[-1][b].cpu().numpy()[columns])
            iterates = [Iterate(*one) for one in found if one[0] > -np.inf]
            climbs[b] = Climb([*iterates, last], *traces[:, : part.stop, b].copy())
        going &= ~ended
        if not going.any():
            break
    return climbs


@dataclass(frozen=True, eq=False)
class Job:
    """One outcome: how to make its target, and how to run. removed (R, G, d): rows that are not used for it, as in
    `kernels.device.problem.Problem`"""

    name: str
    target: Callable[[], Target]
    removed: Floats
    options: RunOptions


class Found(NamedTuple):
    """The posterior of an outcome, and the moments that it comes from."""

    moments: Moments
    posterior: Posterior


class _Waiting(NamedTuple):
    """What is kept of a job while others are prepared. climbs: one for each start, None where the device cannot score
    all draws; seconds: its share of the batch"""

    job: Job
    ready: Prepared
    starts: list[Start]
    climbs: tuple[Climb | None, ...] = ()
    seconds: float = 0.0


def each_posterior(
    engine: Variational,
    jobs: Iterable[Job],
    shared: SharedScatter,
    use: Callable[[str, Found | None], Result],
    n_jobs: int | None = None,
) -> Iterator[Result]:
    """use(name, found) of each job, the same whatever is computed together and for any n_jobs; found is None where the
    device cannot score for the model, or where something is wrong with the outcome: who fits it alone learns what.
    n_jobs : threads that prepare what goes to the device, finish what comes from it, and use it"""

    def climbed() -> Iterator[_Waiting | Job]:
        remaining = iter(jobs)
        while batch := list(islice(remaining, LARGEST_BATCH)):
            prepared = list(ordered_map(lambda job: _prepared(engine, job, shared), batch, n_jobs))
            yield from (one for one in prepared if isinstance(one, Job))
            yield from _together(engine, [one for one in prepared if isinstance(one, _Waiting)], shared)

    def finish(one: _Waiting | Job) -> Result:
        if isinstance(one, Job):
            return use(one.name, None)
        try:
            found = _finished(engine, one, shared)
        except InvarianceError:
            found = None
        return use(one.job.name, found)

    with threadpool_limits(1):
        yield from ordered_map(finish, climbed(), n_jobs)


def _prepared(engine: Variational, job: Job, shared: SharedScatter) -> _Waiting | Job:
    """The job itself where it cannot go to the device"""
    try:
        target = job.target()
        model, prior = target.model, target.prior
        if not isinstance(model, GaussianFromMoments) or not shared.suits(model, job.removed):
            return job
        ready = engine.prepare(FreeSpace(target), job.options)
    except InvarianceError:
        return job
    columns, outcome = model.moments.feature_columns, (model.scoring_by_moments(), job.removed)
    starts = []
    for logits, rng in ready.starts.values():
        seed = int(rng.integers(-(1 << 63), 1 << 63))
        analytic = rng.random(engine.iterations) < engine.kl_analytic_probability
        where = columns[prior.free], columns[prior.forced]
        starts.append(Start(outcome, prior.over_free, model.n_rows, *where, logits, seed, analytic))
    return _Waiting(job, ready, starts)


def _together(engine: Variational, batch: Sequence[_Waiting], shared: SharedScatter) -> Iterator[_Waiting]:
    """Climb from all starts of a batch; in halves where the device has too little memory for all at once."""
    import torch

    if not batch:
        return
    started = time.perf_counter()
    try:
        climbs = iter(climb_together(engine, [start for one in batch for start in one.starts], shared))
    except torch.OutOfMemoryError as error:
        if len(batch) == 1:
            what = f"device {shared.device} has too little memory for one outcome ({batch[0].job.name}): {error}"
            raise EngineError(f"{what}. Use fewer pairs, or leave device= out.") from error
        climbs = None
    if climbs is None:
        torch.cuda.empty_cache()
        for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
            yield from _together(engine, half, shared)
        return
    seconds = (time.perf_counter() - started) / len(batch)
    for one in batch:
        yield one._replace(climbs=tuple(islice(climbs, len(one.starts))), seconds=seconds)


def _finished(engine: Variational, one: _Waiting, shared: SharedScatter) -> Found:
    started = time.perf_counter() - one.seconds
    target = one.job.target()
    assert isinstance(target.model, GaussianFromMoments)
    model = GaussianOnDevice(target.model, shared, one.job.removed)
    space = FreeSpace(replace(target, model=model))
    fits: dict[str, Ascent] = {}
    for (name, (logits, rng)), known in zip(one.ready.starts.items(), one.climbs, strict=True):
        if known is None or None in one.climbs:
            known, scorer = climb(space, logits, rng, engine), space.scorer(engine.memory, searching=False)
        else:
            f = len(target.prior.free)
            scorer = ScoredSubsets(lambda draws: model.log_ratio_many(target.masks(draws)), f, engine.memory)
        fits[name] = measured(space, known, rng, engine.fresh, scorer)
    return Found(model.moments, engine.finish(space, one.ready, fits, started))
