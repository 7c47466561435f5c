"""Variational inference for many outcomes at once on a device.

The ascents from all starts run on the device, the reweighting of draws on the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from .._tools.arrays import Floats, Integers, Mask, Names
from .._tools.parallel import Result, ordered_map
from ..data.features import as_masks
from ..exceptions import EngineError, InvarianceError, SettingError, use
from ..kernels.active_set import Scoring
from ..kernels.subset_sums import listed, sizes
from ..models.base import PIVOT_TOLERANCE, BoundModel
from ..models.gaussian import GaussianFromMoments, HomoscedasticGaussian, held_features
from ..models.gaussian_fits import no_rows
from ..moments.moments import Moments
from ..posterior.posterior import Posterior
from ..priors import BoundPrior
from .base import RunOptions, ScoredSubsets, Target
from .mean_field import STRETCH, Climb, FreeSpace, Iterate, measured
from .variational import Prepared, Variational

if TYPE_CHECKING:
    import torch

    from ..kernels.device.ascent import Objectives, State
    from ..kernels.device.torch_kernels import Problem

# Factors of so many bytes at a time are on the device: enough subsets of 200 to keep an H200 busy,
# and few launches, during which other threads wait.
_WORK_BYTES = 1 << 32
# Keeps an H200 busy; 6.8 GB beside the moments for subsets of up to 200 of 6,170 columns
LARGEST_BATCH = 256


def as_device(name: str) -> torch.device:
    """Return the device of this name; raise if torch or the device is not available."""
    try:
        import torch
    except ImportError:
        raise SettingError(
            f"device={name!r} needs PyTorch: pip install 'invariant-prediction[gpu]'."
        ) from None
    cuda = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    known = ["cpu", *(["cuda"] if cuda else []), *cuda]
    if name not in known:
        what = f"device={name!r} is not known to torch {torch.__version__}"
        raise SettingError(what, *(use(device=other) for other in known))
    return torch.device(name)


class SharedScatter:
    """Second moments on a device, for models of any outcome whose moments are these, with rows
    removed or not."""

    def __init__(self, moments: Moments, device: torch.device) -> None:
        import torch

        self.moments = moments
        self.columns = moments.columns
        self.diagonal = np.einsum("gjj->gj", moments.scatter).copy()
        self.device = device
        self.scoring = Lock()  # held by the thread whose subsets are scored
        self.scatter = torch.as_tensor(moments.scatter, dtype=torch.float64, device=device)

    def suits(self, moments: Moments) -> bool:
        """Return whether these are moments of the same columns, each of them a feature by
        itself."""
        return not moments.features.grouped and moments.columns == self.columns

    def on_device(self, model: BoundModel, removed: Floats) -> BoundModel:
        """Return the model that scores subsets on the device, without rows `removed` (R, G, d); the
        model itself if the device cannot."""
        if not isinstance(model, GaussianFromMoments) or not self.suits(model.moments):
            return model
        return GaussianOnDevice(model.moments, self, removed, model.prediction)

    def problem(self, outcomes: Sequence[tuple[Scoring, Floats]]) -> Problem:
        """Return the problem that scores the subsets of several outcomes.

        They are given by `scoring_by_moments` and rows removed (R, G, d).
        """
        import torch

        from ..kernels.device.torch_kernels import Problem

        scorings, gone = zip(*outcomes, strict=True)
        # Room for one row at least: a kernel is compiled for each number of rows.
        most = max(1, *map(len, gone))
        removed = np.zeros((len(outcomes), most, *self.scatter.shape[:2]))
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


def _of_complete(name: str) -> Any:
    """Return a method that asks the same model with the second moments of all columns."""
    return lambda model, *given: getattr(model.complete, name)(*given)


class GaussianOnDevice(HomoscedasticGaussian):
    """Model an outcome by moments of all rows of a sweep minus a few rows.

    log Λ is computed on the device; otherwise the second moments of the columns concerned are those
    of all rows minus the products of the rows that are not used.

    moments : of the rows used; their `scatter` may be empty
    removed : (R, G, d), as in `kernels.device.torch_kernels.Problem`
    """

    search_penalty = GaussianFromMoments.search_penalty
    flip_steps = GaussianFromMoments.flip_steps

    def __init__(
        self, moments: Moments, shared: SharedScatter, removed: Floats, prediction: float = 0.0
    ) -> None:
        super().__init__(moments, prediction=prediction)
        self._shared = shared
        self._removed = removed

    @cached_property
    def _squares(self) -> Floats:
        left = self._shared.diagonal - (self._removed**2).sum(axis=0)
        return np.where(self.moments.varies, left, 0.0)

    def _products_with_outcome(self) -> Floats:
        y = self.moments.outcome
        products = self._shared.moments.scatter[:, y] - (
            self._removed * self._removed[:, :, y, None]
        ).sum(axis=0)
        varies = self.moments.varies
        return np.where(varies & varies[:, y, None], products, 0.0)

    @property
    def untilted(self) -> GaussianOnDevice:
        if self.prediction == 0.0:
            return self
        return GaussianOnDevice(self.moments, self._shared, self._removed)

    def anew(self) -> GaussianOnDevice:
        """Return the same model without what it remembers, such as a copy of all second moments."""
        return GaussianOnDevice(self.moments, self._shared, self._removed, self.prediction)

    def _moments_of(self, columns: Integers) -> Moments:
        """Return the moments of some columns, the outcome among them, with their scatter."""
        names = tuple(self.moments.columns[j] for j in columns)
        part = replace(self.moments, scatter=self._shared.moments.scatter).of_columns(names)
        scatter = part.scatter
        for row in self._removed[:, :, columns]:
            scatter = scatter - row[:, :, None] * row[:, None, :]
        varies = part.varies
        if not varies.all():
            scatter = scatter * (varies[:, :, None] & varies[:, None, :])
        return replace(part, scatter=scatter)

    @cached_property
    def complete(self) -> GaussianFromMoments:
        """Return the same model with the second moments of all columns."""
        everything = np.arange(len(self.moments.columns))
        return GaussianFromMoments(self._moments_of(everything), prediction=self.prediction)

    def with_moments(self, masks: Mask) -> tuple[GaussianFromMoments, Mask]:
        held = held_features(masks)
        columns = np.append(self.moments.feature_columns[held], self.moments.outcome)
        return GaussianFromMoments(self._moments_of(columns), prediction=self.prediction), masks[
            :, held
        ]

    def _score(
        self, masks: Mask, penalty: float = np.nan, scoring: Scoring | None = None
    ) -> Floats:
        if scoring is not None:
            return super()._score(masks, penalty, scoring)
        if not len(masks):
            return np.empty(0)
        import torch

        from ..kernels.device.ascent import log_ratios
        from ..kernels.device.torch_kernels import Subsets

        size = sizes(masks)
        room = max(int(size.max()), 1)
        values = np.empty(len(masks))
        members = listed(masks, self.moments.feature_columns, room)
        step = max(1, _WORK_BYTES // (8 * len(self._shared.scatter) * (room + 64) ** 2))
        problem = self._shared.problem([self.outcome])
        for start in range(0, len(masks), step):
            part = slice(start, start + step)
            there = [
                torch.as_tensor(given[part], device=problem.device) for given in (members, size)
            ]
            with self._shared.scoring:
                owner = torch.zeros(len(there[1]), dtype=torch.int64, device=problem.device)
                values[part] = log_ratios(problem, Subsets(owner, *there)).cpu().numpy()
        unknown = np.flatnonzero(np.isnan(values))
        if len(unknown):
            values[unknown] = self.complete._score(masks[unknown], penalty)
        return values

    @cached_property
    def outcome(self) -> tuple[Scoring, Floats]:
        """Return the outcome as `SharedScatter.problem` takes it; the scatter is on the device
        already."""
        return self.rewarding(
            self.scoring_of(self.moments.scatter, no_rows(self.moments))
        ), self._removed

    def gain_many(self, masks: ArrayLike) -> Floats:
        part, chosen = self.with_moments(as_masks(masks, self.n_features))
        return part.gain_many(chosen)

    def separate_gains_many(self, masks: ArrayLike) -> Floats:
        chosen = as_masks(masks, self.n_features)
        part, of_part = self.with_moments(chosen)
        gains = np.full(chosen.shape, np.nan)
        gains[:, held_features(chosen)] = part.separate_gains_many(of_part)
        return gains

    search_ratio_many = _of_complete("search_ratio_many")
    scoring = _of_complete("scoring_by_rows")
    scoring_by_rows = _of_complete("scoring_by_rows")
    subset_walk = _of_complete("subset_walk")
    alike = _of_complete("alike")

    def outside_support(self, masks: ArrayLike) -> Names:
        part, chosen = self.with_moments(as_masks(masks, self.n_features))
        return part.outside_support(chosen)


class Start(NamedTuple):
    """One start of one outcome, given as `SharedScatter.problem` takes it. prior: over the free
    features; columns (f,): theirs; forced (k,): of those always in; logits (f,); seed: of its
    draws; analytic (T,): when the KL term's gradient is exact"""

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
        """Return the largest size of a subset inside the support."""
        return len(self.forced) + self.prior.max_size


def on_device(
    engine: Variational, starts: Sequence[Start], d: int, device: torch.device
) -> tuple[Objectives, State, torch.Tensor]:
    """Return the objectives over d columns, the starting state, and the constants (B,) of the
    ELBOs."""
    import torch

    from ..kernels.device.ascent import Objectives, State

    n = len(starts)
    logits = np.full((n, d), -np.inf)
    log_odds = np.zeros((n, d))
    by_size = np.full((n, max(start.room for start in starts) + 2), -np.inf)
    for b, start in enumerate(starts):
        logits[b, start.forced] = np.inf
        logits[b, start.columns] = start.logits
        log_odds[b, start.columns] = start.prior.log_odds
        by_size[b, len(start.forced) : start.room + 1] = start.prior.log_size_weight[
            : start.prior.max_size + 1
        ]

    def there(values: object, dtype: torch.dtype = torch.float64) -> torch.Tensor:
        return torch.as_tensor(np.array(values), dtype=dtype, device=device)

    n_rows = there([start.n_rows for start in starts])
    seeds = there([start.seed for start in starts], torch.int64)
    objectives = Objectives(there(log_odds), there(by_size), n_rows, engine.infeasible_value)
    state = State(there(logits), there(np.zeros(n)), there(np.zeros(n), torch.bool), seeds)
    return objectives, state, there([-start.prior.log_normalizer for start in starts])


def climb_together(
    engine: Variational,
    starts: Sequence[Start],
    shared: SharedScatter,
    report: Callable[[float], object] = lambda share: None,
) -> list[Climb | None]:
    """Return what each start comes to; None if a draw could not be scored."""
    import torch

    from ..kernels.device.ascent import Leaders, ascend, with_prior_and_entropy

    device = shared.device
    d = shared.scatter.shape[1]
    n = len(starts)
    iterations = engine.iterations
    objectives, state, constant = on_device(engine, starts, d, device)
    analytic = torch.as_tensor(np.array([start.analytic for start in starts]).T, device=device)
    problem = shared.problem([start.outcome for start in starts])
    rates = engine.schedule.rates(iterations).tolist()
    leaders = Leaders.none(n, engine.leading, d, device)
    climbs: list[Climb | None] = [None] * n
    traces = np.empty((3, iterations, n))
    going = np.ones(n, dtype=bool)
    for first in range(0, iterations, STRETCH):
        part = slice(first, min(first + STRETCH, iterations))
        stretch = ascend(
            problem, objectives, state, first, rates[part], analytic[part], engine.pairs
        )
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
        report(part.stop / iterations)
        if not going.any():
            break
    return climbs


@dataclass(frozen=True, eq=False)
class Job:
    """One outcome: how to make its target, and how to run. removed (R, G, d): rows that are not
    used for it, as in `kernels.device.problem.Problem`"""

    name: str
    target: Callable[[], Target]
    removed: Floats
    options: RunOptions


class Found(NamedTuple):
    """Hold the posterior of an outcome, and its target."""

    target: Target
    posterior: Posterior


class _Waiting(NamedTuple):
    """Hold a job that is prepared, whose target is scored on the device.

    climbs : one for each start, None if the device cannot score all draws; seconds : its share of
        the batch
    """

    job: Job
    target: Target
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
    report: Callable[[float], object] = lambda share: None,
) -> Iterator[Result]:
    """Yield use(name, found) of each job, the same whatever is computed together and for any
    n_jobs; found is None if the device cannot score for the model, or if something is wrong with
    the outcome: the fit alone shows what.

    n_jobs : threads that prepare a batch for the device and, when the device has done with it,
        finish it. They never work while the device does: a thread that wants the interpreter's lock
        would hold up the launches
    report : called now and then with the share of a batch's iterations that are done
    """

    def finish(one: _Waiting | Job) -> Result:
        if isinstance(one, Job):
            return use(one.name, None)
        try:
            found = _finished(engine, one)
        except InvarianceError:
            found = None
        return use(one.job.name, found)

    remaining = iter(jobs)
    with threadpool_limits(1):
        while batch := list(islice(remaining, LARGEST_BATCH)):
            prepared = list(ordered_map(lambda job: _prepared(engine, job, shared), batch, n_jobs))
            done: list[_Waiting | Job] = [one for one in prepared if isinstance(one, Job)]
            waiting = [one for one in prepared if isinstance(one, _Waiting)]
            done += _together(engine, waiting, shared, report)
            yield from ordered_map(finish, done, n_jobs)


def _prepared(engine: Variational, job: Job, shared: SharedScatter) -> _Waiting | Job:
    """Return the job itself if it cannot go to the device."""
    try:
        target = job.target()
        model = shared.on_device(target.model, job.removed)
        if not isinstance(model, GaussianOnDevice):
            return job
        # A batch waits without the copies of second moments that searches make.
        ready = engine.prepare(FreeSpace(replace(target, model=model.anew())), job.options)
    except InvarianceError:
        return job
    prior = target.prior
    columns = model.moments.feature_columns
    starts = []
    for logits, rng in ready.starts.values():
        seed = int(rng.integers(-(1 << 63), 1 << 63))
        analytic = rng.random(engine.iterations) < engine.kl_analytic_probability
        where = columns[prior.free], columns[prior.forced]
        starts.append(
            Start(model.outcome, prior.over_free, model.n_rows, *where, logits, seed, analytic)
        )
    return _Waiting(job, replace(target, model=model), ready, starts)


def _together(
    engine: Variational,
    batch: Sequence[_Waiting],
    shared: SharedScatter,
    report: Callable[[float], object],
) -> Iterator[_Waiting]:
    """Climb from all starts of a batch; in halves if the device has too little memory for all at
    once."""
    import torch

    if not batch:
        return
    started = time.perf_counter()
    try:
        climbs = iter(
            climb_together(engine, [start for one in batch for start in one.starts], shared, report)
        )
    except torch.OutOfMemoryError as error:
        if len(batch) == 1:
            what = (
                f"device {shared.device} has too little memory for one outcome "
                f"({batch[0].job.name}): {error}"
            )
            raise EngineError(f"{what}. Use fewer pairs, or leave device= out.") from error
        climbs = None
    if climbs is None:
        torch.cuda.empty_cache()
        for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
            yield from _together(engine, half, shared, report)
        return
    seconds = (time.perf_counter() - started) / len(batch)
    for one in batch:
        yield one._replace(climbs=tuple(islice(climbs, len(one.starts))), seconds=seconds)


def _finished(engine: Variational, one: _Waiting) -> Found | None:
    """Return what the climbs come to; None if the device could not score some draw on the way."""
    if None in one.climbs:
        return None
    started = time.perf_counter() - one.seconds
    assert isinstance(one.target.model, GaussianOnDevice)
    model = one.target.model.anew()
    target = replace(one.target, model=model)
    space = FreeSpace(target)
    scorer = ScoredSubsets(
        lambda draws: model.log_ratio_many(target.masks(draws)),
        len(target.prior.free),
        engine.memory,
    )
    fits = {
        name: measured(space, climbed, rng, engine.fresh, scorer)
        for (name, (_, rng)), climbed in zip(one.ready.starts.items(), one.climbs, strict=True)
        if climbed is not None
    }
    return Found(target, engine.finish(space, one.ready, fits, started))
