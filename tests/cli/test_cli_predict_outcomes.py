"""The command `predict` for classes and counts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

import invariance
from cli_runner import fails, run
from invariance import Columns
from two_classes import LABELS, SITE, X, Y, table

YEARS = np.random.default_rng(3).uniform(0.5, 5.0, len(X))
VISITS = np.random.default_rng(4).poisson(YEARS * np.exp(0.6 * X[:, 0] - 0.5 * X[:, 1]))


def fit(folder: Path, frame: pd.DataFrame, outcome: str, *more: str) -> Path:
    frame.to_csv(folder / "table.csv", index=False)
    arguments = ("fit", folder / "table.csv", "--outcome", outcome, "--environment", "site", *more)
    result = run(*arguments, "--save", folder / "model.json")
    assert result.exit_code == 0, result.output
    assert "New environments: " in result.stdout
    assert max(map(len, result.stdout.split("Saved")[0].splitlines())) <= 80
    return folder / "model.json"


def predicted(folder: Path, model: Path, frame: pd.DataFrame, *more: str) -> tuple[pd.DataFrame, str]:
    frame.to_csv(folder / "new.csv", index=False)
    result = run("predict", model, folder / "new.csv", "--out", folder / "out.csv", *more)
    assert result.exit_code == 0, result.output
    return pd.read_csv(folder / "out.csv"), " ".join(result.stdout.split())


@pytest.mark.parametrize(("outcome", "named"), [(LABELS, "yes"), (Y, "1"), (Y == 1, "True")])
def test_probabilities_with_the_class_named(outcome: np.ndarray, named: str, tmp_path: Path) -> None:
    frame = table().assign(died=outcome)
    model = fit(tmp_path, frame, "died")
    written, words = predicted(tmp_path, model, frame)
    expected = invariance.load(model).predict(frame[list("abcd")])
    assert list(written)[-2:] == ["prediction", f"probability_{named}"]
    np.testing.assert_array_equal(written[f"probability_{named}"], expected)
    np.testing.assert_array_equal(written["prediction"], np.where(expected > 0.5, *np.unique(outcome)[::-1]))
    assert f"by {{a, b}}: the probability of {named}, and the more probable class." in words
    told = f"Brier score {brier_score_loss(Y, expected):.3g}, AUC {roc_auc_score(Y, expected):.3g}."
    assert f"The outcome is known in 400 of them: on average {Y.mean():.3g} where {expected.mean():.3g}" in words
    assert told in words
    assert "intervals" not in words


def test_classes_that_are_numbers_are_said_as_in_the_file(tmp_path: Path) -> None:
    table().assign(stage=Y + 1).to_csv(tmp_path / "table.csv", index=False)
    said = run("fit", tmp_path / "table.csv", "--outcome", "stage", "--environment", "site", "--save", tmp_path / "m")
    assert "New environments: the probability that stage is 2\n" in said.stdout


def test_some_outcomes_are_known_or_strange(tmp_path: Path) -> None:
    frame = table().assign(died=LABELS)
    model = fit(tmp_path, frame, "died")
    _, words = predicted(tmp_path, model, frame.assign(died=np.where(SITE == 0, LABELS, None)))
    assert "The outcome is known in 100 of them" in words
    frame.assign(died="perhaps").to_csv(tmp_path / "new.csv", index=False)
    result = run("predict", model, tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    said = "'died' of new.csv holds 'perhaps' in 400 rows, and the model tells 'yes' from 'no'"
    assert said in " ".join(result.stderr.split())
    assert "is known in" not in result.stdout
    assert "is known in" not in predicted(tmp_path, model, table())[1]
    message = fails("predict", model, tmp_path / "new.csv", "--out", tmp_path / "out.csv", "--coverage", 0.8)
    assert "predictions of 'died' have no intervals: leave --coverage out" in message


def test_a_classifier_that_was_saved_in_python(tmp_path: Path) -> None:
    model = invariance.BIPClassifier(columns=Columns(environment="site")).fit(table(), LABELS)
    model.save(tmp_path / "model.json")
    written, _ = predicted(tmp_path, tmp_path / "model.json", table())
    np.testing.assert_array_equal(written["probability_yes"], model.predict_proba(table())[:, 1])
    np.testing.assert_array_equal(written["prediction"], model.predict(table()))


def test_rates_and_counts(tmp_path: Path) -> None:
    frame = table().assign(visits=VISITS, years=YEARS)
    model = fit(tmp_path, frame, "visits", "--exposure", "years", "--family", "poisson")
    rate = invariance.load(model).predict(frame[list("abcd")])
    written, words = predicted(tmp_path, model, frame)
    np.testing.assert_array_equal(written["rate"], rate)
    np.testing.assert_allclose(written["prediction"], rate * YEARS, rtol=1e-15)
    assert ": the rate per unit of years, and what that makes in each row." in words
    assert f"on average {VISITS.sum() / YEARS.sum():.3g} where" in words
    assert "deviance explained" in words
    written, words = predicted(tmp_path, model, frame.drop(columns="years"))
    assert list(written)[-1] == "rate"
    assert ": the rate per unit of years, which the table lacks." in words
    assert "is known in" not in words
    frame.loc[:299, "years"] = np.nan
    assert "The outcome is known in 100 of them" in predicted(tmp_path, model, frame)[1]


def test_counts_without_an_exposure(tmp_path: Path) -> None:
    frame = table().assign(visits=VISITS)
    model = fit(tmp_path, frame, "visits", "--family", "poisson")
    written, words = predicted(tmp_path, model, frame)
    np.testing.assert_array_equal(written["prediction"], invariance.load(model).predict(frame[list("abcd")]))
    assert "Predicted visits for 400 rows of new.csv by {a, b}. No row" in words


@pytest.mark.parametrize(("outcome", "strange"), [(LABELS, "maybe"), (Y, "maybe"), (Y == 1, "maybe"), (LABELS, 1)])
def test_labels_that_are_not_known_lose_their_rows_only(outcome: np.ndarray, strange: object, tmp_path: Path) -> None:
    frame = table().assign(died=outcome)
    model = fit(tmp_path, frame, "died")
    expected = invariance.load(model).predict(frame[list("abcd")])
    frame["died"] = frame["died"].astype(object)
    frame.loc[:1, "died"] = strange
    frame.to_csv(tmp_path / "new.csv", index=False)
    result = run("predict", model, tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    assert f"'died' of new.csv holds '{strange}' in 2 rows, and the model tells" in " ".join(result.stderr.split())
    told = f"AUC {roc_auc_score(Y[2:], expected[2:]):.3g}."
    words = " ".join(result.stdout.split())
    assert "The outcome is known in 398 of them" in words
    assert told in words


def test_figures_that_are_not_defined_are_left_out(tmp_path: Path) -> None:
    frame = table().assign(visits=VISITS, died=LABELS)
    counts = fit(tmp_path, frame.drop(columns="died"), "visits", "--family", "poisson")
    none, told = frame.assign(visits=0), "is predicted."
    assert told in predicted(tmp_path, counts, none)[1]
    assert "nan" not in predicted(tmp_path, counts, none)[1]
    classes = fit(tmp_path, frame.drop(columns="visits"), "died")
    words = predicted(tmp_path, classes, frame.assign(died="yes"))[1]
    assert "is predicted, Brier score" in words
    assert "nan" not in words
    assert "AUC" not in words
    words = predicted(tmp_path, classes, frame)[1]
    assert re.search(r"is predicted, calibration intercept [+-]0\.\d{3}, calibration slope [\d.]+, Brier score", words)


@pytest.mark.parametrize("wrong", [0.0, -2.0, np.inf])
def test_an_exposure_that_is_not_above_0_is_refused(wrong: float, tmp_path: Path) -> None:
    frame = table().assign(visits=VISITS, years=YEARS)
    model = fit(tmp_path, frame, "visits", "--exposure", "years", "--family", "poisson")
    frame.loc[3:4, "years"] = wrong
    frame.to_csv(tmp_path / "new.csv", index=False)
    message = fails("predict", model, tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    assert "exposure 'years' of new.csv must be above 0, and is not in 2 rows" in message
    assert not (tmp_path / "out.csv").exists()
    assert list(predicted(tmp_path, model, frame.drop(columns="years"))[0])[-1] == "rate"


def test_words_by_a_model_of_numbers(tmp_path: Path) -> None:
    frame = table().assign(died=LABELS)
    model = fit(tmp_path, frame, "died", "--family", "gaussian")
    written, words = predicted(tmp_path, model, frame)
    missed = np.sqrt(np.mean((Y - written["prediction"]) ** 2))
    assert f"known in 400 of them: root mean squared error {missed:.4g}" in words
    model = fit(tmp_path, frame, "died", "--family", "poisson")
    written, words = predicted(tmp_path, model, frame)
    np.testing.assert_array_equal(written["prediction"], invariance.load(model).predict(frame[list("abcd")]))
    assert f"on average {Y.mean():.3g} where" in words


def test_times_are_saved_and_predicted(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    frame = table().assign(weeks=rng.exponential(np.exp(0.8 * X[:, 0] - 0.8 * X[:, 1])) + 1e-3, ended=Y)
    model = fit(tmp_path, frame, "weeks", "--event", "ended")
    written, words = predicted(tmp_path, model, frame)
    data = invariance.MultiEnvironmentData.from_table(frame, "weeks", "site", event="ended")
    expected = invariance.BIP().fit(data).predict(frame)
    np.testing.assert_allclose(written["prediction"], expected, rtol=1e-12)
    assert "of new.csv by {a, b}: the expected time." in words
    invariance.BIPSurvival().fit(data).save(model)
    assert ": the median time." in predicted(tmp_path, model, frame)[1]
