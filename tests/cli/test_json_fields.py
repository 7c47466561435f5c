"""Fields of every JSON that commands write: each is on the page of the docs; where one changes, so
does the version."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cli_runner import run
from invariance import Posterior
from invariance.datasets import make_example
from invariance.posterior.posterior import Evidence

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "json.md"
# Objects whose keys are names in the data, or vary with the engine or the kind of outcome.
BY_NAME = (
    "by_tolerance",
    "by_feature",
    "column_coefficients",
    "diagnostics",
    "errors",
    "groups",
    "largest_without",
    "parts",
)
BY_NAME += ("predictions", "settings", "standard_deviations", "verdicts", "levels", "failed")
EVIDENCE = {field.name for field in fields(Evidence)}
# {format: hash of its fields}. Where a field comes, goes or changes its name, raise the version in
# the format, then write the new hash here.
VERSIONS = {
    "invariance.fit/2": "da48910e",
    "invariance.posterior/1": "37929b48",
    "evidence": "fca366d9",
    "invariance.diagnosis/3": "7a5a3499",
    "invariance.comparison/3": "614fcaf5",
    "invariance.prediction/1": "e5bcfe9f",
    "invariance.check/2": "136bdcf4",
    "invariance.sweep/2": "c47e7c32",
    "invariance.edges/1": "e6572dce",
}


def paths(content: Any, path: str = "") -> Iterator[str]:
    """Of all values, those of lists together; a posterior and the evidence on a subset count as
    values."""
    if isinstance(content, list) and content:
        for item in content:
            yield from paths(item, path)
        return
    apart = path.split(".")[-1] in BY_NAME or (
        path and isinstance(content, dict) and "log_probabilities" in content
    )
    if not isinstance(content, dict) or not content or apart or (path and set(content) == EVIDENCE):
        yield path
        return
    for key, item in content.items():
        yield from paths(item, f"{path}.{key}" if path else key)


def fields_of(*contents: Any) -> list[str]:
    found = {path for content in contents for path in paths(content)}
    return sorted(
        path for path in found if not any(other.startswith(f"{path}.") for other in found)
    )


def documented() -> dict[str, list[str]]:
    """{format or name of an object: fields}; a heading `### decision` stands before the names below
    it"""
    found: dict[str, list[str]] = {}
    heading = prefix = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.split("`")[1] if "`" in line else ""
            prefix = ""
        elif line.startswith("### "):
            prefix = line.split("`")[1] + "."
        elif heading and (row := re.match(r"\| (`.*?`) \|", line)):
            found.setdefault(heading, []).extend(
                prefix + name for name in re.findall(r"`([\w.]+)`", row[1])
            )
    return {name: sorted(names) for name, names in found.items()}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """{format: fields}, of several tables"""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("json"))
        patch.setattr("invariance.decisions.selection_error.SIMULATED", 5)
        example = make_example().to_frame()
        example["level"] = np.array(list("abc"))[np.arange(len(example)) % 3]
        example.to_csv("example.csv", index=False)
        example.assign(id=[f"p{i}" for i in example.index]).to_csv("patients.csv", index=False)
        gaps = example.assign(exercise=example["exercise"].mask(example.index % 2 == 0))
        gaps.to_csv("gaps.csv", index=False)
        rng = np.random.default_rng(0)
        panel = pd.DataFrame(
            {"year": np.tile(np.arange(1980, 2010), 8), "state": np.repeat(list("abcdefgh"), 30)}
        )
        panel = panel.assign(a=rng.normal(size=240), b=rng.normal(size=240))
        panel["y"] = panel["a"] + 0.3 * panel["b"] * (panel["state"] == "a") + rng.normal(size=240)
        panel.to_csv("panel.csv", index=False)
        swept = ["--exclude", "level", "--outcomes", "age", "--jobs", "1", "--out", "s"]
        known = ["example.csv", "-o", "blood_pressure", "-e", "hospital"]
        found: dict[str, list[Any]] = {}
        for command in (
            ["fit", *known, "--save", "model.json"],
            ["fit", "panel.csv", "-o", "y", "-e", "state", "--along", "year"],
            ["explain", *known, "--no-leave-out"],
            [
                "explain",
                "panel.csv",
                "-o",
                "y",
                "-e",
                "state",
                "--exclude",
                "year",
                "--deviations",
                "random",
            ],
            ["compare", *known, "--methods", "BIP,Regression", "--left-out"],
            ["predict", "model.json", "example.csv"],
            ["sweep", "example.csv", "-e", "hospital", *swept],
            ["edges", "s"],
            ["check", "patients.csv", "-o", "age", "-e", "hospital"],
            ["check", "gaps.csv", "-o", "age", "-e", "hospital"],
        ):
            result = run(*command, "--json", "-")
            assert result.exit_code == 0, (command, result.stderr)
            content = json.loads(result.stdout)
            found.setdefault(content["format"], []).append(content)
    fitted = found["invariance.fit/2"][0]
    posterior = json.loads(Posterior.from_json(json.dumps(fitted["predictive"])).to_json())
    found[posterior["format"]], found["evidence"] = [posterior], [dict.fromkeys(EVIDENCE, 0.0)]
    return {name: fields_of(*contents) for name, contents in found.items()}


def test_the_page_has_all_fields_and_no_other(written: dict[str, list[str]]) -> None:
    told = documented()
    told["invariance.fit/2"] = sorted({*told["invariance.fit/2"], *told["invariance.posterior/1"]})
    assert told == written


def test_fields_change_with_their_version(written: dict[str, list[str]]) -> None:
    now = {
        name: hashlib.sha256(" ".join(names).encode()).hexdigest()[:8]
        for name, names in written.items()
    }
    assert now == VERSIONS
