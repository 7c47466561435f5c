"""The commands `explain`, `compare`, `sweep` and `edges`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_runner import fails, run
from invariance import BIP, BetaBinomialPrior, edges, edges_of, read_sweep, sweep
from invariance.posterior.summary import display_width

pytestmark = pytest.mark.usefixtures("brief")
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
    """East has a baseline of its own: it is named if baselines are compared, and not where they are
    free."""
    files = tmp_path / "out.json", tmp_path / "out.png"
    for baseline, named in (("shared", "east"), ("auto", None)):
        asked = [
            table,
            *ASKED,
            "--min-rows",
            5,
            "--baseline",
            baseline,
            "--json",
            files[0],
            "--plot",
            files[1],
        ]
        text = said("explain", *asked)
        assert "'tiny' (4 rows)" in text
        assert text.endswith(f"Saved {files[0]} Saved {files[1]}")
        assert json.loads(files[0].read_text(encoding="utf-8"))["named"] == named
        assert files[1].read_bytes().startswith(b"\x89PNG")


def test_explain_a_subset_or_what_fit_selects(tmp_path: Path, table: Path) -> None:
    constant = tmp_path / "constant.csv"
    pd.read_csv(table).assign(still=1.0).to_csv(constant, index=False)
    asked = [
        constant,
        *ASKED,
        "--min-rows",
        5,
        "--tolerance",
        0.5,
        "--tau",
        0.3,
        "--level",
        0.1,
        "--weak-level",
        0.1,
    ]
    chosen = said("fit", *asked).split(" selected {")[1].split("}")[0]
    asked = ["explain", *asked, "--no-leave-out"]
    assert said(*asked).startswith(f"Environments of y given {{{chosen}}}")
    for subset in ("b", ""):
        assert said(*asked, "--subset", subset).startswith(f"Environments of y given {{{subset}}}")
    shared = [*asked, "--baseline", "shared"]
    alike = [*asked, "--drop-environment", "east"]
    told = [said(*each) for each in (shared, alike, [*alike, "--subset", "a"])]
    assert ["of 10 simulated data sets" in text for text in told] == [False, True, False]
    for subset, named in (("a,still", "'still'"), ("a,c", "'c'")):
        assert named in run(*asked, "--subset", subset).stderr


def test_every_command_with_a_table_chooses_environments(table: Path) -> None:
    options = ["--drop-environment", 'tiny,"a, b"', "--merge", "north+south=cold"]
    for command in (["fit"], ["compare", "--methods", "Regression"], ["explain", "--no-leave-out"]):
        text = said(*command, table, *ASKED, *options)
        assert "cold" in text or command[0] == "compare"
        assert "south" not in text.replace("'south' (40 rows)", "")
    assert "'tiny'" in fails("explain", table, *ASKED, "--drop-environment", "tinny")
    assert "'north+south'" in fails("fit", table, *ASKED, "--merge", "north+south")
    assert "40" in fails("compare", table, *ASKED, "--min-rows", 99)


def test_compare_prints_and_saves(example: Path) -> None:
    result = run("compare", *EXAMPLE, "--json", "c.json", "--plot", "c.png")
    assert result.exit_code == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert result.stdout.endswith("Saved c.json\nSaved c.png\n")
    selected = {
        method["name"]: method["selected"]
        for method in json.loads(Path("c.json").read_text())["methods"]
    }
    assert selected["BIP"] == selected["ICP"] == ["age", "exercise", "smoking"]
    assert list(selected) == [
        "BIP",
        "ICP",
        "Hidden-ICP",
        "EILLS",
        "Stabilized",
        "Regression",
        "Lasso",
        "Marginal",
    ]
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")


def test_bip_is_that_of_fit(example: Path) -> None:
    options = [
        "--engine",
        "exact(keep=9)",
        "--prior",
        "inclusion(0.2)",
        "--select",
        "threshold",
        "--threshold",
        "0.1",
    ]
    said("compare", *EXAMPLE, "--methods", "bip", "--json", "c.json", *options)
    said("fit", *EXAMPLE, "--json", "f.json", *options)
    (compared,), fitted = (
        json.loads(Path("c.json").read_text())["methods"],
        json.loads(Path("f.json").read_text()),
    )
    assert compared["inclusion_probabilities"] == fitted["inclusion"]
    assert compared["selected"] == fitted["decision"]["selected"]


# ---------------------------------------------------------------- sweep

SWEEP = ("sweep", "example.csv", "--environment", "hospital", "--jobs", "1")


def swept(*arguments: object) -> str:
    result = run(*SWEEP, "--out", "out", *arguments)
    assert result.exit_code == 0, result.stderr
    assert all(display_width(line) <= 80 for line in result.stdout.splitlines())
    return result.stdout


def test_the_table_is_that_of_python(example: Path) -> None:
    said = swept()
    found = read_sweep("out")
    expected = sweep(example, environments="hospital")
    pd.testing.assert_frame_equal(found.drop(columns="seconds"), expected.drop(columns="seconds"))
    for verdict, count in found.drop_duplicates("outcome")["verdict"].value_counts().items():
        assert re.search(rf"^  {verdict} +{count}$", said, re.MULTILINE)
    assert re.search(r"^  blood_pressure  age +1\.000 +1$", said, re.MULTILINE)
    assert said.endswith("Saved to out\n")
    assert "0 of them now" in swept()


def test_outcomes_by_name_and_from_a_file(example: Path) -> None:
    pd.read_csv(example).rename(columns={"salt": "salt, daily"}).to_csv(example, index=False)
    swept("--outcomes", 'age,"salt, daily"')
    assert set(read_sweep("out")["outcome"]) == {"age", "salt, daily"}
    Path("wanted.txt").write_text("age\n\n salt, daily \nsleep\n", encoding="utf-8-sig")
    assert "1 of them now" in swept("--outcomes", "wanted.txt")
    assert set(read_sweep("out")["outcome"]) == {"age", "salt, daily", "sleep"}


def test_options_reach_the_fits(example: Path) -> None:
    rows = pd.read_csv(example)
    rows["whom"] = ["age"] * 2 + [""] * (len(rows) - 2)
    rows.loc[5, "sleep"] = None
    rows.to_csv(example, index=False)
    options = (
        "--perturbed",
        "whom",
        "--missing",
        "drop",
        "--exclude",
        "pulse",
        "--drop-environment",
        "west",
    )
    swept(
        *options,
        "--outcomes",
        "age",
        "--top",
        "0",
        "--max-size",
        "3",
        "--select",
        "mode",
        "--seed",
        "4",
    )
    manifest = json.loads(Path("out/manifest.json").read_text())
    assert manifest["prior"] == "BetaBinomialPrior(a=1.0, b=1.0, max_size=3)"
    assert (manifest["select"], manifest["seed"], manifest["top"]) == ("'mode'", 4, None)
    assert manifest["environments"] == ["north", "south", "east", "coast", "hill"]
    found = read_sweep("out")
    left = rows[2:].dropna(subset=["sleep"]).query("hospital != 'west'")
    model = BIP(prior=BetaBinomialPrior(max_size=3), select="mode")
    model.fit(
        left.drop(columns=["age", "pulse", "whom", "hospital"]),
        left["age"],
        environments=left["hospital"],
    )
    expected = dict(zip(model.feature_names_in_, model.inclusion_probabilities_, strict=True))
    assert dict(zip(found["feature"], found["inclusion"], strict=True)) == pytest.approx(
        expected, abs=1e-9
    )


def test_failed_outcomes_are_named(example: Path) -> None:
    rows = pd.read_csv(example)
    rows.loc[rows["hospital"] == "west", "sleep"] = 7.0
    rows.to_csv(example, index=False)
    said = swept("--outcomes", "age,sleep")
    assert re.search(r"^  failed +1$", said, re.MULTILINE)
    assert "Failed\n  sleep: " in said


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--device", "cuda"], "device"),
        (["--jobs", "2", "--dask", "tcp://x:1"], "--jobs"),
        (["--perturbed", "hospitals"], "'hospital'"),
        (["--select", "best"], "best"),
        (["--family", "logistic"], "Logistic"),
        (["--event", "age"], "event"),
        (["--outcomes", "Age"], "'age'"),
        (["--outcomes", ","], "outcomes"),
        (["--out", "example.csv"], "example.csv"),
    ],
)
def test_what_a_sweep_refuses(example: Path, arguments: list[str], named: str) -> None:
    given = ["sweep", "example.csv", "--environment", "hospital", *arguments]
    assert named in fails(*given, *(() if "--out" in arguments else ("--out", "out")))


def test_edges_of_a_folder(example: Path) -> None:
    assert "not the folder of a sweep" in fails("edges", "out")
    swept("--outcomes", "blood_pressure")
    assert "fdr=2.0" in fails("edges", "out", "--fdr", 2)
    said = run("edges", "out", "--fdr", 0.2, "--csv", "edges.csv").stdout
    assert said.startswith("3 edges into 1 of 1 outcome.")
    assert "20%" in said
    found = pd.read_csv("edges.csv")
    pd.testing.assert_frame_equal(found, edges(read_sweep("out"), 0.2), check_dtype=False)
    for row in found.itertuples():
        assert re.search(
            rf"^  blood_pressure  {row.feature} +{row.p_edge:.2g} +1\.000$", said, re.MULTILINE
        )


def test_the_pairs_of_one_column(example: Path) -> None:
    swept("--outcomes", "blood_pressure")
    verdicts = pd.DataFrame(
        {"outcome": ["blood_pressure"], "feature": ["salt"], "trial": ["no effect"]}
    )
    verdicts.to_csv("verdicts.csv", index=False)
    assert "add --of COL" in fails("edges", "out", "--plot", "page.png")
    asked = ["--of", "salt", "--checks", "verdicts.csv", "--csv", "page.csv", "--plot", "page"]
    said = run("edges", "out", *asked).stdout
    assert "no effect" in said
    assert "Saved page.png" in said
    page = edges_of(read_sweep("out"), "salt", checks=verdicts)
    pd.testing.assert_frame_equal(pd.read_csv("page.csv"), page.table, check_dtype=False)
    assert Path("page.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads(run("edges", "out", "--of", "salt", "--json", "-").stdout)
    assert (content["of"], [pair["feature"] for pair in content["edges"]]) == ("salt", ["salt"])
    assert content["edges"][0]["p_edge"] == pytest.approx(page.table["p_edge"][0])


def test_hints_on_perturbed_columns_work_as_typed(example: Path) -> None:
    rows = pd.read_csv(example)
    rows["whom"], rows["patient"] = (
        ["YAL001C", "age;salt"] + [""] * (len(rows) - 2),
        [f"p{i}" for i in rows.index],
    )
    rows.to_csv(example, index=False)
    asked = ["--perturbed", "whom", "--outcomes", "age"]
    given = [*SWEEP, "--out", "out", *asked]
    assert "use --exclude patient or" in fails(*given)
    assert "use --allow-unmeasured to" in fails(*given, "--exclude", "patient")
    swept(*asked, "--exclude", "patient", "--allow-unmeasured")
    assert read_sweep("out")["notes"][0].startswith("1 row that perturbs 'age' left out.")


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (("fit", *EXAMPLE), "decision"),
        (("compare", *EXAMPLE, "--methods", "Lasso"), "methods"),
        (("explain", *EXAMPLE), "environments"),
        (("demo",), "decision"),
        ((*SWEEP, "--out", "out", "--outcomes", "age"), "verdicts"),
    ],
)
def test_json_on_standard_output_stands_alone(
    example: Path, command: tuple[str, ...], key: str
) -> None:
    result = run(*command, "--json", "-")
    assert result.exit_code == 0
    assert key in json.loads(result.stdout)
    assert "age" in result.stderr
    assert not Path("-").exists()


def test_json_of_commands_that_follow_others(example: Path) -> None:
    said("fit", *EXAMPLE, "--save", "model.json")
    assert "--json" in fails("predict", "model.json", "example.csv")
    said("predict", "model.json", "example.csv", "--out", "rows.csv")
    found = json.loads(run("predict", "model.json", "example.csv", "--json", "-").stdout)
    for name, values in found["predictions"].items():
        np.testing.assert_allclose(values, pd.read_csv("rows.csv")[name])
    assert 0.8 < found["errors"]["inside"] <= 1.0
    assert (found["n_rows"], found["missing_rows"], list(found["predictions"])) == (
        900,
        [],
        ["prediction", "lower", "upper"],
    )
    swept("--outcomes", "blood_pressure")
    found = json.loads(run("edges", "out", "--json", "-").stdout)
    assert {edge["feature"] for edge in found["edges"]} == {"age", "exercise", "smoking"}
    luck = json.loads(run("explain", *EXAMPLE, "--no-leave-out", "--json", "-").stdout)["luck"]
    assert (luck["selected"], luck["simulated"]) == (["age", "exercise", "smoking"], 10)
    assert (
        json.loads(
            run("explain", *EXAMPLE, "--subset", "age", "--no-leave-out", "--json", "-").stdout
        )["luck"]
        is None
    )
