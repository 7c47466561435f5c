"""What the page tells of a table before anything is chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance.app.tasks import MOST_GROUPS, look, understand
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


def test_a_table_is_understood(columns: dict[str, dict[str, Any]]) -> None:
    kinds = {name: column["kind"] for name, column in columns.items()}
    assert [name for name, kind in kinds.items() if kind == "dates"] == ["visit", "born"]
    assert [name for name, kind in kinds.items() if kind == "text"] == ["sex", "note", "weight"]
    assert (kinds["age"], kinds["died"], kinds["nothing"]) == ("numbers", "0 and 1", "empty")
    assert {kinds[name] for name in ("row", "patient_id", "income", "falls", "site", "same")} == {"whole numbers"}
    doubts = {name: column["doubt"] for name, column in columns.items() if column["doubt"]}
    assert list(doubts) == ["row", "patient_id", "visit", "born", "note", "weight", "same", "nothing"]
    told = {"row": "ID", "patient_id": "ID", "visit": "dates", "note": "'note 0'", "weight": "'n/k'"}
    assert all(named in doubts[name] for name, named in told.items())
    assert [columns[name]["missing"] for name in ("age", "nothing", "sex")] == [3, N, 0]
    assert columns["site"]["groups"] == [[label, N // 4] for label in ("01", "02", "03", "04")]
    assert columns["site"]["examples"] == ["01", "02", "03"]
    assert columns["income"]["n_values"] == N
    models = {name: column["as_outcome"][0] for name, column in columns.items() if column["as_outcome"]}
    assert models["age"] == models["income"] == "linear Gaussian"
    assert models["sex"] == models["died"] == "logistic"
    assert models["falls"] == "negative binomial"
    assert not {"note", "weight", "visit", "nothing"} & set(models)
    assert columns["sex"]["as_outcome"][1] == "sex has two values: 'f' and 'm'"


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


def test_tables_that_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,b\n")
    with pytest.raises(DataError, match=r"t\.csv"):
        understand(TableFile.of(file))
    file.write_text("a,y,site\n" + "1.5,2.5,x\n" * 400)
    assert look(lambda *_: None, file, {})["rows"] == 400


def test_groups_are_environments(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("site,x\n1,1\n1.0,2\n01,3\n1,4\n")
    assert understand(TableFile.of(file))["columns"][0]["groups"] == [["1", 3], ["01", 1]]
    pd.DataFrame({"a": range(MOST_GROUPS + 1)}).to_csv(file, index=False)
    assert understand(TableFile.of(file))["columns"][0]["groups"] == []


def test_names_of_ids(tmp_path: Path) -> None:
    names = ["income", "Acid", "humid", "monkeys", "PatientID", "USUBJID", "Sample number"]
    file, numbers = tmp_path / "t.csv", np.random.default_rng(0).permutation(10_000)[:N]
    pd.DataFrame(dict.fromkeys(names, numbers)).to_csv(file, index=False)
    found = understand(TableFile.of(file))["columns"]
    assert [column["name"] for column in found if "ID" in column["doubt"]] == names[4:]
