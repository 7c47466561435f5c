"""One function over many tasks on a Dask cluster whose workers die."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
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

pytestmark = pytest.mark.integration


def scaled(shared: np.ndarray, task: int) -> float:
    return float(shared[task] * 2)


def dies(shared: None, task: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return task


def slow(shared: np.ndarray, task: int) -> tuple[int, float]:
    time.sleep(0.03)
    return task, float(shared[task])


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    with two_workers(Path(__file__).parent) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    shared_cluster.await_both()
    return shared_cluster


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


@pytest.mark.slow
def test_a_task_that_kills_its_workers(cluster: Cluster) -> None:
    with pytest.raises(EngineError, match="Rows are kept"):
        list(run_tasks(dies, [1], shared=np.ones(3), jobs=None, dask=cluster.address, kept="Rows are kept")[1])


@pytest.mark.parametrize("lacking", ["", "scheduler", "worker"])
def test_another_version_on_the_cluster_or_none(
    cluster: Cluster, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question is put as where the package is missing: it must be of the standard library."""
    method = {"scheduler": "run_on_scheduler", "worker": "run"}.get(lacking, "run")
    original = getattr(distributed.Client, method)

    def ask(self: Any, function: Any, name: str, **how: Any) -> Any:
        assert function.__module__ == "pkgutil"
        return original(self, function, name.replace("invariance", "not_installed") if lacking else name, **how)

    monkeypatch.setattr(distributed.Client, method, ask)
    monkeypatch.setattr(parallel, "__version__", "0.0.1" if not lacking else __version__)
    found = rf"the Dask {lacking}( tcp://\S+)? has no invariance \(No module named 'not_installed'\)"
    with pytest.raises(EngineError, match=found if lacking else f"has invariance {__version__}, and version 0.0.1"):
        list(run_tasks(scaled, [1], shared=np.ones(3), jobs=None, dask=cluster.address)[1])


def test_a_cluster_that_has_no_worker_yet() -> None:
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0", protocol="tcp://") as local:
        timer = threading.Timer(0.5, local.scale, (1,))
        timer.start()
        advice = rf"no worker at present: waiting\. Start one with `dask worker {local.scheduler_address}`\.$"
        with pytest.warns(InvarianceWarning, match=advice):
            assert list(run_tasks(scaled, [1], shared=np.ones(3), jobs=None, dask=local.scheduler_address)[1]) == [2.0]
        timer.join()


def test_a_scheduler_that_goes_away(cluster: Cluster) -> None:
    _, results = run_tasks(
        slow, range(2000), shared=np.arange(2000.0), jobs=None, dask=cluster.address, kept="Rows are kept"
    )
    next(results)
    cluster.local.close()
    with pytest.raises(EngineError, match="Rows are kept"):
        list(results)


def test_addresses_at_which_no_scheduler_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_CONNECTION_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        quiet = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        for address in ("nonsense", "", "foo://127.0.0.1:1", "127.0.0.1:99999", "tcp://127.0.0.1:1", quiet):
            with pytest.raises(EngineError, match=re.escape(repr(address))):
                list(run_tasks(scaled, [1], shared=np.ones(3), jobs=None, dask=address)[1])
