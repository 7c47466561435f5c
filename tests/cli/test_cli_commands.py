"""The commands `explain`, `compare` and `simulate`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_runner import fails, run
from invariance import MultiEnvironmentData
from invariance.simulation import p10

ASKED = ["--outcome", "y", "--environment", "site"]
EXAMPLE = ["example.csv", "--outcome", "blood_pressure", "--environment", "hospital"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = a + noise, shifted in the east."""
    rng = np.random.default_rng(9)
    site = np.append(np.repeat(["north", "south", "east", "west", "a, b"], 40), ["tiny"] * 4)
    a, b = rng.normal(size=(2, len(site)))
    y = a + rng.normal(size=len(site)) + 2.0 * (site == "east")
    path = tmp_path_factory.mktemp("explain") / "table.csv"
    pd.DataFrame({"a": a, "b": b, "y": y, "site": site}).to_csv(path, index=False)
    return path


def said(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return " ".join(result.stdout.split())


def test_explain_names_the_environment_and_writes_files(table: Path, tmp_path: Path) -> None:
    files = tmp_path / "out.json", tmp_path / "out.png"
    text = said("explain", table, *ASKED, "--min-rows", 5, "--json", files[0], "--plot", files[1])
    assert "'tiny' (4 rows)" in text
    assert text.endswith(f"Saved the diagnosis to {files[0]} Saved the picture to {files[1]}")
    assert json.loads(files[0].read_text(encoding="utf-8"))["named"] == "east"
    assert files[1].read_bytes().startswith(b"\x89PNG")


def test_explain_a_subset(tmp_path: Path, table: Path) -> None:
    constant = tmp_path / "constant.csv"
    pd.read_csv(table).assign(still=1.0).to_csv(constant, index=False)
    asked = ["explain", constant, *ASKED, "--min-rows", 5, "--no-leave-out"]
    assert said(*asked, "--subset", "b").startswith("Environments of y given {b}")
    assert said(*asked, "--subset", "").startswith("Environments of y given {}")
    assert "'still'" in run(*asked, "--subset", "a,still").stderr
    assert "'c'" in run(*asked, "--subset", "a,c").stderr


def test_explain_selects_as_fit_does(table: Path) -> None:
    choice = ["--delta", 0.5, "--tau", 3, "--level", 0.1, "--weak-level", 0.1]
    chosen = said("fit", table, *ASKED, "--min-rows", 5, *choice).split(" selected {")[1].split("}")[0]
    explained = said("explain", table, *ASKED, "--min-rows", 5, "--no-leave-out", *choice)
    assert f"Environments of y given {{{chosen}}}" in explained


def test_every_command_with_a_table_chooses_environments(table: Path) -> None:
    options = ["--drop-environment", 'tiny,"a, b"', "--merge", "north+south=cold"]
    for command in (["fit"], ["compare", "--methods", "Regression"], ["explain", "--no-leave-out"]):
        text = said(*command, table, *ASKED, *options)
        assert "cold" in text or command[0] == "compare"
        assert "south" not in text.replace("'south' (40 rows)", "")
    assert "'tiny'" in fails("explain", table, *ASKED, "--drop-environment", "tinny")
    assert "--merge" in fails("fit", table, *ASKED, "--merge", "north+south")
    assert "40" in fails("compare", table, *ASKED, "--min-rows", 99)


def test_compare_prints_and_saves(example: Path) -> None:
    result = run("compare", *EXAMPLE, "--json", "c.json", "--plot", "c.png")
    assert result.exit_code == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stdout.endswith("Saved the comparison to c.json\nSaved the picture to c.png\n")
    selected = {method["name"]: method["selected"] for method in json.loads(Path("c.json").read_text())["methods"]}
    assert selected["BIP"] == selected["ICP"] == ["age", "exercise", "smoking"]
    assert list(selected) == ["BIP", "ICP", "Hidden-ICP", "EILLS", "Regression", "Lasso", "Marginal"]
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")


def test_bip_is_that_of_fit(example: Path) -> None:
    options = ["--engine", "tempering(chains=2, steps=50)", "--prior", "inclusion(0.2)", "--seed", "3"]
    options += ["--select", "threshold", "--threshold", "0.1"]
    assert run("compare", *EXAMPLE, "--methods", "bip", "--json", "c.json", *options).exit_code == 0
    assert run("fit", *EXAMPLE, "--json", "f.json", *options).exit_code == 0
    (compared,), fitted = json.loads(Path("c.json").read_text())["methods"], json.loads(Path("f.json").read_text())
    assert compared["inclusion_probabilities"] == fitted["inclusion"]
    assert compared["selected"] == fitted["decision"]["selected"]


# ---------------------------------------------------------------- simulate


@pytest.mark.parametrize("ending", ["parquet", "csv.gz", "tsv"])
def test_simulate_round_trip(workdir: Path, ending: str) -> None:
    text = said("simulate", "p10", "--n", 40, "--environments", 4, "--seed", 1, "-o", f"out/data.{ending}")
    assert {file.name for file in Path("out").iterdir()} == {f"data.{ending}", "data.truth.json"}
    rng = np.random.default_rng(1)
    model = p10(4, rng)
    expected = model.sample(40, rng)
    data = MultiEnvironmentData.from_table(workdir / f"out/data.{ending}", "y", "environment")
    assert (data.feature_names, data.environments) == (expected.feature_names, expected.environments)
    np.testing.assert_allclose(data.X, expected.X, rtol=1e-15)
    np.testing.assert_allclose(data.y, expected.y, rtol=1e-15)
    truth = json.loads(Path("out/data.truth.json").read_text())
    assert truth["true_features"] == [f"x{j + 1}" for j in np.flatnonzero(model.truth)]
    assert (truth["preset"], truth["seed"], truth["n"], truth["environments"]) == ("p10", 1, 40, 4)
    assert set(truth["outcome_equation"]["coefficients"]) == set(truth["true_features"])
    assert truth["intervened"]["e1"] == []
    assert f"invariance fit out/data.{ending} --outcome y --environment environment" in text


@pytest.mark.parametrize(("preset", "p", "n_environments"), [("theory", 3, 5), ("p450", 450, 5), ("example_2", 2, 3)])
def test_presets(workdir: Path, preset: str, p: int, n_environments: int) -> None:
    assert run("simulate", preset, "--n", 5, "-o", "data.parquet").exit_code == 0
    written = pd.read_parquet("data.parquet")
    assert written.shape == (5 * n_environments, p + 2)
    assert written["environment"].nunique() == n_environments


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["theory", "-o", "a.parquet"], "invariance[parquet]"),
        (["p10", "-o", "data.xlsx"], "'data.xlsx'"),
        (["p10"], "'--output'"),
        (["p99", "-o", "a.csv"], "'p99'"),
        (["example_1", "-o", "a.csv", "--environments", 4], "2 or 3"),
        (["example_1", "-o", "a.csv", "--strength", 1], "--strength"),
        (["p10", "-o", "a.csv", "--strength", 2], "'--strength'"),
        (["p10", "-o", "folder.csv"], "it is a folder"),
    ],
)
def test_simulate_refuses(workdir: Path, arguments: list[object], named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    Path("folder.csv").mkdir()
    assert named in fails("simulate", *arguments)
    assert {file.name for file in workdir.iterdir()} == {"folder.csv", "good.csv"}
