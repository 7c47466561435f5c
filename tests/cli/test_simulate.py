"""The command `simulate`."""

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
from invariance.simulation import p10

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
