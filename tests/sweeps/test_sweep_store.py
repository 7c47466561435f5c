"""The folder of a sweep: what is finished survives anything, is not done again, is never mixed with
other results."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from invariance import BIP, BetaBinomialPrior, Columns, Tolerance, read_sweep, sweep
from invariance.exceptions import DataWarning, EngineError, FileError
from invariance.sweeps import store
from invariance.sweeps import sweep as sweep_module
from invariance.sweeps.fitting import Rows, Sweep, fit_outcome
from invariance.sweeps.store import MANIFEST, RESULT_COLUMNS, Store, parts_of

N_OUTCOMES = 8


def table(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(60, N_OUTCOMES)).cumsum(axis=1)
    rows = pd.DataFrame(values, columns=[f"x{j:02d}" for j in range(N_OUTCOMES)])
    return rows.assign(site=np.repeat(["north", "south"], 30), whom=["x03"] + [None] * 59)


SMALL = BIP(prior=BetaBinomialPrior(max_size=2), engine="exact")
SETTINGS: dict[str, Any] = {"model": SMALL, "environments": "site", "perturbed": "whom", "top": 3}


def run(folder: Path, **changes: Any) -> pd.DataFrame:
    return sweep(changes.pop("table", table()), **{**SETTINGS, "out": folder, **changes})


def content(found: pd.DataFrame) -> bytes:
    """All that is not measured, as bytes."""
    return found.drop(columns="seconds").to_csv(index=False).encode()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return content(run(tmp_path_factory.mktemp("whole") / "sweep"))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The outcomes that are fitted."""
    fitted: list[str] = []

    def fit(task: Sweep, outcome: str) -> Rows:
        fitted.append(outcome)
        return fit_outcome(task, outcome)

    monkeypatch.setattr(sweep_module, "fit_outcome", fit)
    return fitted


def test_finished_outcomes_are_not_done_again_and_others_can_be_added(
    tmp_path: Path, counted: list[str], whole: bytes
) -> None:
    first = run(tmp_path / "sweep", outcomes=["x05", "x03"])
    assert counted == ["x05", "x03"]
    again = run(tmp_path / "sweep", outcomes=["x03"])
    assert counted == ["x05", "x03"]
    pd.testing.assert_frame_equal(again, first[first["outcome"] == "x03"].reset_index(drop=True))
    assert content(run(tmp_path / "sweep")) == whole
    assert len(counted) == N_OUTCOMES
    assert content(read_sweep(tmp_path / "sweep")) == whole


def test_an_interrupted_sweep_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bytes
) -> None:
    def fit(task: Sweep, outcome: str) -> Rows:
        if outcome == "x05":
            raise KeyboardInterrupt
        return fit_outcome(task, outcome)

    monkeypatch.setattr(sweep_module, "fit_outcome", fit)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    assert read_sweep(tmp_path)["outcome"].nunique() == 5
    monkeypatch.undo()
    assert content(run(tmp_path)) == whole


def _killed(start: Callable[[], object], after: float) -> None:
    """Start it in a process of its own, and kill that."""
    child = multiprocessing.get_context("fork").Process(target=start)
    child.start()
    child.join(after)
    if child.is_alive():
        os.kill(child.pid or 0, signal.SIGKILL)
    child.join()


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_random_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bytes, kills: int
) -> None:
    """Files are written all the time; whatever moment is hit, the end is the same."""

    def slow(task: Sweep, outcome: str) -> Rows:
        time.sleep(0.01)
        return fit_outcome(task, outcome)

    monkeypatch.setattr(sweep_module, "fit_outcome", slow)
    monkeypatch.setattr(store, "_MAX_WAITING_OUTCOMES", 1)
    rng = np.random.default_rng()
    folder = tmp_path / "sweep"
    for _ in range(kills):
        _killed(lambda: run(folder), rng.uniform(0.02, 0.5))
        if (folder / MANIFEST).exists():
            assert set(content(read_sweep(folder)).splitlines()) <= set(whole.splitlines())
    assert content(run(folder)) == whole
    assert not list(folder.glob(".*.parquet"))


@pytest.mark.parametrize("damage", ["changed", "empty"])
def test_a_damaged_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bytes, counted: list[str], damage: str
) -> None:
    monkeypatch.setattr(store, "_MAX_WAITING_OUTCOMES", 4)
    run(tmp_path)
    victim = parts_of(tmp_path)[1]
    bytes_of = victim.read_bytes()
    victim.write_bytes(
        {"changed": bytes_of[:100] + bytes(100) + bytes_of[200:], "empty": b""}[damage]
    )
    for ask in (run, read_sweep):
        with pytest.raises(FileError, match="part-000002"):
            ask(tmp_path)
    victim.unlink()
    counted.clear()
    assert content(run(tmp_path)) == whole
    assert len(counted) == 4


def test_what_a_killed_process_left_behind_is_cleared_and_stray_files_are_not(
    tmp_path: Path, whole: bytes
) -> None:
    run(tmp_path, outcomes=["x00"])
    (tmp_path / ".0123456789ab.parquet").write_bytes(b"half")
    (tmp_path / "part-copy.parquet").write_bytes((tmp_path / "part-000001.parquet").read_bytes())
    assert content(run(tmp_path)) == whole
    assert not list(tmp_path.glob(".*.parquet"))
    assert (tmp_path / "part-copy.parquet").exists()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"top": 4}, "top: 3 there, 4 now"),
        ({"random_state": 1}, "seed: 0 there, 1 now"),
        (
            {"model": BIP(prior=BetaBinomialPrior(max_size=1), engine="exact")},
            r"prior: .*max_size=2\) there",
        ),
        (
            {"model": BIP(prior=SMALL.prior, engine="exact", select="mode")},
            "select: 'predictive' there, 'mode' now",
        ),
        (
            {"model": BIP(prior=SMALL.prior, engine="exact", tolerance=Tolerance.strict())},
            "tolerance: None there",
        ),
        ({"table": table(1)}, "data: [0-9a-f]{32} there, [0-9a-f]{32} now"),
        ({"perturbed": ["x04"] + [None] * 59}, "perturbed: "),
        ({"table": table()[1:]}, "rows: 60 there, 59 now"),
    ],
)
def test_other_settings_or_data_are_refused(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    run(tmp_path, outcomes=["x00"])
    before = sorted(path.name for path in tmp_path.iterdir())
    if "perturbed" in changes:
        changes = {**changes, "table": table().drop(columns="whom")}
    with pytest.raises(EngineError, match=f"{named}"):
        run(tmp_path, **changes)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("manifest", [None, "{", "[1]"])
def test_results_without_a_manifest_are_not_continued(tmp_path: Path, manifest: str | None) -> None:
    (tmp_path / MANIFEST).write_text(manifest or "")
    run(tmp_path, outcomes=["x00"])
    (tmp_path / MANIFEST).unlink() if manifest is None else (tmp_path / MANIFEST).write_text(
        manifest
    )
    with pytest.raises(EngineError, match=r"manifest\.json is missing or damaged"):
        run(tmp_path)
    if manifest is None:
        with pytest.raises(FileError, match="is not the folder of a sweep"):
            read_sweep(tmp_path)


def test_settings_that_change_no_result_may_change(tmp_path: Path, counted: list[str]) -> None:
    run(tmp_path, outcomes=["x00"], top=np.int64(3))
    other = {
        "n_jobs": 2,
        "random_state": 5,
        "progress": False,
        "columns": Columns(environment="site"),
    }
    run(
        tmp_path, outcomes=["x00"], model=clone(SMALL).set_params(**other), random_state=np.int32(0)
    )
    assert counted == ["x00"]


def test_folders_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot write into"):
        run(tmp_path / "file" / "sweep")
    with (
        Store(tmp_path, {}).open(),
        pytest.raises(EngineError, match="another process is writing into"),
    ):
        run(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(FileError, match=r"pip install 'invariant-prediction\[parquet\]'"):
        run(tmp_path)


def test_without_a_folder_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is that of a folder, also where outcomes fail."""
    rows = table().assign(flat=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        kept = [
            run(tmp_path / name, table=rows, outcomes=["x00", "flat"][-n:])
            for n, name in ((1, "one"), (2, "two"))
        ]
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        found = [sweep(rows, **SETTINGS, outcomes=["x00", "flat"][-n:]) for n in (1, 2)]
    for one, other in zip(kept, found, strict=True):
        pd.testing.assert_frame_equal(
            *(each.drop(columns="seconds") for each in (one, other)), check_exact=True
        )
        assert [*other.columns] == list(RESULT_COLUMNS)
        assert other["outcome"].is_monotonic_increasing
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}


@pytest.mark.integration
def test_pyarrow_is_not_needed() -> None:
    """In a process of its own: pandas takes pyarrow for its strings wherever it has been
    imported."""
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from invariance import sweep\n"
        "from invariance.datasets import make_example\n"
        "found = sweep(make_example().to_frame(), outcomes=['blood_pressure'], "
        "environments='hospital')\n"
        "print(sorted(found.feature[found.selected]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout == "['age', 'exercise', 'smoking']\n", done.stderr
