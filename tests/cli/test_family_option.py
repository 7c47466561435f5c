"""The command line says which model an outcome gets, and takes another."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_runner import fails, run
from invariance.cli.advice import for_command_line

RNG = np.random.default_rng(2)
N = 150
WRITE = "write a column of 0 and 1 into the file"
SITE = np.repeat(["a", "b", "c"], N // 3)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X = RNG.normal(size=(N, 2)) + 0.5 * np.repeat(RNG.normal(size=(3, 2)), N // 3, axis=0)
    died = RNG.random(N) < 1.0 / (1.0 + np.exp(-2.0 * X[:, 0]))
    years = RNG.uniform(0.5, 2.0, size=N)
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(
        died=np.where(died, "yes", "no"),
        event=died.astype(int),
        years=years,
        visits=RNG.poisson(years * np.exp(0.5 * X[:, 0])),
        stage=np.resize(["i", "ii", "iii"], N),
        site=SITE,
    )
    path = tmp_path_factory.mktemp("family") / "table.csv"
    frame.to_csv(path, index=False)
    return path


def fitted(table: Path, *arguments: object) -> tuple[str, str]:
    result = run("fit", table, "--environment", "site", "--features", "u,v", *arguments)
    assert result.exit_code == 0, result.stderr
    return " ".join(result.stdout.split()), result.stderr


def test_the_model_is_said_on_standard_error_and_in_the_summary(table: Path, tmp_path: Path) -> None:
    summary, said = fitted(table, "--outcome", "died", "--json", tmp_path / "out.json")
    assert said == "note: outcome model: logistic (died has two values: 'no' and 'yes'); --family gaussian overrides\n"
    assert "model logistic (died has two values: 'no' and 'yes'; --family gaussian overrides)" in summary
    assert "outcome died: 'yes' against 'no'." in summary
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["model"] == "logistic"
    assert content["model_reason"].startswith("died has two values: 'no' and 'yes'")


def test_another_model_is_asked_for(table: Path) -> None:
    summary, said = fitted(table, "--outcome", "died", "--family", "gaussian")
    assert said == ""
    assert "model linear Gaussian subsets" in summary
    summary, said = fitted(table, "--outcome", "event", "--family", "logistic(pseudo_rows=0)")
    assert (said, "model logistic subsets" in summary) == ("", True)


def test_numbers_are_fitted_in_silence(table: Path) -> None:
    summary, said = fitted(table, "--outcome", "years")
    assert said == ""
    assert "model linear Gaussian (years takes values that are no counts)" in summary


def test_exposures(table: Path) -> None:
    with_it, _ = fitted(table, "--outcome", "visits", "--exposure", "years", "--family", "poisson")
    without, _ = fitted(table, "--outcome", "visits", "--family", "poisson")
    assert "model Poisson subsets" in with_it
    assert with_it != without


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (["--outcome", "years", "--event", "died"], "1 where died is 'yes', and name that one"),
        (["--outcome", "stage"], "write a column of 0 and 1 into the file, 1 where stage is 'i', and name that one"),
        (["--outcome", "years", "--event", "dead"], "event column 'dead' is not in the file; did you mean 'died'?"),
        (["--outcome", "visits", "--exposure", "u"], "exposure 'u' must be above 0, and is not in"),
        (["--outcome", "u", "--exposure", "years"], "--exposure is for outcomes that are counts, and 'u' is not"),
        (["--outcome", "years", "--event", "event", "--exposure", "visits"], "--event and --exposure were both given"),
        (["--outcome", "died", "--family", "poison"], "--family poison is not known; did you mean 'poisson'?"),
        (["--outcome", "visits", "--family", "logistic"], "use --family auto"),
        (["--outcome", "years", "--family", "piecewise_exponential"], "give --event, 1 where one did"),
        (
            ["--outcome", "visits", "--exposure", "years", "--family", "gaussian"],
            "LinearGaussian does not know of the exposure 'years': use --family auto, or leave --exposure out; "
            "--exclude years keeps the column from becoming a feature.",
        ),
    ],
)
def test_bad_input_in_words_of_the_shell(table: Path, arguments: list[str], phrase: str) -> None:
    said = fails("fit", table, "--environment", "site", *arguments)
    assert phrase in said
    assert "event=" not in said
    assert "exposure=" not in said
    assert "family=" not in said


def test_compare_and_explain_take_it_too(table: Path, tmp_path: Path) -> None:
    asked = [table, "--outcome", "died", "--environment", "site", "--features", "u,v"]
    result = run("compare", *asked, "--methods", "BIP,ICP", "--json", tmp_path / "compared.json")
    assert result.exit_code == 0
    assert result.stderr.startswith("note: outcome model: logistic (died has two values")
    bip, icp = json.loads((tmp_path / "compared.json").read_text())["methods"]
    assert bip["model"].startswith("logistic (died has two values")
    assert icp["model"] is None
    result = run("explain", *asked, "--family", "gaussian", "--no-leave-out")
    assert result.exit_code == 0
    assert result.stderr == ""


def test_a_sweep_refuses_events(table: Path, tmp_path: Path) -> None:
    said = fails("sweep", table, "--environment", "site", "--event", "event", "--out", tmp_path / "sweep")
    assert "--event needs the rows, and a sweep keeps their second moments only" in said
    assert "invariance fit" in said


def test_a_sweep_offers_what_it_takes(table: Path, tmp_path: Path) -> None:
    offered = " ".join(run("sweep", "--help").stdout.replace("│", " ").split())
    assert "--event" not in offered
    assert "--exposure" not in offered
    assert "by the outcome" not in offered
    assert "auto: gaussian, for counts too" in offered
    said = fails("sweep", table, "--environment", "site", "--family", "logistic", "--out", tmp_path / "sweep")
    assert "Logistic needs the rows, and a sweep keeps their second moments only: use --family gaussian" in said
    assert "family=" not in said


def test_help_shows_an_example() -> None:
    said = run("fit", "--help").stdout
    assert "--outcome years --event died" in said
    assert "negative_binomial" in said


def test_advice_of_the_decision_is_typed_in_a_shell(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    place = np.repeat(["a", "b", "c", "d"], 250)
    x = rng.normal(size=1000)
    table = pd.DataFrame({"x": x, "site": place, "y": x + rng.standard_t(3, size=1000)})
    table.to_csv(tmp_path / "t.csv", index=False)
    fit = ("fit", tmp_path / "t.csv", "--outcome", "y", "--environment", "site")
    said = " ".join(run(*fit).stdout.split())
    assert "use --family mean." in said
    assert "family=" not in said
    advised = run(*fit, "--family", "mean")
    assert advised.exit_code == 0
    assert "heavy tails" not in advised.stdout


@pytest.mark.parametrize(
    ("message", "spoken"),
    [
        ("use family='linear_gaussian'.", "use --family gaussian."),
        ("family='auto', or", "--family auto, or"),
        ("judge with family='linear_gaussian_mean'.", "judge with --family mean."),
        (
            "Name it: table['a b'] = table['a b'] == 2",
            f"Name it: {WRITE}, 1 where a b is 2, and name that one",
        ),
        ("or leave exposure= out.", "or leave --exposure out."),
        ("column 'event= ' is", "column 'event= ' is"),
        ("Fit it by itself, BIP().fit(f(table, 'a', b)), or", "Fit it by itself with `invariance fit`, or"),
        ("meant, BIP(family='linear_gaussian').", "meant, --family gaussian."),
    ],
)
def test_words(message: str, spoken: str) -> None:
    assert for_command_line(message) == spoken
