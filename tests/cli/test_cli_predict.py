from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import invariance
from cli_runner import fails, run
from invariance.exceptions import NotInvariantWarning
from shifted_sites import DATA, NEW, as_table

TABLE = as_table(DATA.X).assign(
    region=np.where(DATA.X[:, 3] > 0, "hill", "dale"), y=DATA.y, site=DATA.environment_index
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    TABLE.to_csv(folder / "table.csv", index=False)
    new = as_table(NEW).assign(region="dale", code="007", y=1.0)
    new.to_csv(folder / "new.csv", index=False)
    result = run(
        "fit", folder / "table.csv", "--outcome", "y", "--environment", "site", "--save", folder / "model.json"
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith(f"Saved the model to {folder / 'model.json'}\n")
    return folder


def test_predictions_are_those_of_the_model(folder: Path) -> None:
    new, out = folder / "new.csv", folder / "out.csv"
    result = run("predict", folder / "model.json", new, "--out", out, "--coverage", "0.8")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.split("Saved")[0].splitlines())) <= 80
    written, model = pd.read_csv(out, dtype={"code": str}), invariance.load(folder / "model.json")
    X = pd.read_csv(new)
    np.testing.assert_array_equal(written["prediction"], model.predict(X))
    ends = model.predict_interval(X, 0.8)
    np.testing.assert_array_equal(written[["lower", "upper"]], ends)
    assert written["code"].tolist() == ["007"] * 7
    assert list(written) == [*X, "prediction", "lower", "upper"]
    words = " ".join(result.stdout.split())
    rmse = np.sqrt(np.mean((1.0 - written["prediction"]) ** 2))
    inside = np.mean((ends[:, 0] <= 1.0) & (ends[:, 1] >= 1.0))
    assert "Predicted y for 7 rows of new.csv by {x0, x1}, with 0.8 intervals." in words
    assert "No row lies far outside the rows that were fitted." in words
    assert f"The outcome is known in 7 of them: root mean squared error {rmse:.4g}, {inside:.3g} inside" in words


def test_averages(folder: Path) -> None:
    result = run("predict", folder / "model.json", folder / "new.csv", "--out", folder / "a.csv", "--average")
    assert "by an average of compatible subsets" in " ".join(result.stdout.split())
    model = invariance.load(folder / "model.json").set_params(predict_with="average")
    expected = model.predict(pd.read_csv(folder / "new.csv"))
    np.testing.assert_array_equal(pd.read_csv(folder / "a.csv")["prediction"], expected)


def test_rows_far_away_and_taken_names(folder: Path) -> None:
    new = as_table(NEW).assign(region="hill", lower=5)
    new.loc[3, "x0"] = 1e4
    new.to_csv(folder / "far.csv", index=False)
    result = run("predict", folder / "model.json", folder / "far.csv", "--out", folder / "b.csv")
    assert "1 row lies far outside the rows that were fitted." in " ".join(result.stdout.split())
    assert "the farthest has x0 = 1e+04" in result.stderr
    assert "outcome is known" not in result.stdout
    assert list(pd.read_csv(folder / "b.csv"))[-4:] == ["lower", "prediction", "lower_", "upper"]


def test_levels_that_are_new(folder: Path) -> None:
    as_table(NEW).assign(region="coast").to_csv(folder / "strange.csv", index=False)
    model = folder / "all.json"
    every = "--select", "threshold", "--threshold", "0"
    run("fit", folder / "table.csv", "--outcome", "y", "--environment", "site", "--save", model, *every)
    message = fails("predict", model, folder / "strange.csv", "--out", folder / "c.csv")
    assert "column 'region' has 'coast'" in message
    assert "use --unknown ignore" in message
    assert not (folder / "c.csv").exists()
    assert (
        run("predict", model, folder / "strange.csv", "--out", folder / "c.csv", "--unknown", "ignore").exit_code == 0
    )


def test_what_cannot_be_predicted(folder: Path) -> None:
    model, out = folder / "model.json", folder / "d.csv"
    as_table(NEW)[["x0", "x2"]].to_csv(folder / "few.csv", index=False)
    message = fails("predict", model, folder / "few.csv", "--out", out)
    assert "few.csv lacks columns that the model needs: 'x1'; it has 'x0', 'x2'" in message
    as_table(NEW[:0]).assign(region=[]).to_csv(folder / "none.csv", index=False)
    assert "none.csv has no rows to predict" in fails("predict", model, folder / "none.csv", "--out", out)
    assert "coverage=90.0 is no share" in fails("predict", model, folder / "new.csv", "--out", out, "--coverage", 90)
    assert "is not a saved model" in fails("predict", folder / "new.csv", folder / "new.csv", "--out", out)
    assert "use a name that ends in .csv" in fails("predict", model, folder / "new.csv", "--out", "d.txt")
    assert "named twice" in fails("predict", model, folder / "new.csv", "--out", folder / "new.csv")


def test_gaps_and_words_in_a_table_of_numbers(folder: Path) -> None:
    plain = TABLE.drop(columns="region")
    plain.to_csv(folder / "plain.csv", index=False)
    model, new, out = folder / "plain.json", folder / "gaps.csv", folder / "e.csv"
    run("fit", folder / "plain.csv", "--outcome", "y", "--environment", "site", "--save", model)
    as_table(NEW).mask(as_table(NEW) == NEW[2, 1]).to_csv(new, index=False)
    assert "gaps.csv has missing values in 'x1' (1 row)" in fails("predict", model, new, "--out", out)
    as_table(NEW).astype(object).assign(x1=["a"] * 7).to_csv(new, index=False)
    assert "'x1'" in fails("predict", model, new, "--out", out)
    assert run("predict", model, folder / "plain.csv", "--out", out).exit_code == 0


def test_a_model_is_no_other_output(folder: Path) -> None:
    arguments = ("fit", folder / "table.csv", "--outcome", "y", "--environment", "site", "--save", folder / "x.json")
    assert "named twice" in fails(*arguments, "--json", folder / "x.json")


def test_a_model_that_is_not_invariant_is_said_to_be_so(folder: Path) -> None:
    torn = TABLE.assign(y=TABLE["y"] + 9.0 * TABLE["site"].astype("category").cat.codes)
    torn.to_csv(folder / "torn.csv", index=False)
    model = folder / "torn.json"
    assert run("fit", folder / "torn.csv", "--outcome", "y", "--environment", "site", "--save", model).exit_code == 0
    with pytest.warns(NotInvariantWarning):
        assert invariance.load(model).predictive_ is None
    result = run("predict", model, folder / "new.csv", "--out", folder / "t.csv", "--average")
    assert result.exit_code == 0, result.output
    assert "of the saved model are not known to predict y alike in all environments" in result.stderr
    words = " ".join(result.stdout.split())
    assert "average of compatible" not in words
    assert "There was nothing to average: no subset is compatible with invariance." in words
    plain = run("predict", model, folder / "new.csv", "--out", folder / "t.csv")
    assert "of the saved model are not known to predict y alike in all environments" in plain.stderr
    assert "nothing to average" not in plain.stdout


def test_an_outcome_of_words_does_not_stop_predictions(folder: Path) -> None:
    as_table(NEW).assign(region="dale", code="007", y=["?", *"123456"]).to_csv(folder / "unknown.csv", index=False)
    result = run("predict", folder / "model.json", folder / "unknown.csv", "--out", folder / "u.csv")
    assert result.exit_code == 0, result.output
    assert "'y' of unknown.csv holds '?' in 1 row, and the model predicts numbers" in result.stderr
    assert pd.read_csv(folder / "u.csv")["prediction"].notna().all()
