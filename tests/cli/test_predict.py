"""The command `predict`: numbers, classes, counts and times; rows that lack something."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

import invariance
from cli_runner import fails, run
from invariance.data.settings import Columns
from invariance.prediction.new_environments import few_environments
from shifted_sites import DATA, NEW, as_table
from two_classes import LABELS, SITE, X, Y
from two_classes import table as patients

pytestmark = pytest.mark.usefixtures("brief")
REGION = np.where(DATA.X[:, 3] > 0, "hill", "dale")
TABLE = as_table(DATA.X).assign(region=REGION, y=DATA.y, site=DATA.environment_index)
YEARS = np.random.default_rng(3).uniform(0.5, 5.0, len(X))
DALE = as_table(NEW).assign(region="dale")
VISITS = np.random.default_rng(4).poisson(YEARS * np.exp(0.6 * X[:, 0] - 0.5 * X[:, 1]))


def fit(folder: Path, frame: pd.DataFrame, outcome: str = "y", *more: str) -> Path:
    folder.mkdir(exist_ok=True)
    frame.to_csv(folder / "table.csv", index=False)
    arguments = ("fit", folder / "table.csv", "--outcome", outcome, "--environment", "site", *more)
    result = run(*arguments, "--save", folder / "model.json")
    assert result.exit_code == 0, result.output
    return folder / "model.json"


def predicted(model: Path, frame: pd.DataFrame, *more: Any) -> tuple[pd.DataFrame, str, str]:
    """The rows that are written, and what is said on both streams."""
    new = model.parent / "new.csv"
    out = model.parent / "out.csv"
    frame.to_csv(new, index=False)
    result = run("predict", model, new, "--out", out, *more)
    assert result.exit_code == 0, result.output
    return pd.read_csv(out, dtype={"code": str}), " ".join(result.stdout.split()), result.stderr


def refused(model: Path, frame: pd.DataFrame, *more: Any) -> str:
    """The error, after at most a warning that the saved model is not known to be invariant."""
    frame.to_csv(model.parent / "new.csv", index=False)
    result = run(
        "predict", model, model.parent / "new.csv", "--out", model.parent / "refused.csv", *more
    )
    assert (result.exit_code, result.stdout) == (2, "")
    assert not (model.parent / "refused.csv").exists()
    *warned, error = result.stderr.splitlines()
    assert all(
        line.startswith("warning: ") and "is not known to be invariant" in line for line in warned
    )
    assert error.startswith("error: ")
    return " ".join(error.split())


@pytest.fixture(scope="module", params=["with levels", "of numbers"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = TABLE if request.param == "with levels" else TABLE.drop(columns="region")
    return fit(tmp_path_factory.mktemp("models"), table)


def test_predictions_are_those_of_the_model(model: Path) -> None:
    rows = DALE.assign(code="007", y=1.0)
    written, said, _ = predicted(model, rows, "--coverage", "0.8")
    saved = invariance.load(model)
    ends = saved.predict_interval(rows, 0.8)
    np.testing.assert_array_equal(written["prediction"], saved.predict(rows))
    np.testing.assert_array_equal(written[["lower", "upper"]], ends)
    assert list(written) == [*rows, "prediction", "lower", "upper"]
    assert written["code"].tolist() == ["007"] * 7
    rmse = np.sqrt(np.mean((1.0 - written["prediction"]) ** 2))
    inside = np.sum((ends[:, 0] <= 1.0) & (ends[:, 1] >= 1.0))
    by = ", ".join(saved.columns_to_predict)
    assert (
        f"y for 7 rows of new.csv by {{{by}}}, with 0.8 intervals. What predicts: "
        f"{saved.prediction_} No row" in said
    )
    assert (
        f"known in 7 of them: root mean squared error {rmse:.4g}, {inside} of 7 inside their "
        "intervals" in said
    )


SELECTED = ("--predict-with", "selected")


def test_what_predicts_and_columns_that_do_not(model: Path) -> None:
    strange = DALE[["x1", "x0"]].assign(x2="word", x3=None, region="coast")  # which are not read
    saved = invariance.load(model).set_params(predict_with="selected")
    written, said, _ = predicted(model, strange, *SELECTED)
    np.testing.assert_array_equal(written["prediction"], saved.predict(DALE))
    assert list(written) == [*strange, "prediction", "lower", "upper"]
    assert "by {x0, x1}, with 0.9 intervals. What predicts: the 2 selected, as asked" in said
    for kind, told in (("average", "an average of compatible subsets"), ("everything", "all")):
        saved.set_params(predict_with=kind)
        assert set(saved.columns_to_predict) > {"x0", "x1"}
        assert "use --predict-with selected" in refused(
            model, DALE[["x0", "x1"]], "--predict-with", kind
        )
        written, said, _ = predicted(
            model, DALE[list(saved.columns_to_predict)], "--predict-with", kind
        )
        np.testing.assert_array_equal(written["prediction"], saved.predict(DALE))
        assert f"What predicts: {told}" in said


def test_environments_of_the_fit_have_their_intercepts(tmp_path: Path) -> None:
    """By labels that are read as in the fit; others are told, and predicted as new ones."""
    shifted = TABLE.assign(y=TABLE["y"] + 3.0 * TABLE["site"], site=TABLE["site"].map("0{}".format))
    model = fit(tmp_path, shifted)
    rows = DALE.assign(site=["00", "01", "02", "03", "04", None, "00"])
    own = ("--predict-with", "everything")
    of = ("--environment", "site")
    plain, _, _ = predicted(model, rows, *own)
    written, _, warned = predicted(model, rows, *own, *of)
    saved = invariance.load(model).set_params(predict_with="everything")
    np.testing.assert_array_equal(plain["prediction"], saved.predict(rows))
    np.testing.assert_array_equal(
        written["prediction"], saved.predict(rows, environments=rows["site"])
    )
    added = written["prediction"] - plain["prediction"]
    own_intercepts = saved.predictor_.effects[:, 0]
    np.testing.assert_allclose(added, [*own_intercepts, 0.0, 0.0, own_intercepts[0]], atol=1e-12)
    assert np.ptp(added) > 3.0
    for end in ("lower", "upper"):
        np.testing.assert_allclose(written[end] - plain[end], added, atol=1e-12)
    assert "04" in warned


def test_rows_with_missing_values(model: Path) -> None:
    gaps = DALE.assign(x2=None, y=1.0)
    gaps.loc[[1, 4], "x1"] = gaps.loc[4, "x0"] = np.nan
    message = refused(model, gaps, *SELECTED)
    assert (
        "'x1' (2 rows), 'x0' (1 row), in rows 2, 5 below the header: use --missing empty" in message
    )
    written, said, _ = predicted(model, gaps, "--missing", "empty", *SELECTED)
    for told in ("y for 5 rows of new.csv", "rows 2, 5 below the header", "known in 5 of them"):
        assert told in said
    whole = [0, 2, 3, 5, 6]
    saved = invariance.load(model).set_params(predict_with="selected")
    np.testing.assert_array_equal(
        written["prediction"].iloc[whole], saved.predict(DALE.iloc[whole])
    )
    assert written.loc[[1, 4], ["prediction", "lower", "upper"]].isna().all(axis=None)
    assert "no row can be predicted" in refused(
        model, gaps.assign(x0=None), "--missing", "empty", *SELECTED
    )


def test_rows_far_away_names_that_are_taken_and_positions_in_parquet(model: Path) -> None:
    rows = as_table(NEW).assign(region="hill", lower=5)
    rows.loc[3, "x0"] = 1e4
    written, said, warned = predicted(model, rows)
    assert "1 row far outside" in said
    assert "x0 = 1e+04" in warned
    assert "known in" not in said
    assert list(written)[-4:] == ["lower", "prediction", "lower_", "upper"]
    gaps = as_table(NEW).set_axis([9] * 7)
    gaps.iloc[2, 0] = np.nan
    gaps.to_parquet(model.parent / "new.parquet")
    out = model.parent / "out.csv"
    run(
        "predict",
        model,
        model.parent / "new.parquet",
        "--out",
        out,
        "--missing",
        "empty",
        *SELECTED,
    )
    assert np.flatnonzero(pd.read_csv(out)["prediction"].isna()).tolist() == [2]


def test_what_cannot_be_predicted(model: Path, tmp_path: Path) -> None:
    assert re.search(
        "lacks 'x1'.* it has 'x0', 'x2': use --exclude x1", refused(model, DALE[["x0", "x2"]])
    )
    assert "no rows" in refused(model, DALE[:0])
    assert "'x1'" in refused(model, DALE.astype(object).assign(x1=["a"] * 7))
    assert "coverage" in refused(model, DALE, "--coverage", 90)
    assert "use no --environment" in refused(
        model, DALE.assign(site=0), *SELECTED, "--environment", "site"
    )
    assert "no column 'site'" in refused(
        model, DALE, "--predict-with", "everything", "--environment", "site"
    )
    new = model.parent / "new.csv"
    out = tmp_path / "d.csv"
    assert "is not a saved model" in fails("predict", new, new, "--out", out)
    assert "named twice" in fails("predict", model, new, "--out", new)
    for several in (model.parent, model.parent / "*.csv"):
        assert "one file" in fails("predict", model, several, "--out", out)


def test_intervals_of_two_environments_are_not_trusted(tmp_path: Path) -> None:
    """By one sentence: in the JSON, after the fit and with the predictions."""
    model = fit(tmp_path, TABLE[TABLE["site"] < 2], "y", "--json", str(tmp_path / "fit.json"))
    told = json.loads((tmp_path / "fit.json").read_text())["new_environments"]
    assert (told["trusted"], told["why_not"]) == (False, few_environments(2))
    assert few_environments(2) in " ".join(predicted(model, DALE)[2].split())


def test_levels_that_are_new_and_models_that_are_not_invariant(tmp_path: Path) -> None:
    model = fit(tmp_path, TABLE, "y", "--select", "threshold", "--threshold", "0")
    strange = as_table(NEW).assign(region="coast")
    assert "'coast'" in refused(model, strange)
    assert len(predicted(model, strange, "--unknown", "ignore")[0]) == 7
    shifted = TABLE.assign(y=TABLE["y"] + 9.0 * TABLE["site"].astype("category").cat.codes)
    model = fit(tmp_path, shifted, "y", "--baseline", "shared")
    _, said, warned = predicted(model, DALE, "--predict-with", "average")
    assert (warned.startswith("warning: "), "none to average" in said) == (True, True)
    assert "none to average" not in predicted(model, DALE)[1]


# ---------------------------------------------------------------- classes, counts, times


@pytest.mark.parametrize(("outcome", "named"), [(LABELS, "yes"), (Y, "1")])
def test_probabilities(outcome: np.ndarray, named: str, tmp_path: Path) -> None:
    frame = patients().assign(died=outcome)
    model = fit(tmp_path, frame, "died")
    written, said, _ = predicted(model, frame)
    expected = invariance.load(model).predict(frame[list("abcd")])
    assert list(written)[-2:] == ["prediction", f"probability_{named}"]
    np.testing.assert_array_equal(written[f"probability_{named}"], expected)
    np.testing.assert_array_equal(
        written["prediction"], np.where(expected > 0.5, *np.unique(outcome)[::-1])
    )
    assert f"known in 400 of them: on average {Y.mean():.3g} where {expected.mean():.3g}" in said
    assert "calibration slope" in said
    assert (
        f"Brier score {brier_score_loss(Y, expected):.3g}, AUC {roc_auc_score(Y, expected):.3g}."
        in said
    )

    frame["died"] = frame["died"].astype(object).where(SITE == 0, None)
    frame.loc[:1, "died"] = "maybe"
    _, said, warned = predicted(model, frame)
    assert ("'maybe' in 2 rows" in warned, "known in 98 of them" in said) == (True, True)
    _, said, _ = predicted(model, frame.assign(died=outcome[Y == 1][0]))
    assert [word in said for word in ("Brier score", "AUC", "nan")] == [True, False, False]
    assert "known in" not in predicted(model, patients())[1]
    assert "--coverage" in refused(model, frame, "--coverage", 0.8)


def test_a_classifier_that_was_saved_in_python(tmp_path: Path) -> None:
    model = invariance.BIPClassifier(columns=Columns(environment="site")).fit(patients(), LABELS)
    model.save(tmp_path / "model.json")
    written, _, _ = predicted(tmp_path / "model.json", patients())
    np.testing.assert_array_equal(written["probability_yes"], model.predict_proba(patients())[:, 1])
    np.testing.assert_array_equal(written["prediction"], model.predict(patients()))


def test_rates_and_counts(tmp_path: Path) -> None:
    frame = patients().assign(visits=VISITS, years=YEARS)
    model = fit(tmp_path, frame, "visits", "--exposure", "years", "--family", "poisson")
    rate = invariance.load(model).predict(frame[list("abcd")])
    written, said, _ = predicted(model, frame)
    np.testing.assert_array_equal(written["rate"], rate)
    np.testing.assert_allclose(written["prediction"], rate * YEARS, rtol=1e-15)
    assert f"on average {VISITS.sum() / YEARS.sum():.3g} where" in said
    assert "deviance explained" in said
    written, said, _ = predicted(model, frame.drop(columns="years"))
    assert list(written)[-1] == "rate"
    assert "known in" not in said
    assert "nan" not in predicted(model, frame.assign(visits=0))[1]
    wrong = refused(model, frame.assign(years=np.r_[0.0, -2.0, np.inf, YEARS[3:]]))
    assert re.search("'years' of new.csv .* 3 rows", wrong)
    frame.loc[:299, "years"] = np.nan
    assert "known in 100 of them" in predicted(model, frame)[1]


def test_times(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    frame = patients().assign(
        weeks=rng.exponential(np.exp(0.8 * X[:, 0] - 0.8 * X[:, 1])) + 1e-3, ended=Y
    )
    model = fit(tmp_path, frame, "weeks", "--event", "ended")
    written, said, _ = predicted(model, frame)
    data = invariance.MultiEnvironmentData.from_table(frame, "weeks", "site", event="ended")
    np.testing.assert_allclose(
        written["prediction"], invariance.BIP().fit(data).predict(frame), rtol=1e-12
    )
    np.testing.assert_array_equal(
        written["prediction"], invariance.BIPSurvival().fit(data).predict(frame)
    )
    assert "the median time." in said
    saved = invariance.load(model)
    end = frame["weeks"].max()
    far = frame.assign(a=np.where(frame.index == 7, 50.0, frame["a"]))
    written, _, warned = predicted(model, far, "--at", "0.5,1", "--restricted-mean", "1.5")
    assert list(written)[-4:] == ["prediction", "survival_0.5", "survival_1", "restricted_mean_1.5"]
    np.testing.assert_array_equal(
        written[["survival_0.5", "survival_1"]], saved.predict_survival(far, [0.5, 1.0])
    )
    np.testing.assert_array_equal(
        written["restricted_mean_1.5"], saved.predict_restricted_mean(far, 1.5)
    )
    assert np.isinf(written["prediction"][7])
    assert f"by {end}, the longest time seen" in warned
    for option in ("--at", "--restricted-mean"):
        message = refused(model, frame, option, 1.01 * end)
        assert f"from 0 to {end}" in message
        assert "times=" not in message
        assert "horizon=" not in message
    numbers = fit(tmp_path / "numbers", TABLE)
    assert "use no --at" in refused(numbers, DALE, "--at", "1")


# ---------------------------------------------------------------- one new site


def test_rows_of_a_new_site_are_predicted_together(tmp_path):
    model = fit(tmp_path, as_table(DATA.X).assign(y=DATA.y, site=DATA.environment_index))
    rows = as_table(np.random.default_rng(5).normal(0.3, 0.8, (60, DATA.X.shape[1])))
    written, told, _ = predicted(model, rows, "--new-site")
    together = invariance.load(model).predict_site(rows)
    np.testing.assert_allclose(written["prediction"], together.prediction)
    np.testing.assert_allclose(written[["lower", "upper"]], together.interval)
    assert together.sentence in told
    assert "What predicts" not in told
    assert "--environment" in refused(model, rows.assign(site=0), "--new-site", "-e", "site")


def test_a_model_is_adapted_to_a_site(tmp_path):
    model = fit(tmp_path, as_table(DATA.X).assign(y=DATA.y, site=DATA.environment_index))
    rng = np.random.default_rng(5)
    rows = as_table(rng.normal(0.3, 0.8, (60, DATA.X.shape[1])))
    y = rows["x0"] - rows["x1"] + 2.0 + 0.1 * rng.normal(size=60)
    labelled = tmp_path / "labelled.csv"
    rows.assign(y=y.where(rows.index < 20)).to_csv(labelled, index=False)
    site = tmp_path / "site.json"
    result = run("adapt", model, labelled, "--save", site)
    assert result.exit_code == 0, result.output
    assert "by 20 rows" in result.stdout
    adapted = invariance.load(model).adapt(rows[:20], y[:20], rows[20:])
    written, told, _ = predicted(site, rows)
    np.testing.assert_allclose(written["prediction"], adapted.predict(rows))
    assert "Adapted to one site by 20 rows" in told
    assert "What predicts" not in told


def test_classes_are_adapted(tmp_path):
    frame = patients().assign(y=LABELS)
    model = fit(tmp_path, frame)
    own = frame[frame["site"] == "north"].drop(columns="site")
    labelled = tmp_path / "labelled.csv"
    own.to_csv(labelled, index=False)
    result = run("adapt", model, labelled, "--save", tmp_path / "site.json")
    assert result.exit_code == 0, result.output
    features = own.drop(columns="y")
    adapted = invariance.load(model).adapt(features, own["y"].to_numpy())
    loaded = invariance.load(tmp_path / "site.json")
    np.testing.assert_allclose(loaded.predict(features), adapted.predict(features))


def test_times_are_adapted(tmp_path):
    rng = np.random.default_rng(4)
    hazard = np.exp(X[:, 0] - X[:, 1])
    years = rng.exponential(1.0 / hazard)
    frame = patients().assign(y=years, died=(rng.random(len(years)) < 0.8).astype(int))
    model = fit(tmp_path, frame, "y", "--event", "died")
    own = frame[frame["site"] == "north"].drop(columns="site")
    labelled = tmp_path / "labelled.csv"
    own.to_csv(labelled, index=False)
    told = run("adapt", model, labelled, "--save", tmp_path / "site.json")
    assert told.exit_code == 2
    assert "--event" in told.stderr
    result = run("adapt", model, labelled, "--event", "died", "--save", tmp_path / "site.json")
    assert result.exit_code == 0, result.output
    features = own[list("abcd")]
    adapted = invariance.load(model).adapt(features, own["y"], event=own["died"])
    loaded = invariance.load(tmp_path / "site.json")
    np.testing.assert_allclose(
        loaded.predict_survival(features, [0.5]), adapted.predict_survival(features, [0.5])
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda rows: rows.drop(columns="y"), "no column 'y'"),
        (lambda rows: rows.assign(y=None), "missing in all rows"),
        (lambda rows: rows.assign(x0=rows["x0"].where(rows.index > 2)), "missing values in 'x0'"),
    ],
)
def test_tables_that_cannot_adapt_are_refused(tmp_path, change, named):
    model = fit(tmp_path, as_table(DATA.X).assign(y=DATA.y, site=DATA.environment_index))
    rows = as_table(np.random.default_rng(5).normal(size=(20, DATA.X.shape[1])))
    labelled = tmp_path / "labelled.csv"
    change(rows.assign(y=1.0)).to_csv(labelled, index=False)
    result = run("adapt", model, labelled, "--save", tmp_path / "site.json")
    assert result.exit_code == 2
    assert named in " ".join(result.stderr.split())
    assert not (tmp_path / "site.json").exists()
