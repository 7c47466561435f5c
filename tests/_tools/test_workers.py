"""One function over many tasks: here and on processes, which share what is large; memory that is free."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from invariance._tools import parallel
from invariance._tools.parallel import run_tasks
from invariance.exceptions import EngineError


def scaled(shared: np.ndarray, task: int) -> float:
    return float(shared[task] * 2)


def kinds(shared: dict[str, np.ndarray], task: int) -> tuple[Any, ...]:
    """What a compiled kernel and the least digits depend on."""
    from threadpoolctl import threadpool_info

    array = shared["array"]
    threads = {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
    return array.flags.writeable, array.ctypes.data % 16, isinstance(array, np.memmap), float(array.sum()), *threads


def dies(shared: None, task: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return task


def complains(shared: None, task: int) -> int:
    raise EngineError("a bad setting") if task == 3 else ZeroDivisionError


@pytest.mark.parametrize(("jobs", "who"), [(1, "1 process"), (None, "1 process"), (2, "2 processes")])
def test_all_tasks_are_done(jobs: int | None, who: str) -> None:
    for factor in (1.0, 10.0):  # the same processes, and files that are found under the same path
        said, results = run_tasks(scaled, range(20), shared=factor * np.arange(20.0), jobs=jobs)
        assert said == who
        assert sorted(results) == [2.0 * factor * task for task in range(20)]
    shared = {"array": np.arange(300_000.0)}
    large = set(run_tasks(kinds, range(3), shared=shared, jobs=jobs)[1])
    assert large == {(True, 0, jobs == 2, float(shared["array"].sum()), 1)}
    for task, error in ((3, EngineError), (1, ZeroDivisionError)):
        with pytest.raises(error):
            list(run_tasks(complains, [task, task], shared=None, jobs=jobs)[1])


def test_no_more_processes_than_tasks() -> None:
    assert run_tasks(scaled, [1], shared=np.arange(2.0), jobs=4)[0] == "1 process"
    who, results = run_tasks(scaled, [], shared=np.arange(2.0), jobs=2)
    assert (who, list(results)) == ("1 process", [])


def test_a_killed_process() -> None:
    with pytest.raises(EngineError, match="Rows are kept"):
        list(run_tasks(dies, [1, 2], shared=None, jobs=2, kept="Rows are kept")[1])


def test_free_memory_counts_files_that_are_kept_and_the_limit_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    told.write_text("MemTotal:  100 kB\nMemFree:  1 kB\nMemAvailable:   70 kB\nCached:  80 kB\n")
    monkeypatch.setattr(parallel, "_LINUX", told)
    monkeypatch.setattr(parallel, "_GROUP", tmp_path)
    assert parallel.free_bytes() == 70 * 1024
    (tmp_path / "memory.current").write_text("30000\n")
    (tmp_path / "memory.stat").write_text("anon 5\nactive_file 7\ninactive_file 4000\n")
    for written, free in (("50000", 24_000), ("10000", 0), ("9223372036854771712", 70 * 1024), ("max", 70 * 1024)):
        limit.write_text(f"{written}\n")
        assert parallel.free_bytes() == free
    monkeypatch.setattr(parallel, "_LINUX", tmp_path / "nowhere")
    assert parallel.free_bytes() is None or parallel.free_bytes() > 0
