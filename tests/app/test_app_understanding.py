"""What the page tells of a table before anything is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance.app import tasks as understanding
from invariance.app.tasks import MOST_GROUPS, understand
from invariance.data.reading import TableFile
from invariance.exceptions import DataError

N = 40


@pytest.fixture
def columns(tmp_path: Path) -> dict[str, dict[str, Any]]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "row": range(N),
            "patient_id": rng.permutation(1000)[:N],
            "income": rng.permutation(100_000)[:N],
            "age": np.where(np.arange(N) < 3, np.nan, rng.normal(50, 9, N)),
            "sex": ["f", "m"] * (N // 2),
            "died": [0, 0, 0, 1] * (N // 4),
            "falls": [0, 1, 0, 2, 0, 0, 5, 1] * (N // 8),
            "visit": [f"2024-03-{1 + k % 9:02d}" for k in range(N)],
            "born": [f"{1 + k % 9}.12.1970" for k in range(N)],
            "note": [f"note {k}" for k in range(N)],
            "weight": ["71", "70.5"] * (N // 2 - 1) + ["n/k", "69"],
            "site": ["01", "02", "03", "04"] * (N // 4),
            "same": [1] * N,
            "nothing": [None] * N,
        }
    )
    file = tmp_path / "table.csv"
    table.to_csv(file, index=False)
    found = understand(TableFile.of(file))
    assert found["rows"] == N
    return {column["name"]: column for column in found["columns"]}


def test_kinds(columns: dict[str, dict[str, Any]]) -> None:
    assert {name: column["kind"] for name, column in columns.items()} == {
        "row": "whole numbers",
        "patient_id": "whole numbers",
        "income": "whole numbers",
        "age": "numbers",
        "sex": "text",
        "died": "0 and 1",
        "falls": "whole numbers",
        "visit": "dates",
        "born": "dates",
        "note": "text",
        "weight": "text",
        "site": "whole numbers",
        "same": "whole numbers",
        "nothing": "empty",
    }


def test_what_is_better_no_feature_is_said_and_why(columns: dict[str, dict[str, Any]]) -> None:
    doubts = {name: column["doubt"] for name, column in columns.items() if column["doubt"]}
    assert list(doubts) == ["row", "patient_id", "visit", "born", "note", "weight", "same", "nothing"]
    assert "ID or a row number" in doubts["row"]
    assert "ID or a row number" in doubts["patient_id"]
    assert "dates" in doubts["visit"]
    assert doubts["note"] == f"is not numeric but has {N} different values in {N} rows (for example 'note 0')"
    assert doubts["weight"] == "is not numeric: most of its different values are numbers, but not 'n/k'"
    assert doubts["same"] == "has one value only"
    assert doubts["nothing"] == "has no values"


def test_missing_values_examples_and_groups_are_as_in_the_file(columns: dict[str, dict[str, Any]]) -> None:
    assert columns["age"]["missing"] == 3
    assert columns["nothing"]["missing"] == N
    assert columns["sex"]["missing"] == 0
    assert columns["site"]["groups"] == [[label, N // 4] for label in ("01", "02", "03", "04")]
    assert columns["site"]["examples"] == ["01", "02", "03"]
    assert all(len(example) <= 7 for example in columns["age"]["examples"])
    assert columns["income"]["n_values"] == N


def test_the_model_that_an_outcome_would_have(columns: dict[str, dict[str, Any]]) -> None:
    models = {name: column["as_outcome"][0] for name, column in columns.items() if column["as_outcome"]}
    assert models["age"] == models["income"] == "linear Gaussian"
    assert models["sex"] == models["died"] == "logistic"
    assert models["falls"] == "negative binomial"
    assert not {"note", "weight", "visit", "nothing"} & set(models)
    assert columns["sex"]["as_outcome"][1] == "sex has two values: 'f' and 'm'"


def test_many_different_values_are_no_groups(tmp_path: Path) -> None:
    for count, groups in ((MOST_GROUPS, MOST_GROUPS), (MOST_GROUPS + 1, 0)):
        file = tmp_path / f"{count}.csv"
        pd.DataFrame({"a": range(count)}).to_csv(file, index=False)
        assert len(understand(TableFile.of(file))["columns"][0]["groups"]) == groups


def test_parquet_is_understood_too(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    file = tmp_path / "t.parquet"
    days = pd.date_range("2024-01-01", periods=12)
    pd.DataFrame({"site": pd.Categorical(["a", "b"] * 6), "day": days, "x": np.arange(12.0) / 7}).to_parquet(file)
    site, day, x = understand(TableFile.of(file))["columns"]
    assert site["groups"] == [["a", 6], ["b", 6]]
    assert day["kind"] == "dates"
    assert day["doubt"]
    assert (x["kind"], x["doubt"]) == ("numbers", "")


def test_a_table_without_rows_is_told_so(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,b\n")
    with pytest.raises(DataError, match=r"t\.csv has a header but no rows"):
        understand(TableFile.of(file))


def test_labels_that_are_one_environment_are_one_group(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("site,x\n1,1\n1.0,2\n01,3\n1,4\n")
    assert understand(TableFile.of(file))["columns"][0]["groups"] == [["1", 3], ["01", 1]]


@pytest.mark.parametrize("name", ["PatientID", "patientId", "patnr", "MRN", "USUBJID", "case_no", "Sample number"])
def test_names_of_ids(name: str, tmp_path: Path) -> None:
    assert "ID" in only_column(name, tmp_path)["doubt"]


@pytest.mark.parametrize("name", ["income", "Acid", "humid", "monkeys", "Android", "decode"])
def test_names_that_only_hold_such_letters(name: str, tmp_path: Path) -> None:
    assert only_column(name, tmp_path)["doubt"] == ""


def only_column(name: str, folder: Path) -> dict[str, Any]:
    """Of whole numbers that are all different."""
    file = folder / "t.csv"
    pd.DataFrame({name: np.random.default_rng(0).permutation(10_000)[:N]}).to_csv(file, index=False)
    found: dict[str, Any] = understand(TableFile.of(file))["columns"][0]
    return found


def test_dates_are_told_by_a_few_hundred_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    are_dates = understanding._are_dates
    monkeypatch.setattr(understanding, "_are_dates", lambda texts: looked_at.append(len(texts)) or are_dates(texts))
    file = tmp_path / "t.csv"
    days = pd.date_range("1990-01-01", periods=2000).strftime("%Y-%m-%d")
    pd.DataFrame({"day": days, "x": np.arange(2000.0)}).to_csv(file, index=False)
    day, _ = understand(TableFile.of(file))["columns"]
    assert day["kind"] == "dates"
    assert looked_at == [300, 300]
