"""Rows that the workers of a Dask cluster read: the same bits as here, whoever dies."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("distributed")
pa = pytest.importorskip("pyarrow")
dd = pytest.importorskip("dask.dataframe")

import pyarrow.parquet as pq
from distributed import Client

from app_server import wait_until
from arrow_rows import assert_alike, assert_same_bits
from invariance import Moments
from invariance.data.sources import ParquetSource, RowTask
from invariance.exceptions import DataError, DataWarning, EngineError, SettingError
from local_cluster import Cluster, two_workers

pytestmark = pytest.mark.integration
N_TASKS = 20


@dataclass(frozen=True)
class SlowTask:
    task: RowTask

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        time.sleep(0.1)
        return self.task.batches(columns)


def table(n: int = 2000) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    values = pd.DataFrame(rng.normal([1e6, 0.0, 0.0], size=(n, 3)), columns=["a", "b", "y"])
    kinds = pd.Categorical(
        rng.choice(["low", "mid", "high"], n), ["low", "mid", "high"], ordered=True
    )
    return values.assign(kind=kinds, site=rng.choice(["north", "south", "west"], n))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with two_workers(Path(__file__).parent) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.local, set_as_default=False) as client:
        yield client


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("invariance.data.sources.TASK_BYTES", 1)
    monkeypatch.setattr("invariance.data.sources.TASK_ROWS_PER_COLUMN", 0)
    path = tmp_path / "rows.parquet"
    frame = table()
    pq.write_table(pa.Table.from_pandas(frame), path, row_group_size=len(frame) // N_TASKS)
    return path


def test_files_give_the_same_bits_as_here(client: Client, file: Path) -> None:
    there = Moments.from_rows(file, "y", "site", dask=client)
    assert_same_bits(there, Moments.from_rows(file, "y", "site", n_jobs=2))


@pytest.mark.slow
def test_a_worker_dies_and_the_bits_stay_the_same(
    cluster: Cluster, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Moments.from_rows(file, "y", "site")
    original = ParquetSource.tasks
    monkeypatch.setattr(
        ParquetSource, "tasks", lambda *asked: [SlowTask(task) for task in original(*asked)]
    )
    before = set(cluster.pids())
    killer = Timer(0.5, cluster.kill, [1])
    killer.start()
    there = Moments.from_rows(file, "y", "site", dask=cluster.address)
    killer.join()
    wait_until(lambda: len(set(cluster.pids()) - before) == 1)
    assert_same_bits(there, here)


def with_holes() -> pd.DataFrame:
    frame = table()
    frame.loc[::7, "a"] = np.nan
    frame.loc[::11, "kind"] = None
    frame.loc[:9, "site"] = None
    return frame


@pytest.mark.parametrize("where", ["cluster", "here"])
def test_a_dask_data_frame(client: Client, where: str) -> None:
    frame = with_holes()
    there: dict[str, Any] = {"dask": client} if where == "cluster" else {"n_jobs": 2}
    with pytest.warns(DataWarning) as local:
        expected = Moments.from_rows(frame, "y", "site", missing="drop")
    with pytest.warns(DataWarning) as remote:
        found = Moments.from_rows(
            dd.from_pandas(frame, npartitions=11), "y", "site", missing="drop", **there
        )
    assert_alike(found, expected)
    assert [str(each.message) for each in remote] == [str(each.message) for each in local]
    assert found.dropped_rows == expected.dropped_rows
    assert found.feature_names == ("a", "b", "kind")


def test_the_current_client_reads_a_dask_data_frame(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = dd.from_pandas(table(), npartitions=3)
    here = Moments.from_rows(rows, "y", "site")
    asked = []
    original = Client.compute
    monkeypatch.setattr(
        Client, "compute", lambda self, *given: asked.append(self) or original(self, *given)
    )
    with Client(cluster.local) as current:
        assert_same_bits(Moments.from_rows(rows, "y", "site"), here)
        assert asked == [current]


def test_complaints_are_those_made_here(client: Client, tmp_path: Path) -> None:
    for name, frame in (
        ("holes", with_holes()),
        ("ids", table().assign(b=2**60 + np.arange(2000))),
    ):
        path = tmp_path / f"{name}.parquet"
        frame.to_parquet(path)
        with pytest.raises(DataError) as here:
            Moments.from_rows(path, "y", "site")
        with pytest.raises(DataError) as there:
            Moments.from_rows(path, "y", "site", dask=client)
        assert str(there.value) == str(here.value)


def test_a_file_that_workers_do_not_find(
    client: Client, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ParquetSource.tasks

    def gone(*asked: Any) -> Any:
        tasks = original(*asked)
        file.unlink()
        return tasks

    monkeypatch.setattr(ParquetSource, "tasks", gone)
    with pytest.raises(
        DataError, match=r"Dask worker does not find .*rows\.parquet.* run it without dask="
    ):
        Moments.from_rows(file, "y", "site", dask=client)


def test_what_does_not_go_together(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariance._tools.parallel._CONNECTION_SECONDS", 1)
    with pytest.raises(
        SettingError, match="dask= is for files and Dask data frames, which the table is not"
    ):
        Moments.from_rows(table(), "y", "site", dask="tcp://127.0.0.1:1")
    with pytest.raises(SettingError, match="n_jobs= is for this machine and dask= for a cluster"):
        Moments.from_rows(file, "y", "site", n_jobs=2, dask="tcp://127.0.0.1:1")
    with pytest.raises(SettingError, match="sep= is not for the Dask data frame: leave it out"):
        Moments.from_rows(dd.from_pandas(table(), npartitions=1), "y", "site", sep=";")
    with pytest.raises(EngineError, match="dask=2 is no Client, and no address"):
        Moments.from_rows(file, "y", "site", dask=2)
    with pytest.raises(EngineError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:1'"):
        Moments.from_rows(file, "y", "site", dask="tcp://127.0.0.1:1")
