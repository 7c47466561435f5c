"""What the page tells of a table; what is chosen is what is fitted, and what the downloaded Python lines fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, InclusionPrior, Tolerance
from invariance.app.pages import read_choices
from invariance.app.session import Fields
from invariance.app.tasks import SCRIPT, fit, understand
from invariance.cli.options import FitOptions
from invariance.data.findings import MOST_GROUPS
from invariance.data.reading import TableFile
from invariance.data.settings import Columns, Environments
from invariance.exceptions import DataError, SettingError
from patients import patients

COLUMNS = ["a", "b", "c", "y", "site", "died"]
ROLES = [("outcome", "3"), ("environment", "4")]


def chosen(*form: tuple[str, str], rest: tuple[str, ...] = ()) -> FitOptions:
    return read_choices(Fields([*ROLES, *form]), COLUMNS, rest, {})


def ticks(*positions: int) -> list[tuple[str, str]]:
    return [("feature", str(position)) for position in positions]


def test_columns_are_known_by_their_positions() -> None:
    found = chosen(("event", "5"), ("exposure", ""), *ticks(0, 2, 3, 4), ("as0", "category"), ("as1", "number"))
    assert (found.outcome, found.environment, found.event, found.exposure) == ("y", "site", "died", None)
    assert (found.features, found.categorical, found.numeric) == ("a,c", "a", None)
    assert chosen(*ticks(0, 1, 2, 3, 5)).features is None  # all others need not be listed
    assert chosen(*ticks(0), ("rest", "on"), rest=("c", "y")).features == "a,c"
    assert chosen(*ticks(0), rest=("c", "y")).features == "a"


def test_choices_are_the_options_of_fit() -> None:
    given = {"family": "gaussian", "prior": "inclusion(0.1)", "max_size": "2", "engine": "exact", "select": "mode"}
    given |= {
        "deviations": "random",
        "strict": "on",
        "drop_missing": "on",
        "min_rows": "7",
        "seed": "3",
        "merge": "a+b=c",
    }
    found = chosen(*ticks(0), *given.items(), ("drop_environment", " x,y "))
    assert found.columns == Columns(features=["a"])
    assert found.environments == Environments(drop=["x", "y"], merge={"c": ["a", "b"]}, min_rows=7)
    assert found.missing == "drop"
    model = found.bip()
    assert (model.family, model.engine, model.select) == ("linear_gaussian", "exact", "mode")
    assert (model.prior, model.tolerance) == (InclusionPrior(0.1, max_size=2), Tolerance.strict())
    assert (model.n_jobs, model.random_state, model.deviations) == (-1, 3, "random")
    usual = chosen(*ticks(0), ("prior", ""), ("max_size", ""))
    assert usual == FitOptions(outcome="y", environment="site", features="a")


def test_what_is_left_open_is_asked_for() -> None:
    for form, named in (
        ([("outcome", ""), *ticks(0)], "outcome"),
        ([("environment", "99"), *ticks(0)], "environment"),
        ([("outcome", "9" * 5000), *ticks(0)], "outcome"),
        (ticks(3), "feature"),
        ([*ticks(0), ("min_rows", "-1")], "'-1'"),
        ([*ticks(0), ("seed", "²")], "'²'"),
        ([*ticks(0), ("as3", "number")], "'y'"),
    ):
        with pytest.raises(SettingError, match=named):
            chosen(*form)


PRESSURE: dict[str, Any] = {"outcome": "pressure", "environment": "hospital"}
CASES: dict[str, dict[str, Any]] = {
    "times": PRESSURE | {"outcome": "years", "event": "died", "features": "age,sex", "engine": "exact"},
    "codes": PRESSURE | {"features": "age,ward", "categorical": "ward", "sep": "|", "na": 'n/k,"a,b"', "seed": 2},
    "untidy": PRESSURE | {"features": "age,ward", "na": "age=999", "below_limit": "half", "missing": "level"},
    "strict": PRESSURE | {"strict": True, "min_rows": 20, "encoding": "latin-1", "merge": "aa+bb=ab", "max_size": 1},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_python_lines_give_the_same_posterior(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the name of the file."""
    reported: list[BIP] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(BIP, "report", lambda model, path, source=None: reported.append(model))
    file, choices = Path("my 'table'); raise SystemExit #.csv"), FitOptions(**CASES[name])
    rows = patients(30)
    rows = rows.assign(years=np.exp(rows["age"] / 50), died=[1, 1, 0, 1] * 30, ward=[1, 2, 3] * 40)
    rows.to_csv(file, index=False, sep=choices.sep or ",")
    fit(lambda *_: None, file, file.name, choices, tmp_path)
    exec(Path(SCRIPT).read_text(encoding="utf-8"), {})
    page, script = reported
    np.testing.assert_array_equal(script.posterior_.inclusion, page.posterior_.inclusion)
    assert str(script.summary(20)) == str(page.summary(20))


# ---- what a table holds

N = 40


def understood(file: Path, text: str) -> list[dict[str, Any]]:
    file.write_text(text)
    return understand(TableFile.of(file))["columns"]


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
    columns = {column["name"]: column for column in understood(tmp_path / "table.csv", table.to_csv(index=False))}
    kinds = {name: column["kind"] for name, column in columns.items()}
    assert [name for name, kind in kinds.items() if kind == "dates"] == ["visit", "born"]
    assert [name for name, kind in kinds.items() if kind == "text"] == ["sex", "note", "weight"]
    assert (kinds["age"], kinds["died"], kinds["nothing"]) == ("numbers", "0 and 1", "empty")
    assert {kinds[name] for name in ("row", "patient_id", "income", "falls", "site", "same")} == {"whole numbers"}
    doubts = {name: column["doubt"] for name, column in columns.items() if column["doubt"]}
    assert list(doubts) == ["row", "patient_id", "visit", "born", "note", "weight", "same", "nothing"]
    told = {"row": "ID", "patient_id": "ID", "visit": "dates", "note": "'note 0'", "weight": "'n/k'"}
    assert all(named in doubts[name] for name, named in told.items())
    assert [columns[name]["missing"] for name in ("age", "nothing", "sex")] == [3, N, 0]
    assert columns["site"]["groups"] == [[label, N // 4] for label in ("01", "02", "03", "04")]
    assert columns["site"]["examples"] == ["01", "02", "03"]
    assert columns["income"]["n_values"] == N
    models = {name: column["as_outcome"][0] for name, column in columns.items() if column["as_outcome"]}
    assert models["age"] == models["income"] == "linear Gaussian"
    assert models["sex"] == models["died"] == "logistic"
    assert models["falls"] == "negative binomial"
    assert not {"note", "weight", "visit", "nothing"} & set(models)
    assert columns["sex"]["as_outcome"][1] == "sex has two values: 'f' and 'm'"


def test_other_tables(tmp_path: Path) -> None:
    """Parquet, none, labels that are not the same text, many groups, and names of IDs."""
    parquet, file = tmp_path / "t.parquet", tmp_path / "t.csv"
    days = pd.date_range("2024-01-01", periods=12)
    pd.DataFrame({"site": pd.Categorical(["a", "b"] * 6), "day": days, "x": np.arange(12.0) / 7}).to_parquet(parquet)
    site, day, x = understand(TableFile.of(parquet))["columns"]
    assert site["groups"] == [["a", 6], ["b", 6]]
    assert (day["kind"], "dates" in day["doubt"]) == ("dates", True)
    assert (x["kind"], x["doubt"]) == ("numbers", "")
    with pytest.raises(DataError, match=r"t\.csv"):
        understood(file, "a,b\n")
    assert understood(file, "site,x\n1,1\n1.0,2\n01,3\n1,4\n")[0]["groups"] == [["1", 2], ["1.0", 1], ["01", 1]]
    assert understood(file, pd.DataFrame({"a": range(MOST_GROUPS + 1)}).to_csv(index=False))[0]["groups"] == []
    names = ["income", "Acid", "humid", "monkeys", "PatientID", "USUBJID", "Sample number"]
    numbers = np.random.default_rng(0).permutation(10_000)[:N]
    found = understood(file, pd.DataFrame(dict.fromkeys(names, numbers)).to_csv(index=False))
    assert [column["name"] for column in found if "ID" in column["doubt"]] == names[4:]
