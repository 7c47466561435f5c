"""One function over many tasks: here and on processes, which share what is large."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from invariance._tools import parallel as loan_module
from invariance._tools.parallel import borrowed, finished, lent
from invariance.exceptions import EngineError, FileError


def scaled(shared: np.ndarray, task: int) -> float:
    return float(shared[task] * 2)


def kinds(shared: dict[str, np.ndarray], task: int) -> tuple[Any, ...]:
    """What a compiled kernel and the least digits depend on."""
    array = shared["array"]
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    return (
        type(array) is np.ndarray,
        array.flags.writeable,
        shared["fixed"].flags.writeable,
        array.ctypes.data % 64,
        isinstance(base.base, memoryview),
        id(array),
        os.getpid(),
    )


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


def test_processes_map_arrays_once() -> None:
    shared = {"array": np.arange(1000.0), "odd": np.zeros(3, dtype=bool), "fixed": np.ones(5)}
    shared["fixed"].setflags(write=False)
    _, results = finished(kinds, range(12), shared=shared, jobs=2)
    seen = set(results)
    assert {one[:5] for one in seen} == {(True, True, False, 0, True)}
    assert len({one[5:] for one in seen}) == len({one[6] for one in seen}) <= 2, "one object in each process"


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
    words = r"killed, perhaps for want of memory\. Rows are kept: run it again, with fewer jobs, to continue\.$"
    with pytest.raises(EngineError, match=words):
        list(finished(dies, [1, 2], shared=None, jobs=2, error=EngineError, kept="Rows are kept")[1])
    with pytest.raises(EngineError, match="What is finished is kept"):
        list(finished(dies, [1, 2], shared=None, jobs=2)[1])


# ---------------------------------------------------------------- what is lent


@pytest.mark.parametrize("named", [False, True])
def test_nothing_is_left_behind(named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loan_module, "_MEMORY_FOLDER", str(tmp_path))
    if named:
        monkeypatch.setattr(loan_module, "_OPEN_FILES", tmp_path / "not on this system")
    shared = {
        "array": np.arange(100.0),
        "text": "ä",
        "nested": [np.ones((3, 4), order="F")],
        "strided": np.ones(9)[::2],
    }
    with suppress(KeyboardInterrupt), lent(shared) as loan:
        assert bool(list(tmp_path.iterdir())) is named
        assert len(pickle.dumps(loan)) < 1000
        there = borrowed(loan)
        assert there["text"] == "ä"
        np.testing.assert_array_equal(there["array"], shared["array"])
        np.testing.assert_array_equal(there["strided"], shared["strided"])
        assert there["nested"][0].flags.f_contiguous
        there["array"][0] = -1.0
        assert shared["array"][0] == 0.0
        assert borrowed(loan) is there
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    assert not Path(loan.path).exists()
    borrowed.cache_clear()


def test_where_it_is_lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    room = {str(memory): 1000, str(disk): 5000}
    monkeypatch.setattr(loan_module, "_MEMORY_FOLDER", str(memory))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(disk))

    class Usage(NamedTuple):
        free: int

    monkeypatch.setattr(shutil, "disk_usage", lambda place: Usage(room[str(place)]))
    place_for = loan_module._place_for
    assert (place_for(499), place_for(500)) == (str(memory), str(disk))
    with pytest.raises(FileError, match=r"takes 3\.2 GB, and .*memory and .*disk have less .* TMPDIR\.$"):
        place_for(3_200_000_000)
    monkeypatch.setattr(loan_module, "_MEMORY_FOLDER", str(tmp_path / "none"))
    assert place_for(499) == str(disk)
