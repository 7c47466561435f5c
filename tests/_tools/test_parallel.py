"""One function over many tasks: here, on processes, and on a Dask cluster whose workers die; memory
that is free."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from invariance._tools import parallel
from invariance._tools.parallel import run_tasks
from invariance._version import __version__
from invariance.exceptions import EngineError, InvarianceWarning

distributed = pytest.importorskip("distributed")

from local_cluster import Cluster, two_workers


def scaled(shared: np.ndarray, task: int) -> float:
    return float(shared[task] * 2)


def kinds(shared: dict[str, np.ndarray], task: int) -> tuple[Any, ...]:
    """What a compiled kernel and the least digits depend on."""
    from threadpoolctl import threadpool_info

    array = shared["array"]
    threads = {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }
    return (
        array.flags.writeable,
        array.ctypes.data % 16,
        isinstance(array, np.memmap),
        float(array.sum()),
        *threads,
    )


def dies(shared: None, task: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return task


def slow(shared: np.ndarray, task: int) -> tuple[int, float]:
    time.sleep(0.03)
    return task, float(shared[task])


def complains(shared: None, task: int) -> int:
    raise EngineError("a bad setting") if task == 3 else ZeroDivisionError


@pytest.mark.parametrize(
    ("jobs", "who"),
    [(None, "1 process"), pytest.param(2, "2 processes", marks=pytest.mark.integration)],
)
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
    for tasks in ([], [1]):
        who, results = run_tasks(scaled, tasks, shared=np.arange(2.0), jobs=4)
        assert (who, list(results)) == ("1 process", [2.0] * len(tasks))


@pytest.mark.integration
def test_a_killed_process() -> None:
    with pytest.raises(EngineError, match="Rows are kept"):
        list(run_tasks(dies, [1, 2], shared=None, jobs=2, kept="Rows are kept")[1])


def test_free_memory_counts_files_that_are_kept_and_the_limit_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "meminfo"
    limit = tmp_path / "memory.max"
    told.write_text("MemTotal:  100 kB\nMemFree:  1 kB\nMemAvailable:   70 kB\nCached:  80 kB\n")
    monkeypatch.setattr(parallel, "_LINUX", told)
    monkeypatch.setattr(parallel, "_GROUP", tmp_path)
    assert parallel.free_bytes() == 70 * 1024
    (tmp_path / "memory.current").write_text("30000\n")
    (tmp_path / "memory.stat").write_text("anon 5\nactive_file 7\ninactive_file 4000\n")
    for written, free in (
        ("50000", 24_000),
        ("10000", 0),
        ("9223372036854771712", 70 * 1024),
        ("max", 70 * 1024),
    ):
        limit.write_text(f"{written}\n")
        assert parallel.free_bytes() == free
    monkeypatch.setattr(parallel, "_LINUX", tmp_path / "nowhere")
    assert parallel.free_bytes() is None


# ---- Dask


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    with two_workers(Path(__file__).parent) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    shared_cluster.await_both()
    return shared_cluster


@pytest.mark.integration
def test_dask_goes_on_when_a_worker_dies(cluster: Cluster) -> None:
    values = np.random.default_rng(0).normal(size=200_000)
    who, results = run_tasks(slow, range(60), shared=values, jobs=None, dask=cluster.address)
    got = []
    for result in results:
        got.append(result)
        if len(got) == 10:
            cluster.kill(1)
    assert who == "a Dask cluster"
    assert sorted(got) == [(task, float(values[task])) for task in range(60)]


@pytest.mark.integration
@pytest.mark.slow
def test_a_task_that_kills_its_workers(cluster: Cluster) -> None:
    with pytest.raises(EngineError, match="Rows are kept"):
        list(
            run_tasks(
                dies, [1], shared=np.ones(3), jobs=None, dask=cluster.address, kept="Rows are kept"
            )[1]
        )


@pytest.mark.integration
@pytest.mark.parametrize("lacking", [False, True])
def test_another_version_on_the_cluster_or_none(
    cluster: Cluster, lacking: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question is put as where the package is missing: it must be of the standard library."""
    original = distributed.Client.run
    found = f"has invariance {__version__}, and version 0.0.1"

    def ask(self: Any, function: Any, name: str, **how: Any) -> Any:
        assert function.__module__ == "pkgutil"
        return original(self, function, name.replace("invariance", "not_installed"), **how)

    if lacking:
        monkeypatch.setattr(distributed.Client, "run", ask)
        found = r"the Dask worker tcp://\S+ has no invariance \(No module named 'not_installed'\)"
    monkeypatch.setattr(parallel, "__version__", "0.0.1")
    with pytest.raises(EngineError, match=found):
        list(run_tasks(scaled, [1], shared=np.ones(3), jobs=None, dask=cluster.address)[1])


@pytest.mark.integration
def test_a_cluster_that_has_no_worker_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """One comes when the warning has been given."""
    warn = warnings.warn
    with distributed.LocalCluster(
        n_workers=0, processes=False, dashboard_address=":0", protocol="tcp://"
    ) as local:

        def warned(*given: Any, **how: Any) -> None:
            warn(*given, **how)
            local.scale(1)

        monkeypatch.setattr(parallel.warnings, "warn", warned)
        advice = (
            r"no worker at present: waiting\. Start one with `dask worker "
            rf"{local.scheduler_address}`\.$"
        )
        with pytest.warns(InvarianceWarning, match=advice):
            assert list(
                run_tasks(scaled, [1], shared=np.ones(3), jobs=None, dask=local.scheduler_address)[
                    1
                ]
            ) == [2.0]


@pytest.mark.integration
def test_a_scheduler_that_goes_away(cluster: Cluster) -> None:
    _, results = run_tasks(
        slow,
        range(2000),
        shared=np.arange(2000.0),
        jobs=None,
        dask=cluster.address,
        kept="Rows are kept",
    )
    next(results)
    cluster.local.close()
    with pytest.raises(EngineError, match="Rows are kept"):
        list(results)


@pytest.mark.integration
def test_addresses_at_which_no_scheduler_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_CONNECTION_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        quiet = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        for address in (
            "nonsense",
            "",
            "foo://127.0.0.1:1",
            "127.0.0.1:99999",
            "tcp://127.0.0.1:1",
            quiet,
        ):
            with pytest.raises(EngineError, match=re.escape(repr(address))):
                list(run_tasks(scaled, [1], shared=np.ones(3), jobs=None, dask=address)[1])


def blas_threads() -> set[int]:
    from threadpoolctl import threadpool_info

    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


def test_blas_has_one_thread_while_anybody_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who enters first need not leave last; whatever there was before is there again afterwards."""
    from threadpoolctl import threadpool_limits

    monkeypatch.setattr(parallel, "_holders", [])  # other tests may hold it for ever
    with threadpool_limits(2, user_api="blas"):
        first = parallel.one_thread()
        second = parallel.one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {2}
        assert list(parallel.ordered_map(lambda _: blas_threads(), range(3), 2)) == [{1}] * 3
        assert blas_threads() == {2}


@pytest.mark.parametrize(
    ("outer", "expected"),
    [
        (range(2), [4, 4]),
        (range(3), [2, 2, 2]),
        (range(20), [1] * 20),
        ((item for item in range(2)), [1, 1]),
    ],
)
def test_threads_of_a_thread_share_its_part_of_the_processors(
    monkeypatch: pytest.MonkeyPatch, outer: Iterable[int], expected: list[int]
) -> None:
    """Eight workers on a few items: each item may start its share of them; on many items, or
    unknown ones, none."""
    pools = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, max_workers: int, **how: Any) -> None:
            pools.append(max_workers)
            super().__init__(max_workers, **how)

    monkeypatch.setattr(parallel, "ThreadPoolExecutor", Pool)

    def inside(_: int) -> list[int]:
        return list(parallel.ordered_map(lambda item: item, range(16), 8))

    assert list(parallel.ordered_map(inside, outer, 8)) == [list(range(16))] * len(expected)
    # One worker needs no pool.
    assert pools == [8, *(size for size in expected if size > 1)]
