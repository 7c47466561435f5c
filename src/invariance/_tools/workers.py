"""Many tasks over processes or a Dask cluster: results as they are finished, the same whoever did them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from ..exceptions import EngineError, InvarianceError
from .loan import Loan, borrowed, lent
from .parallel import n_workers
from .work import Work, hold_one_thread, one_thread

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")


def finished(
    function: Callable[[Shared, Task], Result],
    tasks: Sequence[Task],
    *,
    shared: Shared,
    jobs: int | None,
    dask: str | None = None,
    error: type[InvarianceError] = EngineError,
    kept: str = "What is finished is kept",
) -> tuple[str, Generator[Result, None, None]]:
    """Who does the work, in words, and `function(shared, task)` of all tasks in any order.

    function : of a module, and of its arguments only: a task whose worker died is done again elsewhere
    shared : may hold large arrays; the processes map one copy of it and a cluster is sent it once
    jobs : processes; None is one, -1 all cores. dask : address of a scheduler that is to do the work instead
    error, kept : the class of complaints, and what they say of a run that is broken off
    """
    work = Work(function, shared, error, kept)
    if dask is not None:
        from .cluster import on_cluster

        return "a Dask cluster", on_cluster(work, tasks, dask)
    processes = min(n_workers(jobs), max(len(tasks), 1))
    if processes == 1:
        return "1 process", _here(work, tasks)
    return f"{processes} processes", _on_processes(work, tasks, processes)


def _here(work: Work, tasks: Sequence[Any]) -> Generator[Any, None, None]:
    for task in tasks:
        with one_thread():
            result = work.function(work.shared, task)
        yield result


def _on_processes(work: Work, tasks: Sequence[Any], processes: int) -> Generator[Any, None, None]:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    # Few tasks in advance: an interrupt must not wait for many.
    pool = Parallel(processes, backend="loky", return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
    with lent(work.shared) as loan:
        try:
            yield from pool(delayed(_in_process)(work.function, loan, task) for task in tasks)
        except TerminatedWorkerError as error:
            raise work.error(
                f"a worker process was killed, perhaps for want of memory. {work.kept}: run it again, with fewer "
                "jobs, to continue."
            ) from error


def _in_process(function: Callable[[Any, Any], Any], loan: Loan, task: Any) -> Any:
    hold_one_thread()
    return function(borrowed(loan), task)
