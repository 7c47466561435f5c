"""What is given to a sweep: names and numbers of any kind, and folders with other things in them."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, BetaBinomialPrior, Moments, MultiEnvironmentData, sweep
from invariance.exceptions import DataError, DataWarning, EngineError, SettingError
from invariance.sweeps.source import check_processes, read_source
from invariance.sweeps.store import MANIFEST
from invariance.sweeps.sweep import settings_of

SMALL = BIP(prior=BetaBinomialPrior(max_size=2), engine="exact")


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    rows["b"] += rows["a"]
    return rows.assign(site=np.repeat(["north", "south"], 30))


def numbered() -> pd.DataFrame:
    return table().rename(columns={"a": 0, "b": 1, "c": 2, "d": 3})


def outcomes_of(rows: pd.DataFrame, **settings: Any) -> list[str]:
    return list(sweep(rows, SMALL, environments="site", **settings)["outcome"].unique())


def test_names_and_numbers_of_any_kind(tmp_path: Path) -> None:
    assert outcomes_of(numbered(), outcomes=(name for name in (2, 0))) == ["0", "2"]
    assert outcomes_of(table(), exclude=["d"]) == ["a", "b", "c"]
    first = sweep(table(), SMALL, top=1, random_state=3, out=tmp_path, environments="site")
    second = sweep(table(), SMALL, top=np.int64(1), random_state=np.int32(3), out=tmp_path, environments="site")
    pd.testing.assert_frame_equal(first, second)


@pytest.mark.parametrize("labels", [[1, 1, None], [1.0, 1.0, np.nan], ["1", "1", ""]])
def test_perturbed_columns_that_are_numbers(labels: list[Any]) -> None:
    """Whole numbers become floats where some are missing."""
    rows = numbered().assign(hit=pd.Series(labels * 1 + labels[-1:] * 57))
    found = sweep(rows, SMALL, outcomes=["1"], perturbed="hit", environments="site")
    assert found["notes"][0].startswith("2 rows that perturb '1' left out.")


def test_other_capitals_and_blanks_are_mentioned() -> None:
    perturbed = ["a", "A", "b ", "elsewhere", *[None] * 56]
    with pytest.warns(DataWarning, match="'A', 'b '.*did you mean 'a'"):
        outcomes_of(table(), perturbed=perturbed)


@pytest.mark.parametrize(
    ("changes", "kind", "named"),
    [
        ({"outcomes": [None]}, DataError, "'None'"),
        ({"exclude": "d"}, SettingError, "exclude"),
        ({"exclude": None}, SettingError, "exclude"),
        ({"perturbed": 7}, DataError, "perturbed"),
        ({"features": ["a"]}, DataError, "'a'"),
        *(({"n_jobs": jobs}, SettingError, "n_jobs") for jobs in (0, "2", 1.5, True)),
    ],
)
def test_refusals(changes: dict[str, Any], kind: type[Exception], named: str) -> None:
    with pytest.raises(kind, match=named):
        outcomes_of(table(), **changes)


def test_what_is_there_already_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        sweep(table(), SMALL, outcomes=["a"], out=tmp_path, progress=True, environments="site")
    assert "1 outcome, 1 of them there already. Second moments" in capsys.readouterr().err


def test_a_stray_file_is_nobodys_part(tmp_path: Path) -> None:
    sweep(table(), SMALL, outcomes=["a"], out=tmp_path, environments="site")
    shutil.copy(tmp_path / "part-000001.parquet", tmp_path / "part-copy.parquet")
    found = sweep(table(), SMALL, outcomes=["a", "b"], out=tmp_path, environments="site")
    assert set(found["outcome"]) == {"a", "b"}
    assert (tmp_path / "part-copy.parquet").exists()


@pytest.mark.parametrize("content", ["{", "[1]", ""])
def test_a_broken_manifest(tmp_path: Path, content: str) -> None:
    sweep(table(), SMALL, outcomes=["a"], out=tmp_path, environments="site")
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(EngineError, match=r"manifest\.json.* damaged"):
        sweep(table(), SMALL, outcomes=["b"], out=tmp_path, environments="site")


@pytest.mark.parametrize("content", ["{", '{"seed": 9}'])
def test_a_manifest_of_no_results_is_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST).write_text(content)
    sweep(table(), SMALL, outcomes=["a"], out=tmp_path, environments="site")
    assert json.loads((tmp_path / MANIFEST).read_text())["seed"] == 0


class Leading:
    """A rule without a text of its own."""

    def __init__(self, most: Any) -> None:
        self.most = most

    def select(self, findings: Any) -> Any:
        chosen = np.zeros(len(findings.posterior.inclusion), dtype=bool)
        chosen[np.argsort(-findings.posterior.inclusion)[: self.most]] = True
        return chosen


def test_rules_without_a_text_are_told_apart(tmp_path: Path) -> None:
    def swept(most: int) -> pd.DataFrame:
        model = BIP(prior=SMALL.prior, engine="exact", select=Leading(most))
        return sweep(table(), model, outcomes=["a"], out=tmp_path, environments="site")

    assert swept(1)["selected"].sum() == 1
    with pytest.raises(EngineError, match="select: Leading"):
        swept(3)
    assert len(swept(1))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.arange(5000.0), np.append(np.arange(4999.0), -1.0)),
        (np.arange(5000.0), np.arange(5000.0).reshape(2, -1)),
        (np.array([0.1, 0.2]), np.array([0.1 + 1e-12, 0.2])),
        ([Leading(1), "..."], [Leading(2), "..."]),
        ({"x": Leading(np.zeros(2000))}, {"x": Leading(np.ones(2000))}),
    ],
)
def test_contents_tell_objects_apart(one: Any, other: Any) -> None:
    texts = [settings_of(BIP(select=Leading(held)))["select"] for held in (one, one, other)]
    assert texts[0] == texts[1] != texts[2]
    assert " at 0x" not in texts[0]


@pytest.mark.parametrize("held", [lambda: 1, partial(lambda: 1)])
def test_what_cannot_be_told_apart_is_refused(held: Any) -> None:
    with pytest.raises(SettingError, match="select="):
        settings_of(BIP(select=Leading(held)))


def test_labels_and_constants_are_part_of_the_data() -> None:
    rows = table()
    swapped = rows.assign(site=rows["site"].to_numpy()[[0, 30, *range(2, 30), 1, *range(31, 60)]])
    with pytest.warns(DataWarning, match="constant"):
        three, four = (read_source(rows.assign(k=k), "site").identity for k in (3.0, 4.0))
    plain = read_source(rows, "site").identity
    assert plain == read_source(rows.copy(), "site").identity
    assert len({each["data"] for each in (plain, read_source(swapped, "site").identity, three, four)}) == 4


def test_processes_need_room_for_outcomes_that_do_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments of three groups of four columns take 384 bytes, the rows 1,440."""
    rows, perturbed = table(), ["a", *[None] * 59]
    moments = Moments.from_data(MultiEnvironmentData.from_table(rows, "a", "site"))
    assert moments.scatter.nbytes == 384
    source = read_source(rows, "site", perturbed)
    monkeypatch.setattr("invariance.sweeps.source.free_bytes", lambda: 383)
    with pytest.raises(DataError, match="n_jobs=1"):
        check_processes(source, 1)
    monkeypatch.setattr("invariance.sweeps.source.free_bytes", lambda: 384)
    check_processes(source, 1)
