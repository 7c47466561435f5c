"""Running a study: its replicates over processes or a Dask cluster, each written down as soon as it is finished."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._tools.progress import ProgressBar, ProgressMode
from .._version import __version__
from ..exceptions import StudyError
from .base import Cell, Study
from .store import Finished, Store

if TYPE_CHECKING:
    import pandas as pd

Task = tuple[Cell, tuple[int, ...]]
Batches = Generator[list[Finished], None, None]

_CONNECTION_SECONDS = 10
_IN_FLIGHT_PER_WORKER = 4
_held: Any = None


@dataclass(frozen=True, eq=False)
class StudyRun:
    """A completed study.

    results : its rows; seconds_each : of every replicate, wherever it ran, cell by cell
    seconds, n_now : of this session; n_before : replicates that earlier sessions had finished
    """

    study: Study
    folder: Path
    results: pd.DataFrame
    seconds_each: list[float]
    seconds: float
    n_now: int
    n_before: int
    workers: str

    @property
    def cost(self) -> float:
        """Seconds per replicate on one core: the mean over cells of the median of their replicates.

        The first replicates compile kernels, which later ones do not pay for: where there are others, the first of
        each cell is left out, or the first cell where each has but one.
        """
        import numpy as np

        seconds = np.reshape(self.seconds_each, (-1, self.study.replicates))
        if seconds.shape[1] > 1:
            seconds = seconds[:, 1:]
        elif len(seconds) > 1:
            seconds = seconds[1:]
        return float(np.median(seconds, axis=1).mean())


def run_study(
    study: Study,
    folder: str | os.PathLike[str],
    jobs: int | None = 1,
    dask: str | None = None,
    progress: ProgressMode = "auto",
) -> StudyRun:
    """Do the replicates that the folder does not hold yet, and write results, pictures and report.md.

    jobs : processes; None is one, -1 all cores. dask : address of a scheduler that is to do the work instead.
    Rows do not depend on either. An interrupted run is continued by calling again with the same folder.
    """
    if study.replicates < 1:
        raise StudyError(f"replicates={study.replicates}: at least one is needed.")
    store = Store(folder, study)
    with store.open() as finished:
        wanted = {(cell.key, number) for cell in study.cells() for number in range(study.replicates)}
        before = len(wanted & finished.keys())
        started = time.perf_counter()
        workers, batches = _workers(study, list(study.tasks(set(finished))), jobs, dask)
        with ProgressBar(study.name, len(wanted) - before, progress) as bar, closing(batches):
            for batch in batches:
                store.add(batch)
                finished.update({(one.cell, one.number): one for one in batch})
                bar.advance(len(batch))
        run = StudyRun(
            study=study,
            folder=store.folder,
            results=store.table(finished),
            seconds_each=[
                finished[cell.key, number].seconds for cell in study.cells() for number in range(study.replicates)
            ],
            seconds=time.perf_counter() - started,
            n_now=len(wanted) - before,
            n_before=before,
            workers=workers,
        )
        from .output import write_outputs

        write_outputs(run, store)
    return run


def run_task(study: Study, task: Task, version: str) -> list[Finished]:
    """The replicates of one task. Runs in the workers; only the study, a cell and numbers travel there."""
    if version != __version__:
        raise StudyError(f"a worker has invariance {__version__} and the study is run by {version}: install the same.")
    cell, numbers = task
    finished = []
    with warnings.catch_warnings():
        # What a method has to remark about one data set out of thousands is in its row.
        warnings.simplefilter("ignore")
        for number in numbers:
            started = time.perf_counter()
            rows = study.replicate(cell, number)
            finished.append(Finished(cell.key, number, time.perf_counter() - started, rows))
    return finished


def _run_in_worker(study: Study, task: Task, version: str) -> list[Finished]:
    """For processes that do nothing else: BLAS stays at one thread, whatever other tasks end in the meantime."""
    global _held
    if _held is None:
        _held = _one_thread()
    return run_task(study, task, version)


def _one_thread() -> Any:
    """Hold BLAS to one thread, which the last digits depend on; its libraries have to be loaded to be held."""
    import numpy  # noqa: F401
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def _workers(study: Study, tasks: list[Task], jobs: int | None, dask: str | None) -> tuple[str, Batches]:
    """Who does the work, in words, and the finished tasks in any order."""
    from .._tools.parallel import n_workers

    if dask is not None:
        if study.measures_time:
            raise StudyError(f"the study {study.name!r} measures seconds on this machine: run it without dask=.")
        return "a Dask cluster", _on_dask(study, tasks, dask)
    processes = 1 if study.measures_time else min(n_workers(jobs), max(len(tasks), 1))
    if processes == 1:
        return "1 process", _here(study, tasks)
    return f"{processes} processes", _on_processes(study, tasks, processes)


def _here(study: Study, tasks: list[Task]) -> Batches:
    for task in tasks:
        with _one_thread():
            batch = run_task(study, task, __version__)
        yield batch


def _on_processes(study: Study, tasks: list[Task], processes: int) -> Batches:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    # Few tasks in advance: an interrupt must not wait for many.
    pool = Parallel(processes, backend="loky", return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
    try:
        yield from pool(delayed(_run_in_worker)(study, task, __version__) for task in tasks)
    except TerminatedWorkerError as error:
        raise StudyError(
            "a worker process was killed, perhaps for want of memory. Finished replicates are kept: run it "
            "again, with fewer jobs, to continue."
        ) from error


def _on_dask(study: Study, tasks: list[Task], address: str) -> Batches:
    try:
        from distributed import Client, KilledWorker, as_completed
    except ImportError:
        raise StudyError("a Dask cluster needs Dask: install it with pip install 'invariance[dask]'.") from None
    _await_answer(address)
    with Client(address, timeout=_CONNECTION_SECONDS, set_as_default=False) as client:
        waiting = iter(tasks)

        def submit(count: int) -> list[Any]:
            # Results depend on the task only, so that a task whose worker died can be done again anywhere.
            chosen = islice(waiting, count)
            return [client.submit(_run_in_worker, study, task, __version__, pure=False) for task in chosen]

        threads = sum(client.nthreads().values())
        completed = as_completed(submit(_IN_FLIGHT_PER_WORKER * max(threads, 2)), loop=client.loop)
        try:
            for future in completed:
                batch = future.result()
                completed.update(submit(1))
                yield batch
        except KilledWorker as error:
            raise StudyError(
                "the Dask workers died again and again on one task, perhaps for want of memory. Finished replicates "
                "are kept: run it again to continue."
            ) from error


def _await_answer(address: str) -> None:
    """Raise unless a scheduler answers there soon.

    A Client that cannot connect would say so late or, where the other side keeps silent, never.
    """
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from distributed import Security
    from distributed.comm import connect

    async def greet() -> None:
        options = Security().get_connection_args("client")
        comm = await asyncio.wait_for(connect(address, timeout=_CONNECTION_SECONDS, **options), _CONNECTION_SECONDS)
        await comm.close()

    # A thread of its own: in a notebook this one already has an event loop.
    with ThreadPoolExecutor(1) as thread:
        try:
            thread.submit(lambda: asyncio.run(greet())).result()
        except (OSError, ValueError, TypeError) as error:
            reason = str(error) or f"no greeting within {_CONNECTION_SECONDS} s"
            raise StudyError(
                f"no Dask scheduler answers at {address!r} ({reason}). Start one with `dask scheduler` and give the "
                "address that it prints, such as tcp://10.0.0.1:8786, or run it without dask=."
            ) from error
