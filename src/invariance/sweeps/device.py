"""A sweep whose variational ascents run on a device, for many outcomes at once."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial

from ..conditionals.by_outcome import ByOutcome
from ..conditionals.gaussian_device import SharedScatter, as_device
from ..conditionals.linear_gaussian import LinearGaussian
from ..conditionals.registry import as_conditional
from ..decisions.search import generator
from ..exceptions import DataError, SettingError
from ..inference.base import Engine, RunOptions
from ..inference.target import Target
from ..inference.variational.batched import Job, each_posterior
from ..inference.variational.engine import Variational
from .fitting import Entry, Sweep, fit_outcome, model_for


def check_device(sweep: Sweep, device: str) -> None:
    """Raise where the device cannot do what the sweep asks for, or is not there."""
    _engine(sweep, device)
    as_device(device)


def _engine(sweep: Sweep, device: str) -> Variational:
    inference = sweep.model.inference
    engine = Variational() if inference == "vi" else inference
    if not isinstance(engine, Variational):
        raise SettingError(
            f"device={device!r} does variational inference, not {_text(inference)}: use inference='vi', or leave "
            "device= out."
        )
    conditional = as_conditional(sweep.model.conditional)
    plain = isinstance(conditional, LinearGaussian) and conditional.invariance == "distribution"
    if not plain and not isinstance(conditional, ByOutcome):
        raise SettingError(
            f"device={device!r} knows the linear Gaussian conditional only, and with invariance='distribution', "
            f"not {conditional!r}: choose that, or leave device= out."
        )
    if sweep.source.features_only:
        names = ", ".join(sweep.source.features_only[:8])
        raise SettingError(
            f"device={device!r} knows features of one column only, and these have several: {names}. Exclude them, or "
            "leave device= out."
        )
    return engine


def _text(inference: str | Engine) -> str:
    return f"inference={inference!r}" if isinstance(inference, str) else type(inference).__name__


def on_device(
    sweep: Sweep, outcomes: Sequence[str], device: str, n_jobs: int | None
) -> tuple[str, Generator[Entry, None, None]]:
    """Who does the work, in words, and what is kept of each outcome; n_jobs : threads that finish it."""
    engine = _engine(sweep, device)
    place = as_device(device)
    return f"device {place}", _entries(sweep, outcomes, engine, SharedScatter(sweep.source.moments, place), n_jobs)


def _entries(
    sweep: Sweep, outcomes: Sequence[str], engine: Variational, shared: SharedScatter, n_jobs: int | None
) -> Generator[Entry, None, None]:
    jobs = (_job(sweep, outcome) for outcome in outcomes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.perf_counter()
        # What does not suit the device, such as an outcome that cannot be fitted at all, is fitted here.
        for entry in each_posterior(engine, jobs, shared, partial(fit_outcome, sweep), n_jobs):
            took, started = time.perf_counter() - started, time.perf_counter()
            yield replace(entry, seconds=took)


def _job(sweep: Sweep, outcome: str) -> Job:
    model = model_for(sweep, outcome)
    rng = generator(model.random_state)
    search = model.search(rng)

    def target() -> Target:
        moments = sweep.source.reduced(outcome)
        if moments is None:
            raise DataError(f"the rows that perturb {outcome!r} are far from the others, which have to be seen again.")
        return search.target(moments)

    return Job(outcome, target, sweep.source.removed(outcome), RunOptions(1, copy.deepcopy(rng), False))
