"""A sweep on a Dask cluster: the results of this machine, whoever dies in the meantime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, BetaBinomialPrior, read_sweep, sweep
from invariance.exceptions import EngineError
from invariance.sweeps.fitting import Rows
from invariance.sweeps.store import Store

pytest.importorskip("distributed")

from local_cluster import Cluster, two_workers

pytestmark = pytest.mark.integration
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
    pd.testing.assert_frame_equal(
        first.drop(columns="seconds"), second.drop(columns="seconds"), check_exact=True
    )


def after(count: int, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something once so many outcomes are there."""
    original = Store.add
    added = []

    def add(self: Store, entry: Rows) -> None:
        original(self, entry)
        added.append(entry[0]["outcome"])
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
def test_a_killed_worker_costs_no_outcome(
    table: pd.DataFrame,
    here: pd.DataFrame,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    before = set(cluster.pids())
    after(4, lambda: cluster.kill(1), monkeypatch)
    same(sweep(table, MODEL, **SETTINGS, out=tmp_path, dask=cluster.address), here)
    assert len(before - set(cluster.pids())) == 1


def test_nobody_answers(table: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="'nowhere'"):
        sweep(table, MODEL, **SETTINGS, out=tmp_path, dask="nowhere")
    assert read_sweep(tmp_path).empty
