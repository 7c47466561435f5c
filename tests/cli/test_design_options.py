"""Environments along a column, in sequences and by several columns on the command line."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_runner import fails, parts_of, run
from invariance import BIP, MultiEnvironmentData, along


@pytest.fixture
def panel(workdir: Path) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"year": np.tile(np.arange(1980, 2010), 8), "state": np.repeat(list("abcdefgh"), 30)}
    )
    frame = frame.assign(a=rng.normal(size=240), b=rng.normal(size=240))
    frame = frame.assign(y=frame["a"] + rng.normal(size=240))
    frame.to_csv(workdir / "panel.csv", index=False)
    return frame


WAYS = {
    "along": (["--along", "year", "--exclude", "state"], along("year")),
    "sequences": (
        ["--along", "year", "--ar", "2", "--within", "state"],
        along("year", ar=2, within="state"),
    ),
    "crossed": (["--environment", "state", "--environment", "year"], ["state", "year"]),
    "both": (["--environment", "state", "--along", "year"], ["state", along("year")]),
}


@pytest.mark.parametrize("way", WAYS)
def test_options_say_what_python_says(way: str, panel: pd.DataFrame) -> None:
    options, environment = WAYS[way]
    result = run(
        "fit", "panel.csv", "--outcome", "y", *options, "--json", "out.json", "--save", "model.json"
    )
    assert result.exit_code == 0, result.stderr
    written = json.loads(Path("out.json").read_text())
    decision = (
        BIP(random_state=0)
        .fit(MultiEnvironmentData.from_table(panel, "y", environment, ["a", "b"]))
        .decision_
    )
    assert written["decision"]["evidence"]["p_invariant"] == pytest.approx(
        decision.evidence.p_invariant
    )
    assert written["decision"]["components"]["compared"] == decision.components.design.in_words
    new = panel.head(3).assign(year=[1980, 2009, 2010])
    new.to_csv("new.csv", index=False)
    predicted = run("predict", "model.json", "new.csv", "--out", "predicted.csv")
    assert predicted.exit_code == 0, predicted.stderr
    lower = pd.read_csv("predicted.csv")["lower"]
    assert lower.isna().tolist() == [False, False, way != "crossed"]


REFUSED = {
    "nothing": (["--outcome", "y"], "--along"),
    "no variable": (["--outcome", "y", "--environment", "state", "--ar", "2"], "add --along"),
    "pieces": (["--outcome", "y", "--along", "year", "--stream"], "in pieces"),
    "within": (["--outcome", "y", "--along", "year", "--within", "state"], "ar=2"),
}


@pytest.mark.usefixtures("panel")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_refused(case: str) -> None:
    options, message = REFUSED[case]
    assert message in fails("fit", "panel.csv", *options)


def test_several_files_are_refused(panel: pd.DataFrame) -> None:
    parts_of(panel, 100, Path("parts"))
    assert "along('year')" in fails(
        "fit", "parts", "--outcome", "y", "--along", "year", "--no-stream"
    )
