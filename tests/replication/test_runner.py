"""Running a study: seeds, resuming, settings, workers, damaged files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from invariance.exceptions import EngineError
from replication import make_study
from replication.runs import ROWS, SETTINGS, Cell, Store, grid, run_study, seed_sequence
from replication.theory import Theory

pytestmark = pytest.mark.integration

SMALL = {"sizes": (10, 20), "environments": (1, 3), "strengths": (1 / 3, 1.0)}


@pytest.fixture(scope="module", autouse=True)
def _without_pictures() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Theory, "pictures", lambda self, results: [])
        yield


def small(replicates: int = 6, **changes: object) -> Theory:
    return Theory(**{**SMALL, "replicates": replicates, **changes})


def same(first: pd.DataFrame, second: pd.DataFrame) -> None:
    """Bit for bit the same rows."""
    pd.testing.assert_frame_equal(first, second, check_exact=True)


def lines(folder: Path) -> list[str]:
    return (folder / ROWS).read_text().splitlines()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the finished study."""
    return run_study(small(), tmp_path_factory.mktemp("whole")).folder


def test_cells_and_seeds_never_change() -> None:
    """Frozen values: rows that were written years ago can be continued, in any process, on any
    machine."""
    assert [cell.key for cell in grid(n=(50, 200), strength=(1 / 3,))] == [
        "n=50 strength=0.3333333333",
        "n=200 strength=0.3333333333",
    ]
    assert seed_sequence("theory", 0, "E=1", 0).entropy == [
        2613922079,
        3837707729,
        482237574,
        737099230,
    ]


def test_replicates_depend_on_their_own_name_only() -> None:
    cell = Cell((("E", 3), ("strength", 1.0)))
    rows = small().replicate(cell, 4)
    assert small(replicates=99, environments=(3,)).replicate(cell, 4) == rows
    assert small(sizes=(20,)).replicate(cell, 4) == rows[1:]
    assert small(seed=1).replicate(cell, 4) != rows
    assert small().replicate(cell, 5) != rows


def test_rows_do_not_depend_on_the_number_of_processes(tmp_path: Path, whole: Path) -> None:
    two = run_study(small(), tmp_path, jobs=2)
    assert len(two.results) == 4 * 6 * 2
    same(two.results, run_study(small(), whole).results)
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "results.csv"), two.results)


def test_a_finished_study_is_not_run_again_and_can_be_extended(tmp_path: Path, whole: Path) -> None:
    first = run_study(small(3), tmp_path)
    again = run_study(small(3), tmp_path)
    assert (again.n_now, again.n_before) == (0, 12)
    same(again.results, first.results)
    more = run_study(small(6), tmp_path)
    assert (more.n_now, more.n_before) == (12, 12)
    same(more.results, run_study(small(), whole).results)


def test_the_cost_leaves_out_what_compiles(whole: Path) -> None:
    run = run_study(small(), whole)
    for n_replicates, seconds in (
        (3, [30.01, 0.01, 0.01] + [30.0, 0.01, 0.01] * 3),
        (1, [30.01, 0.01, 0.01, 0.01]),
    ):
        object.__setattr__(run, "study", small(n_replicates))
        object.__setattr__(run, "seconds_each", seconds)
        assert run.cost == pytest.approx(0.01)


@pytest.mark.parametrize("damage", ["torn", "unreadable", "not a replicate"])
def test_a_damaged_line_is_done_again(tmp_path: Path, whole: Path, damage: str) -> None:
    kept = lines(whole)[:10]
    last = {"torn": kept[-1][:40], "unreadable": "\0\0\0\n", "not a replicate": '{"cell": 3}\n'}[
        damage
    ]
    (tmp_path / ROWS).write_text("\n".join(kept[:-1]) + "\n" + last)
    (tmp_path / SETTINGS).write_text((whole / SETTINGS).read_text())
    run = run_study(small(), tmp_path)
    assert run.n_before == 9
    same(run.results, run_study(small(), whole).results)
    assert run_study(small(), tmp_path).n_now == 0


def test_other_settings_are_refused(tmp_path: Path, whole: Path) -> None:
    for name in (ROWS, SETTINGS):
        (tmp_path / name).write_text((whole / name).read_text())
    for other, phrase in (
        (small(seed=7), "seed: 0 there, 7 now"),
        (small(sizes=(10,)), "sizes: "),
        (make_study("identifiability", replicates=1), "study: theory there, identifiability now"),
    ):
        with pytest.raises(EngineError, match=phrase):
            run_study(other, tmp_path)
    assert lines(tmp_path) == lines(whole)
    settings = json.loads((tmp_path / SETTINGS).read_text())
    (tmp_path / SETTINGS).write_text(json.dumps({**settings, "version": "0.0.1"}))
    with pytest.raises(EngineError, match=r"version: 0\.0\.1 there"):
        run_study(small(), tmp_path)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        Store(tmp_path, small()).open(),
        pytest.raises(EngineError, match="another process is writing"),
    ):
        run_study(small(), tmp_path)


def test_an_error_in_a_replicate_keeps_what_was_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
