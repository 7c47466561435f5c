"""New tables need what predicts and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import invariance
from cli_runner import fails, run
from shifted_sites import DATA, NEW, as_table

REGION = np.where(DATA.X[:, 3] > 0, "hill", "dale")
TABLE = as_table(DATA.X).assign(region=REGION, y=DATA.y, site=DATA.environment_index)


@pytest.fixture(scope="module", params=["with levels", "of numbers"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    table = TABLE if request.param == "with levels" else TABLE.drop(columns="region")
    table.to_csv(folder / "table.csv", index=False)
    run("fit", folder / "table.csv", "--outcome", "y", "--environment", "site", "--save", folder / "model.json")
    return folder / "model.json"


def written(model: Path, table: pd.DataFrame, *more: Any) -> tuple[pd.DataFrame, str]:
    new, out = model.parent / "new.csv", model.parent / "out.csv"
    table.to_csv(new, index=False)
    result = run("predict", model, new, "--out", out, *more)
    assert result.exit_code == 0, result.output
    return pd.read_csv(out), " ".join(result.stdout.split())


def refused(model: Path, table: pd.DataFrame, *more: Any) -> str:
    table.to_csv(model.parent / "new.csv", index=False)
    return fails("predict", model, model.parent / "new.csv", "--out", model.parent / "refused.csv", *more)


def test_what_does_not_predict_is_not_looked_at(model: Path) -> None:
    expected = invariance.load(model).predict(as_table(NEW).assign(region="dale"))
    selected = as_table(NEW)[["x1", "x0"]]
    for table in (selected, selected.assign(x2="word", x3=None, region="coast"), as_table(NEW).assign(region=None)):
        found, _ = written(model, table)
        np.testing.assert_array_equal(found["prediction"], expected)
        assert list(found) == [*table, "prediction", "lower", "upper"]


def test_averages_need_what_they_average(model: Path) -> None:
    saved = invariance.load(model).set_params(predict_with="average")
    assert set(saved.columns_to_predict) > {"x0", "x1"}
    assert "lacks columns that the model needs" in refused(model, as_table(NEW)[["x0", "x1"]], "--average")
    found, _ = written(model, as_table(NEW).assign(region="dale")[list(saved.columns_to_predict)], "--average")
    np.testing.assert_array_equal(found["prediction"], saved.predict(as_table(NEW).assign(region="dale")))


def test_rows_that_lack_what_predicts(model: Path) -> None:
    gaps = as_table(NEW).assign(region="dale", x2=None, y=1.0)
    gaps.loc[[1, 4], "x1"] = np.nan
    gaps.loc[4, "x0"] = np.nan
    message = refused(model, gaps)
    assert "new.csv has missing values in 'x1' (2 rows), 'x0' (1 row): rows 2, 5 below the header." in message
    assert "--missing empty" in message
    assert not (model.parent / "refused.csv").exists()

    found, said = written(model, gaps, "--missing", "empty")
    assert "Predicted y for 5 rows of new.csv" in said
    assert "Without a prediction, as values that predict are missing: rows 2, 5 below the header." in said
    assert "The outcome is known in 5 of them" in said
    whole = [0, 2, 3, 5, 6]
    complete = as_table(NEW).assign(region="dale").iloc[whole]
    expected = invariance.load(model).predict(complete)
    np.testing.assert_array_equal(found["prediction"].iloc[whole], expected)
    assert len(found) == 7
    assert found.loc[[1, 4], ["prediction", "lower", "upper"]].isna().all(axis=None)


def test_one_row_is_named(model: Path) -> None:
    gaps = as_table(NEW)
    gaps.loc[6, "x1"] = np.nan
    assert "'x1' (1 row): row 7 below the header." in refused(model, gaps)


def test_no_row_can_be_predicted(model: Path) -> None:
    message = refused(model, as_table(NEW).assign(x0=None), "--missing", "empty")
    assert "'x0' (7 rows): no row can be predicted." in message


def test_rows_of_parquet_are_found_by_their_place(model: Path) -> None:
    gaps = as_table(NEW).set_axis([9] * 7)
    gaps.iloc[2, 0] = np.nan
    gaps.to_parquet(model.parent / "new.parquet")
    run("predict", model, model.parent / "new.parquet", "--out", model.parent / "out.csv", "--missing", "empty")
    found = pd.read_csv(model.parent / "out.csv")
    assert np.flatnonzero(found["prediction"].isna()).tolist() == [2]


def test_classes_without_a_prediction(tmp_path: Path) -> None:
    table = TABLE.assign(y=(DATA.y > np.median(DATA.y)).astype(int)).drop(columns="region")
    table.to_csv(tmp_path / "table.csv", index=False)
    run("fit", tmp_path / "table.csv", "--outcome", "y", "--environment", "site", "--save", tmp_path / "model.json")
    saved = invariance.load(tmp_path / "model.json")
    gaps = as_table(NEW)
    whole, _ = written(tmp_path / "model.json", gaps)
    gaps.loc[2, saved.columns_to_predict[0]] = np.nan
    written(tmp_path / "model.json", gaps, "--missing", "empty")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[3].endswith(",,")
    assert pd.read_csv(tmp_path / "out.csv")["prediction"].drop(2).tolist() == whole["prediction"].drop(2).tolist()
