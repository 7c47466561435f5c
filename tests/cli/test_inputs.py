"""Tables in several files, from standard input or too large for memory: the same answers as of one
file in memory."""

from __future__ import annotations

import html
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cli_runner import PLAIN, fails, parts_of, run
from invariance import read_sweep
from invariance.cli import inputs
from invariance.cli.inputs import InputFiles
from invariance.cli.main import app
from invariance.cli.options import FitOptions
from invariance.cli.outputs import source_of_report

pytestmark = pytest.mark.usefixtures("brief")
RNG = np.random.default_rng(4)
N = 60
SHIFT = np.repeat([0.0, 4.0, -4.0], N)
A = RNG.normal(size=3 * N) + SHIFT
TABLE = pd.DataFrame({"a": A, "y": 2 * A + RNG.normal(size=3 * N) / 2}).round(3)
LATE = TABLE["y"] + SHIFT + A + RNG.normal(size=3 * N) / 10
TABLE = TABLE.assign(site=np.repeat(["north", "south", "west"], N), late=LATE.round(3))
TABLE["ward"] = RNG.choice(["p", "q", "r"], size=3 * N)
TABLE["died"] = (RNG.random(3 * N) < 0.4).astype(int)
TABLE["lived"] = np.where(TABLE["died"] == 1, "no", "yes")
TABLE["falls"] = RNG.poisson(1.0, 3 * N)
WHERE = ["--environment", "site"]
ASKED = ["--outcome", "y", *WHERE, "--features", "a,late,ward"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return parts_of(TABLE, N, tmp_path / "rows")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("whole") / "whole.csv"
    TABLE.to_csv(file, index=False)
    return file


def leaves(content: Any, path: str = "") -> dict[str, float]:
    """{path: number, path = text: 0} of JSON, but for what is said of the reading."""
    if not isinstance(content, dict | list):
        return {path: content} if isinstance(content, float) else {f"{path} = {content}": 0}
    inside = content.items() if isinstance(content, dict) else enumerate(content)
    kept = [
        (f"{path}.{key}", value)
        for key, value in inside
        if key not in ("notes", "model_reason", "seconds")
    ]
    return {leaf: value for place, part in kept for leaf, value in leaves(part, place).items()}


def test_same_answer_as_in_memory(tmp_path: Path, folder: Path, whole: Path) -> None:
    """Of a file of text, of Parquet, a pattern, a list of files, and labels in paths."""
    TABLE.to_parquet(tmp_path / "t.parquet", row_group_size=50)
    for label, rows in TABLE.groupby("site"):
        (tmp_path / "hive" / f"site={label}").mkdir(parents=True)
        rows.drop(columns="site").to_parquet(
            tmp_path / "hive" / f"site={label}" / "rows.parquet", index=False
        )
    ways = (
        [whole],
        [whole, "--stream"],
        [tmp_path / "t.parquet", "--stream"],
        [folder / "part-*.csv"],
    )
    answers = []
    for files in (*ways, sorted(folder.glob("*.csv")), [tmp_path / "hive"]):
        result = run("fit", *files, *ASKED, "--json", tmp_path / "answer.json")
        answers.append(leaves(json.loads((tmp_path / "answer.json").read_text())))
        assert answers[-1] == pytest.approx(answers[0], rel=1e-7, abs=1e-9)
        assert (f"read {len(TABLE)} rows of" in result.stderr) == (files != [whole])


@pytest.mark.parametrize(
    "options",
    [
        "--features a,late,ward,falls --categorical falls --max-size 1 --strict --select mode",
        "--exclude ward,died,lived,falls --merge north+south=both --family mean",
        "--min-rows 61 --merge north+south=both --drop-environment west",
    ],
)
def test_options_mean_the_same(options: str, whole: Path) -> None:
    runs = [
        run("fit", whole, "--outcome", "y", *WHERE, *options.split(), *way)
        for way in ([], ["--stream"])
    ]
    assert runs[0].exit_code == runs[1].exit_code
    assert runs[0].exit_code == 0 or runs[1].stderr == runs[0].stderr
    decided = [
        re.split("Posterior over|The paper's posterior", result.stdout)[0] for result in runs
    ]
    assert decided[1] == decided[0]


def test_missing_values_are_counted_once(folder: Path) -> None:
    TABLE[:N].assign(a=TABLE["a"].where(TABLE.index > 2)).to_csv(folder / "part-0.csv", index=False)
    assert "'a' (3 rows)" in fails("fit", folder, *ASKED)
    left = run("fit", folder, *ASKED, "--missing", "drop")
    assert (left.exit_code, left.stderr.count("3 of 180 rows")) == (0, 1)


def test_notes_on_large_files_and_on_the_prior(
    monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    def said(*options: object) -> str:
        return run("fit", whole, *ASKED, *options).stderr

    for module in ("data.sources", "cli.inputs"):
        monkeypatch.setattr(f"invariance.{module}.free_bytes", lambda: 4000)
    assert "in pieces" in said()
    monkeypatch.undo()
    assert said() == ""
    monkeypatch.setattr(inputs, "LARGE_INPUT", 100)
    assert "in pieces" in said()
    monkeypatch.setattr(inputs, "MANY_FEATURES", 1)
    assert said("--no-stream").startswith("note: the uniform prior")
    for options in (["--prior", "beta-binomial"], ["--max-size", "2"]):
        assert said("--no-stream", *options) == ""


def test_large_files_are_read_in_pieces(
    monkeypatch: pytest.MonkeyPatch, whole: Path, tmp_path: Path
) -> None:
    """Of Parquet the values count, not the bytes; what is typed decides otherwise."""

    def in_pieces(file: Path, *options: object) -> bool:
        return "in pieces" in run("fit", file, *ASKED, *options).stderr

    parquet = tmp_path / "whole.parquet"
    TABLE.to_parquet(parquet)
    of_values = 8 * TABLE.size
    assert InputFiles([parquet]).size == of_values > parquet.stat().st_size
    assert InputFiles([whole]).size == whole.stat().st_size
    monkeypatch.setattr(inputs, "LARGE_INPUT", of_values + 1)
    assert not in_pieces(parquet)
    monkeypatch.setattr(inputs, "LARGE_INPUT", of_values)
    assert in_pieces(parquet)
    assert not in_pieces(parquet, "--no-stream")
    monkeypatch.setattr(inputs, "LARGE_INPUT", 100)
    assert (
        "periods"
        not in run("fit", whole, "-o", "y", "-e", "site", "-e", "ward", "--features", "a").stderr
    )
    assert not in_pieces(whole, "--environment", "ward")


def test_rows_that_were_read_are_not_counted_by_their_weights(tmp_path: Path) -> None:
    TABLE.assign(w=np.arange(len(TABLE)) % 3).to_csv(file := tmp_path / "table.csv", index=False)
    said = run("fit", file, *ASKED, "--weight", "w", "--stream").stderr
    assert f"read {len(TABLE)} rows of table.csv" in said


def test_the_size_of_folders(folder: Path) -> None:
    whole_size = sum(file.stat().st_size for file in folder.iterdir())
    sizes = [InputFiles([paths]).size for paths in (folder, folder / "*.csv", folder / "none-*")]
    assert sizes == [whole_size, whole_size, 0]


@pytest.mark.parametrize(
    "options",
    [["--missing", "level"], ["--missing", "drop", "--na", "a=999"], ["--below-limit", "half"]],
)
def test_large_files_are_read_as_a_whole_if_an_option_needs_it(
    options: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nobody asked for pieces; who does is told that they will not do."""
    table = TABLE.astype({"a": object})
    table.loc[:1, "ward"] = None if "level" in options else "p"
    table.loc[:1, "a"] = "<0.5" if "half" in options else 999
    table.to_csv(file := tmp_path / "table.csv", index=False)
    small = run("fit", file, *ASKED, *options)
    assert small.exit_code == 0
    monkeypatch.setattr(inputs, "LARGE_INPUT", 100)
    large = run("fit", file, *ASKED, *options)
    assert large.stdout == small.stdout
    assert f"are read into memory: {' '.join(options[-2:])} needs them" in large.stderr
    assert "--no-stream" in fails("fit", file, *ASKED, *options, "--stream")


def test_explain_compare_and_sweep(folder: Path, whole: Path, tmp_path: Path) -> None:
    explained = [run("explain", files, *ASKED, "--subset", "a").stdout for files in (whole, folder)]
    assert explained[0].split("\n\n")[:2] == explained[1].split("\n\n")[:2]
    compared = [
        run("compare", files, *ASKED, "--methods", "BIP,Lasso") for files in (whole, folder)
    ]
    assert compared[0].stdout.splitlines()[:6] == compared[1].stdout.splitlines()[:6]
    assert "comparing methods needs them" in compared[1].stderr
    found = []
    for n, files in enumerate((whole, folder)):
        swept = (
            "sweep",
            files,
            *WHERE,
            "--exclude",
            "lived,died,falls",
            "--out",
            tmp_path / f"sweep-{n}",
        )
        assert run(*swept, "--jobs", "1").exit_code == 0
        table = read_sweep(tmp_path / f"sweep-{n}").drop(columns="seconds")
        found.append(table.sort_values(["outcome", "feature"], ignore_index=True))
    pd.testing.assert_frame_equal(found[1], found[0], rtol=1e-7)
    assert "--perturbed" in fails(
        "sweep", folder, *WHERE, "--perturbed", "lived", "--out", tmp_path / "out"
    )


def test_saved_models_predict_and_reports_are_made_again(
    whole: Path,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    without_pictures: None,
) -> None:
    monkeypatch.chdir(tmp_path)
    written = []
    options = ["--features", "a,late", "--merge", "north+west=rest", "--quiet"]
    for files, report in ((whole, []), ("rows", ["--report", "page.html"])):
        result = run("fit", files, "--outcome", "y", *WHERE, *options, "--save", "m.json", *report)
        assert result.exit_code == 0, result.stderr
        assert run("predict", "m.json", whole, "--out", "out.csv").exit_code == 0
        written.append(pd.read_csv("out.csv"))
    np.testing.assert_allclose(written[1]["prediction"], written[0]["prediction"], rtol=1e-9)
    np.testing.assert_allclose(written[1]["lower"], written[0]["lower"], rtol=1e-6)
    blocks = re.findall(r"<code>(.*?)</code>", Path("page.html").read_text(), re.DOTALL)
    (lines,) = (html.unescape(block) for block in blocks if "Moments.from_rows(" in block)
    known: dict[str, Any] = {}
    exec(lines, known)
    assert known["model"].decision_.verdict.effects in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("outcome", "model", "gaussian"), [("lived", "logistic", False), ("falls", "negative", True)]
)
def test_outcomes_that_need_rows(
    outcome: str,
    model: str,
    gaussian: bool,
    folder: Path,
    whole: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = ["--outcome", outcome, *WHERE, "--features", "a,late"]
    gathered = run("fit", folder, *asked)
    read = run("fit", whole, *asked)
    assert f"the {model}" in gathered.stderr
    assert gathered.stdout == read.stdout
    assert read.stderr.startswith(f"note: outcome model: {model}")
    assert run("fit", whole, *asked, "--family", "gaussian").stderr == ""
    monkeypatch.setattr("invariance.data.sources.free_bytes", lambda: 2_000)
    refused = fails("fit", folder, *asked)
    assert (f"the {model}" in refused, "--family gaussian" in refused) == (True, gaussian)
    assert (run("fit", folder, *asked, "--family", "gaussian").exit_code == 0) == gaussian


def test_rows_that_do_not_fit_into_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariance.data.sources.free_bytes", lambda: 2_000)
    for options, named in (
        (["--event", "died"], "--event"),
        (["--family", "additive"], "Additive"),
        (["--report", "page.html", "--compare", "Lasso"], "comparing methods"),
        (["--no-stream"], "--no-stream"),
    ):
        assert named in fails(
            "fit", folder, "--outcome", "y", *WHERE, "--features", "a,late", *options
        )


def test_names_of_files(folder: Path, tmp_path: Path) -> None:
    assert "'q'" in fails("fit", folder, "--outcome", "q", *WHERE)
    assert "standard input" in fails("fit", "-", "other.csv", *ASKED)
    odd = tmp_path / "a[1].csv"
    odd.write_text("a\n")
    assert [InputFiles([path]).file for path in (odd, tmp_path, tmp_path / "*.csv")] == [
        odd,
        None,
        None,
    ]
    assert InputFiles([Path("one.csv"), Path("two.csv")]).rows == ["one.csv", "two.csv"]
    source = source_of_report(
        InputFiles([Path("-")]), FitOptions(outcome="y", environment="site"), None, ["fit", "-"]
    )
    assert source.table == {"table": "table.csv", "outcome": "y", "environment": "site"}
    assert (source.command, "standard input" in source.remark) == ("invariance fit -", True)


def test_standard_input_and_european_files(tmp_path: Path, whole: Path) -> None:
    def piped(content: bytes, *arguments: object) -> tuple[int, str, str]:
        given = [str(argument) for argument in arguments]
        result = CliRunner(env=PLAIN).invoke(app, given, input=content, prog_name="invariance")
        return result.exit_code, result.stdout, result.stderr

    model = tmp_path / "model.json"
    out = tmp_path / "out.csv"
    expected = run("fit", whole, *ASKED).stdout
    with_price = run("fit", whole, *ASKED, "--save", model).stdout
    parquet = io.BytesIO()
    TABLE.to_parquet(parquet)
    european = TABLE.to_csv(index=False, sep=";", decimal=",").encode("utf-8-sig")
    assert piped(parquet.getvalue(), "fit", "-", *ASKED) == (0, expected, "")
    assert piped(european, "fit", "-", *ASKED, "--decimal", ",", "--save", model)[1] == with_price
    assert "180 rows of standard input" in piped(european, "predict", model, "-", "--out", out)[1]
    assert "standard input" in piped(european, "fit", "-", *ASKED, "--stream")[2]
    swept = (
        "sweep",
        "-",
        *WHERE,
        "--exclude",
        "lived",
        "--outcomes",
        "a",
        "--out",
        tmp_path / "sweep",
        "--jobs",
        "1",
    )
    assert piped(european, *swept)[0] == 0


def test_predictions_are_written_with_points(tmp_path: Path) -> None:
    german = tmp_path / "t.csv"
    model = tmp_path / "m.json"
    out = tmp_path / "out.csv"
    rows = TABLE.assign(a=TABLE["a"] * 1e4, code="01", note="1.5 l")
    text = rows.assign(a=rows["a"].map("{:,.3f}".format).str.translate(str.maketrans(",.", ".,")))
    text.assign(y=rows["y"].map(lambda y: str(y).replace(".", ","))).to_csv(
        german, index=False, sep=";", decimal=","
    )
    asked = ["--thousands", ".", "--quiet"]
    assert (
        run(
            "fit", german, "--outcome", "y", *WHERE, *asked, "--features", "a", "--save", model
        ).exit_code
        == 0
    )
    assert run("predict", model, german, "--out", out, *asked).exit_code == 0
    written = pd.read_csv(out, dtype={"code": str})
    np.testing.assert_allclose(written["a"], rows["a"].round(3), rtol=1e-15)
    np.testing.assert_array_equal(written["y"], rows["y"])
    assert (set(written["code"]), set(written["note"])) == ({"01"}, {"1.5 l"})
