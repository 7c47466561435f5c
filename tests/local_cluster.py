"""A Dask cluster of two processes on this machine that tests may kill: others take their place."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import distributed
import pytest

SOURCE = Path(__file__).parents[1] / "src"


@dataclass(frozen=True)
class Cluster:
    local: Any

    @property
    def address(self) -> str:
        return str(self.local.scheduler_address)

    def pids(self) -> list[int]:
        return [
            nanny.process.pid
            for nanny in self.local.workers.values()
            if nanny.process and nanny.process.pid
        ]

    def kill(self, count: int | None = None) -> None:
        """So many workers, or all."""
        for pid in self.pids()[:count]:
            os.kill(pid, signal.SIGKILL)

    def await_both(self) -> None:
        with distributed.Client(self.local, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=600)


@contextmanager
def two_workers(*folders: Path) -> Iterator[Cluster]:
    """folders : where the workers find the functions that tests send there"""
    path = os.pathsep.join([str(SOURCE), *map(str, folders), os.environ.get("PYTHONPATH", "")])
    options = {
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": None,
        "host": "127.0.0.1",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        patch.setattr("invariance._tools.parallel._CONNECTION_SECONDS", 600)
        with distributed.LocalCluster(n_workers=2, **options) as local:
            yield Cluster(local)
