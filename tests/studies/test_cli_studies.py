"""The commands `simulate` and `study`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from invariance import MultiEnvironmentData
from invariance.cli.main import app
from invariance.cli.studies import Scale, StudyName
from invariance.simulation import p10
from invariance.studies import SCALES, STUDIES

SOURCE = Path(__file__).parents[2] / "src"
PLAIN = {"FORCE_COLOR": None, "NO_COLOR": None, "TTY_COMPATIBLE": None, "COLUMNS": "80"}


def run(*arguments: object) -> Result:
    return CliRunner(env=PLAIN).invoke(app, [str(a) for a in arguments], prog_name="invariance")


def fails(*arguments: object) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture(autouse=True)
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "tsv"])
def test_simulate_round_trip(workdir: Path, ending: str) -> None:
    result = run("simulate", "p10", "--n", 40, "--environments", 4, "--seed", 1, "-o", f"data.{ending}")
    assert result.exit_code == 0, result.stderr
    assert {file.name for file in workdir.iterdir()} == {f"data.{ending}", "data.truth.json"}
    rng = np.random.default_rng(1)
    model = p10(4, rng)
    expected = model.sample(40, rng)
    data = MultiEnvironmentData.from_table(workdir / f"data.{ending}", "y", "environment")
    assert data.feature_names == expected.feature_names
    assert data.environments == expected.environments
    np.testing.assert_allclose(data.X, expected.X, rtol=1e-15)
    np.testing.assert_allclose(data.y, expected.y, rtol=1e-15)
    truth = json.loads((workdir / "data.truth.json").read_text())
    assert truth["true_features"] == [f"x{j + 1}" for j in np.flatnonzero(model.truth)]
    assert (truth["preset"], truth["seed"], truth["n"], truth["environments"]) == ("p10", 1, 40, 4)
    coefficients = truth["outcome_equation"]["coefficients"]
    assert set(coefficients) == set(truth["true_features"])
    assert truth["ordering"].index("y") == len(coefficients)
    assert truth["intervened"]["e1"] == []
    assert f"invariance fit data.{ending} --outcome y --environment environment" in result.stdout


def test_what_simulate_wrote_can_be_fitted(workdir: Path) -> None:
    assert run("simulate", "p10", "--strength", 1, "--environments", 10, "-o", "data.csv").exit_code == 0
    truth = json.loads((workdir / "data.truth.json").read_text())
    result = run("fit", "data.csv", "--outcome", "y", "--environment", "environment", "--json", "posterior.json")
    assert result.exit_code == 0
    from invariance import Posterior

    assert list(Posterior.from_json(workdir / "posterior.json").mode) == truth["true_features"]


@pytest.mark.parametrize(("preset", "p", "n_environments"), [("theory", 3, 5), ("p450", 450, 5), ("example_2", 2, 3)])
def test_presets(workdir: Path, preset: str, p: int, n_environments: int) -> None:
    assert run("simulate", preset, "--n", 5, "-o", "data.parquet").exit_code == 0
    table = pd.read_parquet(workdir / "data.parquet")
    assert table.shape == (5 * n_environments, p + 2)
    assert table["environment"].nunique() == n_environments


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (["p10", "-o", "data.xlsx"], "cannot write a table as 'data.xlsx': use a name that ends in .parquet"),
        (["p10"], "Missing option '--output'"),
        (["p99", "-o", "a.csv"], "'p99' is not one of 'theory', 'p10'"),
        (["example_1", "-o", "a.csv", "--environments", 4], "example_1 has 2 or 3 environments, not 4"),
        (["example_1", "-o", "a.csv", "--strength", 1], "the model of example_1 is fixed"),
        (["p10", "-o", "a.csv", "--strength", 2], "Invalid value for '--strength'"),
        (["p10", "-o", "."], "cannot write a table as ''"),
        (["p10", "-o", "folder.csv"], "it is a folder"),
    ],
)
def test_simulate_complaints(workdir: Path, arguments: list[object], phrase: str) -> None:
    (workdir / "folder.csv").mkdir()
    assert phrase in fails("simulate", *arguments)
    assert [file.name for file in workdir.iterdir()] == ["folder.csv"]


def test_parquet_needs_pyarrow(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pip install 'invariance[parquet]', or use .csv" in fails("simulate", "theory", "-o", "a.parquet")
    assert list(workdir.iterdir()) == []


def test_study(workdir: Path) -> None:
    arguments = ["study", "identifiability", "--jobs", 1, "--replicates", 3]
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    folder = workdir / "results" / "identifiability-quick"
    assert "Example 1 (truth [1,0]): 2 modes with 2 environments" in result.stdout
    assert "One replicate costs" in result.stdout
    assert "Saved the report to results/identifiability-quick/report.md" in result.stdout
    assert "identifiability --scale quick --replicates 3`" in (folder / "report.md").read_text()
    again = run(*arguments)
    assert "18 were there from before" in again.stdout
    assert "(seed: 0 there, 4 now)" in fails(*arguments, "--seed", 4)
    larger = run("study", "identifiability", "--scale", "paper", "--replicates", 4, "--out", folder, "--jobs", 1)
    assert "This session did 6 replicates" in larger.stdout


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (["theroy"], "'theroy' is not one of 'theory'"),
        (["theory", "--scale", "huge"], "'huge' is not one of 'quick', 'paper'"),
        (["theory", "--jobs", "0"], "Invalid value for '--jobs'"),
        (["theory", "--jobs", "2", "--dask", "tcp://127.0.0.1:1"], "use one of them"),
        (["theory", "--out", "file"], "/file' is a file, not a folder"),
        (["cost", "--dask", "tcp://127.0.0.1:1"], "run it without --dask"),
        (["genes"], "1,479 deletions of 6,170 genes, from https://deleteome.holstegelab.nl"),
        (["genes"], "with --data PATH, or simulate a network with --simulated 600"),
        (["genes", "--data", "file", "--simulated", "60"], "use one of them"),
        (["genes", "--data", "nowhere.RData"], "there is no file 'nowhere.RData'"),
        (["theory", "--data", "file"], "the study theory makes its own data: leave --data out"),
        (["cost", "--simulated", "60"], "the study cost makes its own data: leave --simulated out"),
    ],
)
def test_study_complaints(workdir: Path, arguments: list[str], phrase: str) -> None:
    (workdir / "file").write_text("")
    assert phrase in " ".join(fails("study", *arguments).split())


def test_genes_of_a_simulated_network(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from invariance.studies import genes

    usual = genes.at_scale
    monkeypatch.setattr(
        genes, "at_scale", lambda *given, **changes: usual(*given, **changes, methods=("Lasso",), targets=1)
    )
    result = run("study", "genes", "--simulated", 60, "--jobs", 1, "--replicates", 1, "--seed", 2)
    assert result.exit_code == 0, result.stderr
    assert "262 wild types, 14 deletions and 60 genes; targets: 1;" in result.stdout
    report = (workdir / "results" / "genes-quick" / "report.md").read_text()
    assert "`invariance study genes --scale quick --simulated 60 --replicates 1 --seed 2`" in report


def test_an_interrupt_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("invariance.studies.runner.run_study", interrupted)
    result = run("study", "theory", "--out", "here")
    assert result.exit_code == 130
    assert "note: what is finished is in 'here'; the same command goes on from there" in result.stderr


def test_the_command_knows_every_study() -> None:
    assert [name.value for name in StudyName] == list(STUDIES)
    assert [scale.value for scale in Scale] == list(SCALES)
    help_text = run("study", "--help").stdout
    assert all(name in help_text for name in STUDIES)


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from invariance.cli.main import app\n"
        "print({'numpy', 'pandas', 'numba', 'sklearn', 'matplotlib', 'joblib', 'distributed'} & set(sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True, env=environment
    )
    assert done.stdout.strip() == "set()"
