"""One function over many tasks: here and on processes, which share what is large."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest

from invariance._tools.parallel import finished
from invariance.exceptions import EngineError


def scaled(shared: np.ndarray, task: int) -> float:
    return float(shared[task] * 2)


def kinds(shared: dict[str, np.ndarray], task: int) -> tuple[Any, ...]:
    """What a compiled kernel and the least digits depend on."""
    array = shared["array"]
    return array.flags.writeable, array.ctypes.data % 16, isinstance(array, np.memmap), float(array.sum())


def threads(shared: None, task: int) -> list[int]:
    from threadpoolctl import threadpool_info

    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def dies(shared: None, task: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return task


def complains(shared: None, task: int) -> int:
    raise EngineError("a bad setting") if task == 3 else ZeroDivisionError


# ---------------------------------------------------------------- here and on processes


@pytest.mark.parametrize(("jobs", "who"), [(1, "1 process"), (None, "1 process"), (2, "2 processes")])
def test_all_tasks_are_done(jobs: int | None, who: str) -> None:
    said, results = finished(scaled, range(20), shared=np.arange(20.0), jobs=jobs)
    assert said == who
    assert sorted(results) == [2.0 * task for task in range(20)]


def test_no_more_processes_than_tasks() -> None:
    assert finished(scaled, [1], shared=np.arange(2.0), jobs=4)[0] == "1 process"
    who, results = finished(scaled, [], shared=np.arange(2.0), jobs=2)
    assert (who, list(results)) == ("1 process", [])


def test_processes_never_mix_up_what_is_shared() -> None:
    """The same processes, and files that are found under the same path."""
    for factor in (1.0, 10.0, 100.0):
        _, results = finished(scaled, range(4), shared=factor * np.arange(4.0), jobs=2)
        assert sorted(results) == [0.0, 2 * factor, 4 * factor, 6 * factor]


def test_processes_map_large_arrays() -> None:
    shared = {"array": np.arange(300_000.0)}
    _, results = finished(kinds, range(6), shared=shared, jobs=2)
    assert set(results) == {(True, 0, True, float(shared["array"].sum()))}


@pytest.mark.parametrize("jobs", [1, 2])
def test_blas_has_one_thread(jobs: int) -> None:
    _, results = finished(threads, range(3), shared=None, jobs=jobs)
    for counts in results:
        assert counts
        assert set(counts) == {1}


@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_of_a_task_come_through(jobs: int) -> None:
    with pytest.raises(EngineError, match="a bad setting"):
        list(finished(complains, [3, 3], shared=None, jobs=jobs)[1])
    with pytest.raises(ZeroDivisionError):
        list(finished(complains, [1, 1], shared=None, jobs=jobs)[1])


def test_a_killed_process() -> None:
    with pytest.raises(EngineError, match="Rows are kept"):
        list(finished(dies, [1, 2], shared=None, jobs=2, kept="Rows are kept")[1])
