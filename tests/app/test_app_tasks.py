"""What the page tells of a table, fits, predicts and leaves to download; the Python lines fit the
same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, load
from invariance.app import tasks
from invariance.app.tasks import (
    MODEL,
    PICTURES,
    PREDICTIONS,
    SCRIPT,
    SHOWN,
    TABLES,
    Overall,
    _answer,
    fit,
    look,
)
from invariance.cli.options import FitOptions
from invariance.data.check import DataCheck
from invariance.exceptions import Message
from patients import patients
from shifted_sites import own_baselines

PRESSURE: dict[str, Any] = {"outcome": "pressure", "environment": "hospital"}
CASES: dict[str, dict[str, Any]] = {
    "times": PRESSURE
    | {"outcome": "years", "event": "died", "features": "age,sex", "engine": "exact"},
    "codes": PRESSURE
    | {"features": "age,ward", "categorical": "ward", "sep": "|", "na": 'n/k,"a,b"', "seed": 2},
    "untidy": PRESSURE
    | {"features": "age,ward", "na": "age=999", "below_limit": "half", "missing": "level"},
    "weights": PRESSURE | {"features": "age,sex", "weight": "ward"},
    "strict": PRESSURE
    | {"strict": True, "min_rows": 20, "encoding": "latin-1", "merge": "aa+bb=ab", "max_size": 1},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_python_lines_give_the_same_posterior(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the name of the file."""
    monkeypatch.setattr(tasks, "PICTURES", {})
    reported: list[BIP] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(BIP, "report", lambda model, path, source=None: reported.append(model))
    file = Path("my 'table'); raise SystemExit #.csv")
    choices = FitOptions(**CASES[name])
    rows = patients(30)
    rows = rows.assign(years=np.exp(rows["age"] / 50), died=[1, 1, 0, 1] * 30, ward=[1, 2, 3] * 40)
    rows.to_csv(file, index=False, sep=choices.sep or ",")
    fit(lambda *_: None, file, file.name, choices, tmp_path)
    exec(Path(SCRIPT).read_text(encoding="utf-8"), {})
    page, script = reported
    np.testing.assert_array_equal(script.posterior_.inclusion, page.posterior_.inclusion)
    script.save(tmp_path / "again.json")  # as the page did, which finds the price of invariance
    assert str(script.summary(20)) == str(page.summary(20))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fit_tells_its_level_and_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "PICTURES", {})
    monkeypatch.setattr(BIP, "report", lambda *given, **more: None)
    file = tmp_path / "table.csv"
    own_baselines().to_frame().to_csv(file, index=False)
    told = {}
    for baseline in ("auto", "shared"):
        choices = FitOptions(outcome="y", environment="site", baseline=baseline)
        given = {"file": file, "name": file.name, "choices": choices, "folder": tmp_path}
        told[baseline] = _answer("fit", given, lambda *_: None)
        verdict = load(tmp_path / MODEL).verdict_
        lines = list(filter(None, (verdict.effects, verdict.baseline, verdict.follows)))
        assert told[baseline]["lines"] == lines
        warned = [text for text in told[baseline]["warnings"] if text.endswith(lines[-1])]
        assert len(warned) == (baseline == "auto")  # the page tells it once
    assert told["auto"]["level"].endswith("effects and noise; free: baselines)")
    assert told["auto"]["verdict"].endswith("baselines differ")
    assert (told["shared"]["level"], len(told["shared"]["lines"])) == ("none", 2)


# ---- what a table holds

N = 40


def looked_at(file: Path, text: str, **known: Any) -> DataCheck:
    file.write_text(text)
    return look(lambda *_: None, file, {}, **known)["found"]


def test_a_table_is_understood(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "row": range(N),
            "patient_id": rng.permutation(1000)[:N],
            "income": rng.permutation(100_000)[:N],
            "age": np.where(np.arange(N) < 3, np.nan, rng.normal(50, 9, N)),
            "sex": ["f", "m"] * (N // 2),
            "died": [0, 0, 0, 1] * (N // 4),
            "falls": [0, 1, 0, 2, 0, 0, 5, 1] * (N // 8),
            "visit": [f"2024-03-{1 + k % 9:02d}" for k in range(N)],
            "born": [f"{1 + k % 9}.12.1970" for k in range(N)],
            "note": [f"note {k}" for k in range(N)],
            "weight": ["71", "70.5"] * (N // 2 - 1) + ["n/k", "69"],
            "site": ["01", "02", "03", "04"] * (N // 4),
            "same": [1] * N,
            "nothing": [None] * N,
        }
    )
    found = looked_at(tmp_path / "table.csv", table.to_csv(index=False))
    columns = {column.name: column for column in found.columns}
    kinds = {name: column.kind for name, column in columns.items()}
    assert [name for name, kind in kinds.items() if kind == "dates"] == ["visit", "born"]
    assert [name for name, kind in kinds.items() if kind == "text"] == ["sex", "note", "weight"]
    assert (kinds["age"], kinds["died"], kinds["nothing"]) == ("numbers", "0 and 1", "empty")
    assert {kinds[name] for name in ("row", "patient_id", "income", "falls", "site", "same")} == {
        "whole numbers"
    }
    doubted = {
        finding.column: finding.code for finding in found.findings if finding.code != "missing"
    }
    assert doubted == {
        "row": "identifier",
        "patient_id": "identifier",
        "visit": "dates",
        "born": "dates",
    } | {
        "note": "text",
        "weight": "words",
        "site": "codes",
        "same": "constant",
        "nothing": "constant",
    }
    assert [columns[name].missing for name in ("age", "nothing", "sex")] == [3, N, 0]
    assert columns["site"].groups == tuple((label, N // 4) for label in ("01", "02", "03", "04"))
    assert columns["site"].examples == ("01", "02", "03")
    assert columns["income"].n_values == N
    kinds_of_outcomes = {
        name: column.as_outcome.kind for name, column in columns.items() if column.as_outcome
    }
    assert kinds_of_outcomes["age"] == kinds_of_outcomes["income"] == "number"
    assert kinds_of_outcomes["sex"] == kinds_of_outcomes["died"] == "classes"
    assert kinds_of_outcomes["falls"] == "count"
    assert not {"note", "weight", "visit", "nothing"} & set(kinds_of_outcomes)


def test_codes_are_integers_however_they_are_written(tmp_path: Path) -> None:
    """As one hospital writes 1.0 and another 1."""
    found = looked_at(tmp_path / "table.csv", "sex,pain\n" + "1.0,4.0\n0.0,1.0\n1,4\n0,2\n" * 5)
    columns = {
        column.name: (column.kind, column.n_values, column.examples) for column in found.columns
    }
    assert columns == {
        "sex": ("0 and 1", 2, ("1", "0")),
        "pain": ("whole numbers", 3, ("4", "1", "2")),
    }


def test_columns_that_are_no_features_cost_no_rows(tmp_path: Path) -> None:
    """But their findings stay, so that one sees why they are off."""
    rows = {
        "y": [1, 2] * N,
        "a": [np.nan, 2.0, 1.0, 5.0] * (N // 2),
        "note": [f"P{k}" for k in range(2 * N)],
    }
    text = pd.DataFrame(rows).to_csv(index=False)
    before, after = (
        looked_at(tmp_path / "t.csv", text, exclude=exclude) for exclude in ([], ["a"])
    )
    assert ("missing", "a") in {(finding.code, finding.column) for finding in before.findings}
    assert {(finding.code, finding.column) for finding in after.findings} == {
        ("identifier", "note"),
        ("skips", "a"),
    }


def test_one_bar_for_all_stages() -> None:
    """It never goes back, moves in each stage, and ends below one."""
    told: list[tuple[float, str]] = []
    bar = Overall(lambda fraction, stage: told.append((fraction, stage)))
    for stage in ("reading", "scoring subsets", "report", "leaving out", "report"):
        for fraction in (0.0, 0.5, 1.0):
            bar(fraction, stage)
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert len(set(fractions)) == 11
    assert fractions[-1] < 1.0
    assert ("writing the report", "report") not in told
    assert told[6][1] == "writing the report"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fit."""
    folder = tmp_path_factory.mktemp("fit")
    patients(40).to_csv(folder / "patients.csv", index=False)
    choices = FitOptions(outcome="pressure", environment="hospital", features="age,sex,smoking")
    answer = _answer(
        "fit",
        {"file": folder / "patients.csv", "name": "p.csv", "choices": choices, "folder": folder},
        quiet,
    )
    assert isinstance(answer, dict)
    assert set(answer["selected"]) <= {"age", "sex", "smoking"}
    return folder


def test_warnings_of_reading_are_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "PICTURES", {})
    sources: list[Any] = []
    monkeypatch.setattr(BIP, "report", lambda model, path, source=None: sources.append(source))
    rows = patients(30)
    rows.loc[:4, "age"] = np.nan
    rows.to_csv(tmp_path / "t.csv", index=False)
    choices = FitOptions(**PRESSURE, features="age,sex", missing="drop")
    _answer(
        "fit",
        {"file": tmp_path / "t.csv", "name": "t.csv", "choices": choices, "folder": tmp_path},
        quiet,
    )
    assert any("5 of 120 rows" in text for text in sources[0].warned)


def quiet(fraction: float, stage: str) -> None:
    pass


def test_what_can_be_downloaded(fitted: Path) -> None:
    for kind in PICTURES:
        assert (fitted / f"{kind}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (fitted / f"{kind}.svg").read_text()
    model = load(fitted / MODEL)
    tables = {name: pd.read_csv(fitted / f"{name}.csv") for name in TABLES}
    np.testing.assert_allclose(tables["inclusion"]["probability"], model.posterior_.inclusion)
    assert list(tables["inclusion"]["feature"]) == ["age", "sex", "smoking"]
    assert len(tables["left_out"]) == model.n_environments_ == 4
    for table in ("coefficients", "effects"):
        assert "pooled" in set(tables[table]["environment"])


def test_a_second_table_is_predicted(fitted: Path, tmp_path: Path) -> None:
    """With intervals; what is refused has remedies that mend it."""
    rows = patients(40, seed=5).drop(columns="pressure")
    rows["age"] = rows["age"].astype(float)
    rows.loc[3, "age"] = np.nan
    rows.to_csv(tmp_path / "new.csv", index=False)
    asked = {"file": tmp_path / "new.csv", "written": {}, "settings": {}, "folder": fitted}
    refused = _answer("predict", asked, quiet)
    assert isinstance(refused, Message)
    (remedy,) = refused.remedies
    found = _answer("predict", asked | {"settings": dict(remedy.settings)}, quiet)
    assert isinstance(found, dict)
    assert found["columns"][:3] == ["prediction", "lower", "upper"]
    assert (found["n_rows"], len(found["cells"]), found["cells"][3][0]) == (160, SHOWN, "")
    written = pd.read_csv(fitted / PREDICTIONS)
    model = load(fitted / MODEL)
    complete = rows.dropna()
    np.testing.assert_allclose(written["prediction"].dropna(), model.predict(complete))
    np.testing.assert_allclose(
        written[["lower", "upper"]].dropna(), model.predict_interval(complete)
    )
