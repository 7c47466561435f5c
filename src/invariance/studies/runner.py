"""Running a study: its replicates over processes or a Dask cluster, each written down as soon as it is finished."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .._tools.parallel import finished
from .._tools.progress import ProgressBar, ProgressMode
from ..exceptions import EngineError
from .base import Cell, Study
from .store import Finished, Store

if TYPE_CHECKING:
    import pandas as pd

Task = tuple[Cell, tuple[int, ...]]
Batches = Generator[list[Finished], None, None]


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
        raise EngineError(f"replicates={study.replicates}: at least one is needed.")
    store = Store(folder, study)
    with store.open() as done:
        wanted = {(cell.key, number) for cell in study.cells() for number in range(study.replicates)}
        before = len(wanted & done.keys())
        started = time.perf_counter()
        workers, batches = _workers(study, list(study.tasks(set(done))), jobs, dask)
        with ProgressBar(study.name, len(wanted) - before, progress) as bar, closing(batches):
            for batch in batches:
                store.add(batch)
                done.update({(one.cell, one.number): one for one in batch})
                bar.advance(len(batch))
        run = StudyRun(
            study=study,
            folder=store.folder,
            results=store.table(done),
            seconds_each=[
                done[cell.key, number].seconds for cell in study.cells() for number in range(study.replicates)
            ],
            seconds=time.perf_counter() - started,
            n_now=len(wanted) - before,
            n_before=before,
            workers=workers,
        )
        from .output import write_outputs

        write_outputs(run, store)
    return run


def run_task(study: Study, task: Task) -> list[Finished]:
    """The replicates of one task. Runs in the workers; only the study, a cell and numbers travel there."""
    cell, numbers = task
    batch = []
    with warnings.catch_warnings():
        # What a method has to remark about one data set out of thousands is in its row.
        warnings.simplefilter("ignore")
        for number in numbers:
            started = time.perf_counter()
            rows = study.replicate(cell, number)
            batch.append(Finished(cell.key, number, time.perf_counter() - started, rows))
    return batch


def _workers(study: Study, tasks: list[Task], jobs: int | None, dask: str | None) -> tuple[str, Batches]:
    """Who does the work, in words, and the finished tasks in any order."""
    if study.measures_time and dask is not None:
        raise EngineError(f"the study {study.name!r} measures seconds on this machine: run it without dask=.")
    return finished(
        run_task,
        tasks,
        shared=study,
        jobs=1 if study.measures_time else jobs,
        dask=dask,
        error=EngineError,
        kept="Finished replicates are kept",
    )
