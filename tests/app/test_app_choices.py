"""What is chosen on the page is what is fitted, and what the downloaded Python lines fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, InclusionPrior, Tolerance
from invariance.app.choices import Choices, read_choices, script
from invariance.cli.inputs import notes, read_file
from invariance.exceptions import InvarianceError, SettingError
from patients import patients

COLUMNS = ["a", "b", "c", "y", "site", "died"]
ROLES = [("outcome", "3"), ("environment", "4")]


def ticks(*positions: int) -> list[tuple[str, str]]:
    return [("feature", str(position)) for position in positions]


def test_columns_are_known_by_their_positions() -> None:
    form = [*ROLES, ("event", "5"), ("exposure", ""), *ticks(0, 2), ("as0", "category"), ("as1", "number"), ("as2", "")]
    chosen = read_choices(form, COLUMNS)
    assert (chosen.outcome, chosen.environment, chosen.event, chosen.exposure) == ("y", "site", "died", None)
    assert (chosen.features, chosen.categorical, chosen.numeric) == (["a", "c"], ["a"], [])


def test_columns_that_have_another_role_are_no_features() -> None:
    assert read_choices([*ROLES, *ticks(0, 3, 4)], COLUMNS).features == ["a"]


def test_all_others_need_not_be_listed() -> None:
    assert read_choices([*ROLES, *ticks(0, 1, 2, 3, 5)], COLUMNS).features is None


def test_one_tick_stands_for_the_rest() -> None:
    assert read_choices([*ROLES, *ticks(0), ("rest", "on")], COLUMNS, rest=["c", "y"]).features == ["a", "c"]
    assert read_choices([*ROLES, *ticks(0)], COLUMNS, rest=["c", "y"]).features == ["a"]


def test_settings() -> None:
    given = {"family": "gaussian", "prior": "inclusion(0.1)", "max_size": "2", "engine": "exact", "select": "mode"}
    form = [
        *ROLES,
        *ticks(0),
        *given.items(),
        ("strict", "on"),
        ("drop_missing", "on"),
        ("min_rows", "7"),
        ("seed", "3"),
    ]
    assert read_choices(form, COLUMNS) == Choices(
        "y", "site", None, None, ["a"], [], [], "gaussian", "inclusion(0.1)", 2, "exact", "mode", True, True, 7, 3
    )
    assert read_choices([*ROLES, *ticks(0), ("prior", ""), ("max_size", "")], COLUMNS) == Choices(
        "y", "site", features=["a"]
    )


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ([("environment", "4"), *ticks(0)], "Choose the column of the outcome"),
        ([("outcome", "3"), ("environment", "99"), *ticks(0)], "Choose the column of the environment"),
        ([*ROLES, *ticks(3)], "Tick at least one feature"),
        ([*ROLES, *ticks(0), ("min_rows", "-1")], "'-1' is no whole number"),
        ([*ROLES, *ticks(0), ("seed", "²")], "'²' is no whole number"),
        ([*ROLES, *ticks(0), ("as3", "number")], "'y' is none: choose 'it is'"),
    ],
)
def test_what_is_left_open_is_asked_for(form: list[tuple[str, str]], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        read_choices(form, COLUMNS)


def test_choices_are_the_options_of_fit() -> None:
    chosen = Choices(
        *("y", "site", "died", "years", ["a", "b, c"], ["a"], ["b, c"]),
        *("gaussian", "inclusion(0.1)", 2, "exact", "mode", True, True, 7, 3),
    )
    reading = chosen.table().reading()
    assert {name: value for name, value in reading.items() if value} == {
        "features": ["a", "b, c"],
        "missing": "drop",
        "categorical": ["a"],
        "numeric": ["b, c"],
        "min_rows": 7,
        "event": "died",
        "exposure": "years",
    }
    model = chosen.model()
    assert (model.family, model.engine, model.select) == ("linear_gaussian", "exact", "mode")
    assert model.prior == InclusionPrior(0.1, max_size=2)
    assert model.tolerance == Tolerance.strict()
    assert (model.n_jobs, model.random_state) == (-1, 3)


def test_environments_are_named_as_they_are_typed() -> None:
    form = [*ROLES, *ticks(0), ("drop_environment", " x,y "), ("merge", "a+b=c")]
    reading = read_choices(form, COLUMNS).table().reading()
    assert reading["drop_environments"] == ["x", "y"]
    assert reading["merge_environments"] == {"c": ["a", "b"]}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_the_command_line_notes_is_noted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(80, 31)), columns=[f"x{j}" for j in range(31)])
    table.assign(died=[0, 1] * 40, site=["a"] * 40 + ["b"] * 40).to_csv(tmp_path / "t.csv", index=False)
    chosen = Choices("died", "site")
    data = read_file(tmp_path / "t.csv", "died", "site", chosen.table())
    family, prior = notes(chosen.model(), chosen.settings(), data)
    assert family == "outcome model: logistic (died has two values: 0 and 1); --family gaussian overrides"
    assert prior.startswith("the uniform prior expects about half of the 31 features to be invariant")
    few = Choices("died", "site", max_size=2, family="gaussian")
    assert notes(few.model(), few.settings(), data) == []


def times() -> pd.DataFrame:
    table = patients(60)
    return table.assign(years=np.exp(table["age"] / 50), died=[1, 1, 0, 1] * 60, ward=[1, 2, 3] * 80)


CASES: dict[str, Choices] = {
    "plain": Choices("pressure", "hospital", features=["age", "smoking", "drugs"]),
    "all features": Choices("pressure", "hospital"),
    "times": Choices("years", "hospital", event="died", features=["age", "sex"]),
    "codes": Choices("pressure", "hospital", features=["age", "ward"], categorical=["ward"]),
    "settings": Choices(
        "pressure", "hospital", features=["age", "drugs"], prior="beta-binomial(1,3)", max_size=1, select="mode", seed=4
    ),
    "strict": Choices("pressure", "hospital", features=["age", "drugs"], strict=True, family="mean", min_rows=60),
    "drawn": Choices("pressure", "hospital", features=["age", "drugs"], engine="tempering", seed=2),
    "environments": Choices("pressure", "hospital", features=["age"], drop_environment="dd", merge="aa+bb=ab"),
    "two values": Choices("died", "hospital", features=["age", "drugs"], family="logistic"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_python_lines_give_the_same_posterior(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    times().to_csv("my 'table'.csv", index=False)
    chosen = CASES[name]
    data = read_file(Path("my 'table'.csv"), chosen.outcome, chosen.environment, chosen.table())
    model = chosen.model().fit(data)

    reported = []
    monkeypatch.setattr(BIP, "report", lambda model, path: reported.append(path), raising=False)
    names: dict[str, Any] = {}
    exec(script("my 'table'.csv", chosen), names)
    again = names["model"]
    np.testing.assert_array_equal(again.posterior_.inclusion, model.posterior_.inclusion)
    assert str(again.summary(20)) == str(model.summary(20))
    assert reported == ["report.html"]
    assert "Decision" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_python_lines_say_how_the_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = times().rename(columns={"age": "Größe"})
    table["Größe"] = table["Größe"].astype(object)
    table.loc[[3, 5], "Größe"] = ["n/k", "a,b"]
    table.to_csv("t.txt", sep="|", index=False, encoding="latin-1")
    written = {"sep": "|", "encoding": "latin-1", "na": 'n/k,"a,b"'}
    chosen = Choices("pressure", "hospital", features=["Größe"], drop_missing=True, written=written)
    data = read_file(Path("t.txt"), chosen.outcome, chosen.environment, chosen.table())
    monkeypatch.setattr(BIP, "report", lambda model, path: None, raising=False)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(script("t.txt", chosen), names)
    assert str(names["model"].summary()) == str(chosen.model().fit(data).summary())


def test_the_python_lines_are_short() -> None:
    lines = script("t.csv", CASES["plain"]).splitlines()[1:]
    assert lines == [
        "from invariance import BIP, MultiEnvironmentData",
        "",
        "data = MultiEnvironmentData.from_table(",
        "    't.csv',",
        "    outcome='pressure',",
        "    environment='hospital',",
        "    features=['age', 'smoking', 'drugs'],",
        ")",
        "model = BIP(n_jobs=-1, random_state=0)",
        "model.fit(data)",
        "print(model.summary())",
        "model.report('report.html')",
    ]


def test_hostile_names_stay_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the Python lines nothing of a name is run."""
    monkeypatch.chdir(tmp_path)
    file = "'); raise SystemExit #\n.csv"
    odd = ['a", b', "'''", "<script>", "\\", "x,y"]
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.normal(size=40) for name in odd}).assign(site=["p", "q"] * 20)
    table.to_csv(file, index=False)
    chosen = Choices("<script>", "site", features=['a", b', "'''", "x,y"])
    monkeypatch.setattr(BIP, "report", lambda model, path: None, raising=False)
    names: dict[str, Any] = {}
    exec(script(file, chosen), names)
    assert names["model"].posterior_.feature_names == ('a", b', "'''", "x,y")


def test_what_the_command_line_refuses_is_refused() -> None:
    with pytest.raises(InvarianceError, match="cannot read the prior"):
        Choices("y", "site", prior="flat").model()
