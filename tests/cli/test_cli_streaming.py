"""Rows that stay where they are give the same answers, from a shell, as rows that are read."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cli_runner import run
from invariance.cli import streaming

RNG = np.random.default_rng(4)
N = 60
SITE = np.repeat(["north", "south", "west"], N)
SHIFT = np.repeat([0.0, 4.0, -4.0], N)
A, B = RNG.normal(size=3 * N) + SHIFT, RNG.normal(size=3 * N)
TABLE = pd.DataFrame({"a": A, "y": 2 * A + B / 2, "site": SITE}).round(3)
TABLE["late"] = (TABLE["y"] + SHIFT + RNG.normal(size=3 * N)).round(3)
TABLE["ward"] = RNG.choice(["p", "q", "r"], size=3 * N)
ASKED = ["--outcome", "y", "--environment", "site"]


def csv_file(folder: Path) -> list[object]:
    TABLE.to_csv(folder / "t.csv", index=False)
    return [folder / "t.csv", "--stream"]


def parquet_file(folder: Path) -> list[object]:
    TABLE.to_parquet(folder / "t.parquet", row_group_size=50)
    return [folder / "t.parquet", "--stream"]


def csv_folder(folder: Path) -> list[object]:
    for k in range(3):
        TABLE[k * N : (k + 1) * N].to_csv(folder / f"part-{k}.csv", index=False)
    return [folder]


def pattern(folder: Path) -> list[object]:
    csv_folder(folder)
    (folder / "notes.txt").write_text("no table")
    return [folder / "part-*.csv"]


def list_of_files(folder: Path) -> list[object]:
    csv_folder(folder)
    return sorted(folder.glob("*.csv"))


def hive_labels(folder: Path) -> list[object]:
    for label, rows in TABLE.groupby("site"):
        place = folder / f"site={label}"
        place.mkdir()
        rows.drop(columns="site").to_parquet(place / "rows.parquet", index=False)
    return [folder]


WAYS: list[Callable[[Path], list[object]]] = [
    csv_file,
    parquet_file,
    csv_folder,
    pattern,
    list_of_files,
    hive_labels,
]


def answer(folder: Path, *arguments: object) -> tuple[dict[str, object], str]:
    out = folder.parent / "answer.json"
    result = run("fit", *arguments, "--json", out)
    assert result.exit_code == 0, result.stderr
    return json.loads(out.read_text()), result.stderr


def same(streamed: object, read: object, path: str = "") -> None:
    """Numbers to rounding, all else exactly; why the model was chosen, and what is noted of how it was read, apart."""
    if isinstance(read, dict):
        assert isinstance(streamed, dict)
        assert streamed.keys() == read.keys(), path
        for key in read.keys() - {"notes", "model_reason", "seconds"}:
            same(streamed[key], read[key], f"{path}.{key}")
    elif isinstance(read, list):
        assert isinstance(streamed, list)
        assert len(streamed) == len(read), path
        for one, other in zip(streamed, read, strict=True):
            same(one, other, path)
    elif isinstance(read, float):
        assert streamed == pytest.approx(read, rel=1e-7, abs=1e-9), path
    else:
        assert streamed == read, path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows").mkdir()
    return tmp_path / "rows"


@pytest.fixture
def read_file(tmp_path: Path) -> Path:
    TABLE.to_csv(tmp_path / "whole.csv", index=False)
    return tmp_path / "whole.csv"


@pytest.mark.parametrize("way", WAYS)
def test_same_answer_as_reading(way: Callable[[Path], list[object]], folder: Path, read_file: Path) -> None:
    expected, said = answer(folder, read_file, *ASKED)
    assert said == ""
    found, said = answer(folder, *way(folder), *ASKED)
    same(found, expected)
    assert f"read {len(TABLE)} rows of" in said
    assert "in pieces, and kept their moments" in said


@pytest.mark.parametrize(
    "options",
    [
        ["--features", "a,late"],
        ["--exclude", "ward,late"],
        ["--categorical", "late", "--exclude", "a"],
        ["--drop-environment", "west"],
        ["--merge", "north+west=rest"],
        ["--min-rows", "61", "--merge", "north+south=both", "--drop-environment", "west"],
        ["--max-size", "1", "--strict", "--select", "mode"],
        ["--family", "mean"],
    ],
)
def test_options_mean_the_same(options: list[str], folder: Path, read_file: Path) -> None:
    runs = [run("fit", *where, *ASKED, *options) for where in ([read_file], [read_file, "--stream"])]
    assert runs[0].exit_code == runs[1].exit_code
    if runs[0].exit_code:
        assert runs[1].stderr == runs[0].stderr
    else:
        decided = [result.stdout.split("Posterior over")[0] for result in runs]
        assert decided[1] == decided[0]


def test_environments_are_told_of_as_in_memory(folder: Path, read_file: Path) -> None:
    options = ["--drop-environment", "west", "--min-rows", "5"]
    whole, streamed = (run("fit", read_file, *ASKED, *options, *way).stdout for way in ([], ["--stream"]))
    assert "left out environments, as asked: 'west' (60 rows)." in whole
    assert "left out environments, as asked: 'west' (60 rows)." in streamed


def test_missing_values_are_counted_once(folder: Path) -> None:
    csv_folder(folder)
    gaps = TABLE[:N].copy()
    gaps.loc[:2, "a"] = np.nan
    gaps.to_csv(folder / "part-0.csv", index=False)
    refused = run("fit", folder, *ASKED)
    assert refused.exit_code == 2
    assert "missing values (NaN) in 'a' (3 rows); in environment 'north' (3 rows)" in refused.stderr
    assert "--missing drop" in refused.stderr
    left = run("fit", folder, *ASKED, "--missing", "drop")
    assert left.exit_code == 0
    assert left.stderr.count("3 of 180 rows") == 1
    # What is left out with its environment is nobody's concern.
    assert run("fit", folder, *ASKED, "--drop-environment", "north").exit_code == 0


def test_large_files_stream(monkeypatch: pytest.MonkeyPatch, read_file: Path) -> None:
    monkeypatch.setattr(streaming, "LARGE", 100)
    streamed = run("fit", read_file, *ASKED)
    assert "in pieces, and kept their moments; --no-stream reads it as a whole" in streamed.stderr
    assert run("fit", read_file, *ASKED, "--no-stream").stderr == ""


def test_files_that_do_not_fit_stream(monkeypatch: pytest.MonkeyPatch, read_file: Path) -> None:
    monkeypatch.setattr("invariance.data.sources.free_bytes", lambda: 4000)
    monkeypatch.setattr("invariance._tools.parallel.free_bytes", lambda: 4000)
    assert "in pieces" in run("fit", read_file, *ASKED).stderr


def test_explain(folder: Path, read_file: Path) -> None:
    whole = run("explain", read_file, *ASKED, "--subset", "a")
    streamed = run("explain", *hive_labels(folder), *ASKED, "--subset", "a")
    assert streamed.exit_code == 0, streamed.stderr
    assert streamed.stdout.split("\n\n")[:2] == whole.stdout.split("\n\n")[:2]


def test_comparing_reads_all_rows(folder: Path, read_file: Path) -> None:
    methods = ["--methods", "BIP,Lasso"]
    result = run("compare", *csv_folder(folder), *ASKED, *methods)
    assert result.exit_code == 0, result.stderr
    lines = [text.splitlines()[:6] for text in (result.stdout, run("compare", read_file, *ASKED, *methods).stdout)]
    assert lines[0] == lines[1]
    assert "into memory: comparing methods needs them" in result.stderr


def test_saved_models_predict(folder: Path, read_file: Path) -> None:
    models = [folder.parent / "read.json", folder.parent / "streamed.json"]
    predictions = []
    for model, where in zip(models, ([read_file], csv_folder(folder)), strict=True):
        assert run("fit", *where, *ASKED, "--save", model).exit_code == 0
        out = model.with_suffix(".csv")
        assert run("predict", model, read_file, "--out", out).exit_code == 0
        predictions.append(pd.read_csv(out))
    np.testing.assert_allclose(predictions[1]["prediction"], predictions[0]["prediction"], rtol=1e-9)
    np.testing.assert_allclose(predictions[1]["lower"], predictions[0]["lower"], rtol=1e-6)


def test_sweeps_share_moments(folder: Path, read_file: Path) -> None:
    from invariance import read_sweep

    found = []
    for n, where in enumerate(([read_file], csv_folder(folder))):
        out = folder.parent / f"sweep-{n}"
        result = run("sweep", *where, "--environment", "site", "--out", out, "--jobs", "1")
        assert result.exit_code == 0, result.stderr
        swept = read_sweep(out).drop(columns="seconds")
        found.append(swept.sort_values(["outcome", "feature"], ignore_index=True))
    assert "read 180 rows of 3 files in" in result.stderr
    pd.testing.assert_frame_equal(found[1], found[0], rtol=1e-7)


def test_lines_of_a_report_make_it_again(folder: Path) -> None:
    pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")
    for k in range(3):
        TABLE[k * N : (k + 1) * N].to_csv(folder / f"part-{k}.csv", index=False, sep="|")
    page = folder.parent / "page.html"
    options = ["--merge", "north+west=rest", "--exclude", "ward", "--sep", "|", "--quiet"]
    result = run("fit", folder, *ASKED, *options, "--report", page)
    assert result.exit_code == 0, result.stderr
    blocks = re.findall(r"<code>(.*?)</code>", page.read_text(), re.DOTALL)
    (lines,) = (html.unescape(block) for block in blocks if "Moments.from_rows(" in block)
    assert f"rows = source_of({str(folder)!r}, sep='|')" in lines
    known: dict[str, Any] = {}
    exec(lines, known)
    again = str(known["model"].decision_).split("Posterior")[0]
    assert again.strip() in result.stdout
