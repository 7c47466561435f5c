"""Running a study: seeds, resuming, settings, workers, crashes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from invariance.exceptions import EngineError
from replication import make_study
from replication.runs import ROWS, SETTINGS, Cell, Store, cost_sentences, grid, run_study, seed_sequence
from replication.theory import Theory

SOURCE = Path(__file__).parents[2] / "src"
SMALL = {"sizes": (10, 20), "environments": (1, 3), "strengths": (1 / 3, 1.0)}


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Theory, "pictures", lambda self, results: [])


def small(replicates: int = 6, **changes: object) -> Theory:
    return Theory(**{**SMALL, "replicates": replicates, **changes})


def same(first: pd.DataFrame, second: pd.DataFrame) -> None:
    """Bit for bit the same rows."""
    pd.testing.assert_frame_equal(first, second, check_exact=True)


def lines(folder: Path) -> list[str]:
    return (folder / ROWS).read_text().splitlines()


# ---------------------------------------------------------------- cells and seeds


def test_a_cell_has_one_name() -> None:
    cells = grid(n=(50, 200), strength=(1 / 3, 1.0))
    assert [cell.key for cell in cells] == [
        "n=50 strength=0.3333333333",
        "n=50 strength=1",
        "n=200 strength=0.3333333333",
        "n=200 strength=1",
    ]
    assert cells[0]["n"] == 50


def test_seeds_never_change() -> None:
    """Frozen values: rows that were written years ago can be continued, in any process, on any machine."""
    assert seed_sequence("theory", 0, "E=1", 0).entropy == [2613922079, 3837707729, 482237574, 737099230]
    first, second = (seed_sequence("theory", 0, "E=1", number).generate_state(4) for number in (0, 1))
    assert (first != second).all()


def test_replicates_depend_on_their_own_name_only() -> None:
    cell = Cell((("E", 3), ("strength", 1.0)))
    rows = small().replicate(cell, 4)
    assert small(replicates=99, environments=(3,)).replicate(cell, 4) == rows
    assert small(sizes=(20,)).replicate(cell, 4) == rows[1:]
    assert small(seed=1).replicate(cell, 4) != rows
    assert small().replicate(cell, 5) != rows


# ---------------------------------------------------------------- running


def test_rows_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    one = run_study(small(), tmp_path / "one", jobs=1)
    two = run_study(small(), tmp_path / "two", jobs=2)
    same(one.results, two.results)
    assert len(one.results) == 4 * 6 * 2
    saved = pd.read_parquet(tmp_path / "two" / "results.parquet")
    same(saved, one.results)


def test_a_finished_study_is_not_run_again_and_can_be_extended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_study(small(3), tmp_path)
    done: list[tuple[str, int]] = []
    original = Theory.replicate
    monkeypatch.setattr(
        Theory, "replicate", lambda self, cell, number: done.append((cell.key, number)) or original(self, cell, number)
    )
    again = run_study(small(3), tmp_path)
    assert (again.n_now, again.n_before) == (0, 12)
    same(again.results, first.results)
    more = run_study(small(5), tmp_path)
    assert sorted(done) == sorted((cell.key, number) for cell in small().cells() for number in (3, 4))
    fewer = run_study(small(2), tmp_path)
    same(fewer.results, more.results[more.results["replicate"] < 2].reset_index(drop=True))
    monkeypatch.undo()
    same(more.results, run_study(small(5), tmp_path / "fresh").results)


def test_the_cost_leaves_out_what_compiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute of compiling in the first replicate, a hundredth of a second for each."""
    clock = [0.0]
    original = Theory.replicate

    def replicate(self: Theory, cell: Cell, number: int) -> list[dict]:
        clock[0] += 30.01 if clock[0] == 0.0 else 0.01
        return original(self, cell, number)

    monkeypatch.setattr(Theory, "replicate", replicate)
    monkeypatch.setattr("replication.runs.time.perf_counter", lambda: clock[0])
    for replicates in (1, 2, 5):
        clock[0] = 0.0
        run = run_study(small(replicates), tmp_path / str(replicates))
        assert sum(run.seconds_each) > 30
        assert run.cost == pytest.approx(0.01)
        assert "One replicate costs 10 milliseconds on one core" in cost_sentences(run)[0]


@pytest.mark.parametrize("damage", ["torn", "unreadable", "not a replicate"])
def test_a_damaged_line_is_done_again(tmp_path: Path, damage: str) -> None:
    whole = run_study(small(), tmp_path / "whole")
    run_study(small(), tmp_path / "hurt")
    kept = lines(tmp_path / "hurt")[:10]
    last = {"torn": kept[-1][:40], "unreadable": "\0\0\0\n", "not a replicate": '{"cell": 3}\n'}[damage]
    (tmp_path / "hurt" / ROWS).write_text("\n".join(kept[:-1]) + "\n" + last)
    run = run_study(small(), tmp_path / "hurt")
    assert run.n_before == 9
    same(run.results, whole.results)
    reread = run_study(small(), tmp_path / "hurt")
    assert reread.n_now == 0


def test_other_settings_are_refused(tmp_path: Path) -> None:
    run_study(small(2), tmp_path)
    before = lines(tmp_path)
    for other, phrase in ((small(2, seed=7), "seed: 0 there, 7 now"), (small(2, sizes=(10,)), "sizes: ")):
        with pytest.raises(EngineError, match=phrase) as caught:
            run_study(other, tmp_path)
        assert "Name another folder, or delete this one." in str(caught.value)
    with pytest.raises(EngineError, match="study: theory there, identifiability now"):
        run_study(make_study("identifiability", replicates=1), tmp_path)
    assert lines(tmp_path) == before
    settings = json.loads((tmp_path / SETTINGS).read_text())
    (tmp_path / SETTINGS).write_text(json.dumps({**settings, "version": "0.0.1"}))
    with pytest.raises(EngineError, match=r"version: 0\.0\.1 there"):
        run_study(small(2), tmp_path)
    (tmp_path / SETTINGS).unlink()
    with pytest.raises(EngineError, match="says what made them"):
        run_study(small(2), tmp_path)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        Store(tmp_path, small()).open(),
        pytest.raises(EngineError, match="another process is writing"),
        Store(tmp_path, small()).open(),
    ):
        pass


def test_an_error_in_a_replicate_keeps_what_was_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Theory.replicate

    def failing(self: Theory, cell: Cell, number: int) -> list[dict[str, object]]:
        if cell["E"] == 3 and cell["strength"] == 1.0:
            raise RuntimeError("a bug")
        return original(self, cell, number)

    monkeypatch.setattr(Theory, "replicate", failing)
    with pytest.raises(RuntimeError, match="a bug"):
        run_study(small(), tmp_path)
    assert len(lines(tmp_path)) == 3 * 6
    assert not (tmp_path / "report.md").exists()
    monkeypatch.undo()
    assert run_study(small(), tmp_path).n_before == 18


# ---------------------------------------------------------------- crashes

CRASH = """
import sys
from replication.runs import run_study
from replication.theory import Theory
Theory.per_task = 2
study = Theory(replicates=400, sizes=(10, 20), environments=(3,), strengths=(1.0,))
run_study(study, sys.argv[1], jobs=2)
"""


@pytest.mark.integration
def test_kill_9_and_resume(tmp_path: Path) -> None:
    study = Theory(replicates=400, sizes=(10, 20), environments=(3,), strengths=(1.0,))
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    process = subprocess.Popen(
        [sys.executable, "-c", CRASH, str(tmp_path / "killed")], env=environment, start_new_session=True
    )
    rows = tmp_path / "killed" / ROWS
    deadline = time.monotonic() + 120
    while not (rows.exists() and rows.read_bytes().count(b"\n") >= 20) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # its workers would wait five minutes for more to do
    finished = rows.read_bytes().count(b"\n")
    assert 20 <= finished < 400, "the study was to be killed in the middle"
    assert not (tmp_path / "killed" / "report.md").exists()
    resumed = run_study(study, tmp_path / "killed")
    assert resumed.n_before == finished
    same(resumed.results, run_study(study, tmp_path / "whole").results)


# ---------------------------------------------------------------- Dask


@pytest.mark.slow
def test_dask_goes_on_when_a_worker_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    study = Theory(replicates=400, environments=(3, 5), strengths=(1.0,))
    monkeypatch.setattr(Theory, "per_task", 10)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    )
    with cluster:
        victim = next(iter(cluster.workers.values())).process.pid
        killed_after: list[int] = []

        def kill() -> None:
            rows = tmp_path / "dask" / ROWS
            while not (rows.exists() and rows.read_bytes().count(b"\n") >= 20):
                time.sleep(0.005)
            killed_after.append(rows.read_bytes().count(b"\n"))
            os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        run = run_study(study, tmp_path / "dask", dask=cluster.scheduler_address)
        killer.join(5)
    assert killed_after, "no worker was killed"
    assert killed_after[0] < 800
    assert run.n_now == 800
    assert run.workers == "a Dask cluster"
    same(run.results, run_study(study, tmp_path / "here").results)


def test_results_are_csv_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    run = run_study(small(2), tmp_path)
    assert not (tmp_path / "results.parquet").exists()
    saved = pd.read_csv(tmp_path / "results.csv")
    np.testing.assert_allclose(saved["posterior"], run.results["posterior"], rtol=1e-15)
    assert "`results.csv`" in (tmp_path / "report.md").read_text()
