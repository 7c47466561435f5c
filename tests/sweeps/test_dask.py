"""A sweep on a Dask cluster: the results of this machine, whoever dies in the meantime."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, BetaBinomialPrior, read_sweep, sweep
from invariance.exceptions import EngineError
from invariance.sweeps.fitting import Entry
from invariance.sweeps.store import Store

distributed = pytest.importorskip("distributed")

from local_cluster import Cluster, two_workers

MODEL = BIP(prior=BetaBinomialPrior(max_size=2))
SETTINGS = {"environments": "site", "perturbed": "deleted"}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """A chain of sixteen columns; every tenth row perturbs one of them."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(160, 16))
    for j in range(1, 16):
        values[:, j] += 0.8 * values[:, j - 1]
    values[80:, ::5] += 2.0
    table = pd.DataFrame(values, columns=[f"g{j}" for j in range(16)])
    table["site"] = ["wild"] * 80 + ["deleted"] * 80
    table["deleted"] = [f"g{row // 10}" if row % 10 == 0 else None for row in range(160)]
    return table


@pytest.fixture(scope="module")
def here(table: pd.DataFrame) -> pd.DataFrame:
    return sweep(table, MODEL, **SETTINGS)


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    with two_workers() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    shared_cluster.await_both()
    return shared_cluster


def same(first: pd.DataFrame, second: pd.DataFrame) -> None:
    """Bit for bit, but for the seconds that were measured."""
    pd.testing.assert_frame_equal(first.drop(columns="seconds"), second.drop(columns="seconds"), check_exact=True)


def after(count: int, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something once so many outcomes are there."""
    original, added = Store.add, []

    def add(self: Store, entry: Entry) -> None:
        original(self, entry)
        added.append(entry.outcome)
        if len(added) == count:
            act()

    monkeypatch.setattr(Store, "add", add)


def test_the_results_of_a_cluster_are_those_of_this_machine(
    table: pd.DataFrame, here: pd.DataFrame, cluster: Cluster, tmp_path: Path
) -> None:
    there = sweep(table, MODEL, **SETTINGS, out=tmp_path, dask=cluster.address)
    same(there, here)
    same(read_sweep(tmp_path), here)
    assert here["outcome"].nunique() == 16
    assert here["selected"].any()


@pytest.mark.filterwarnings("ignore::invariance.exceptions.InvarianceWarning")
@pytest.mark.parametrize("victims", [1, pytest.param(None, marks=pytest.mark.slow)], ids=["one worker", "all workers"])
def test_killed_workers_cost_no_outcome(
    table: pd.DataFrame,
    here: pd.DataFrame,
    cluster: Cluster,
    victims: int | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    before = set(cluster.pids())
    after(4, lambda: cluster.kill(victims), monkeypatch)
    same(sweep(table, MODEL, **SETTINGS, out=tmp_path, dask=cluster.address), here)
    assert len(before - set(cluster.pids())) == (victims or 2), "workers were to be killed"


def test_begun_on_a_cluster_and_finished_here(
    table: pd.DataFrame, here: pd.DataFrame, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    after(4, interrupt, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        sweep(table, MODEL, **SETTINGS, out=tmp_path, dask=cluster.address)
    assert 4 <= read_sweep(tmp_path)["outcome"].nunique() < 16
    same(sweep(table, MODEL, **SETTINGS, out=tmp_path), here)


def test_moments_travel_once(table: pd.DataFrame, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    scattered, tasks = [], []
    scatter, submit = distributed.Client.scatter, distributed.Client.submit

    def recording_scatter(self: Any, data: Any, **how: Any) -> Any:
        scattered.append(len(pickle.dumps(data)))
        return scatter(self, data, **how)

    def recording_submit(self: Any, *parts: Any, **how: Any) -> Any:
        tasks.append(sum(len(pickle.dumps(part)) for part in parts if not isinstance(part, distributed.Future)))
        return submit(self, *parts, **how)

    monkeypatch.setattr(distributed.Client, "scatter", recording_scatter)
    monkeypatch.setattr(distributed.Client, "submit", recording_submit)
    sweep(table, MODEL, **SETTINGS, outcomes=["g1", "g2", "g3"], dask=cluster.address)
    assert len(scattered) == 1
    assert scattered[0] > 3 * 16 * 16 * 8, "the moments of both environments and of all rows"
    assert len(tasks) >= 3
    assert max(tasks) < 1000


def test_nobody_answers(table: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"no Dask scheduler answers at 'nowhere' .* or run it without dask=\.$"):
        sweep(table, MODEL, **SETTINGS, out=tmp_path, dask="nowhere")
    assert read_sweep(tmp_path).empty
