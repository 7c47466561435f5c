"""BIP-VI for many outcomes over the same second moments at once, on a device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, TypeVar

from threadpoolctl import threadpool_limits

from ..._tools.arrays import Floats, Mask
from ..._tools.parallel import ordered_map
from ..._tools.progress import ProgressBar
from ...conditionals.gaussian_device import GaussianOnDevice, OutcomeArrays, SharedScatter
from ...conditionals.gaussian_moments import GaussianFromMoments
from ...exceptions import EngineError, InvarianceError
from ...moments.moments import Moments
from ...posterior.posterior import Posterior
from ..base import RunOptions
from ..target import Target
from .ascent import Ascent, Climb, FreeSpace, measured
from .device_ascent import Start, climb_together
from .engine import Prepared, Variational
from .scored_draws import ScoredDraws

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
