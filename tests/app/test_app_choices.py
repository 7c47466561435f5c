"""What is chosen on the page is what is fitted, and what the downloaded Python lines fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from invariance import BIP, InclusionPrior, Tolerance
from invariance.app.pages import read_choices
from invariance.app.session import Fields
from invariance.app.tasks import SCRIPT, fit
from invariance.cli.options import FitOptions
from invariance.data.settings import Columns, Environments
from invariance.exceptions import SettingError
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
    given |= {"strict": "on", "drop_missing": "on", "min_rows": "7", "seed": "3", "merge": "a+b=c"}
    found = chosen(*ticks(0), *given.items(), ("drop_environment", " x,y "))
    assert found.columns == Columns(features=["a"])
    assert found.environments == Environments(drop=["x", "y"], merge={"c": ["a", "b"]}, min_rows=7)
    assert found.missing == "drop"
    model = found.bip()
    assert (model.family, model.engine, model.select) == ("linear_gaussian", "exact", "mode")
    assert (model.prior, model.tolerance) == (InclusionPrior(0.1, max_size=2), Tolerance.strict())
    assert (model.n_jobs, model.random_state) == (-1, 3)
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
    "codes": PRESSURE | {"features": "age,ward", "categorical": "ward", "sep": "|", "na": 'n/k,"a,b"'},
    "settings": PRESSURE | {"features": "age,drugs", "prior": "beta-binomial(1,3)", "max_size": 1, "select": "mode"},
    "strict": PRESSURE | {"features": "age,drugs", "strict": True, "min_rows": 20, "encoding": "latin-1"},
    "drawn": PRESSURE | {"features": "age", "engine": "tempering", "seed": 2, "drop_environment": "dd"},
    "merged": PRESSURE | {"features": "age", "merge": "aa+bb=ab"},
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
