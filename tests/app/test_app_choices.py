"""What is chosen on the page is what is fitted; remedies are buttons that change the form, in words
of the page."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest

pytest.importorskip("starlette", reason="needs pip install 'invariant-prediction[app]'")

from invariance import InclusionPrior, Tolerance
from invariance._tools.names import Baseline
from invariance.app.choices import (
    BASELINES,
    OF_PREDICTION,
    Form,
    changed,
    in_words,
    read_choices,
    read_settings,
    rewritten,
    said,
    worded,
)
from invariance.cli.options import FitOptions
from invariance.data.settings import Columns, Environments
from invariance.exceptions import Message, Messages, SettingError, use

COLUMNS = ["a", "b", "c", "y", "site", "died"]
ROLES = [("outcome", "3"), ("environment", "4")]


def chosen(*form: tuple[str, str], rest: tuple[str, ...] = ()) -> FitOptions:
    return read_choices(Form([*ROLES, *form]), COLUMNS, rest, {})


def ticks(*positions: int) -> list[tuple[str, str]]:
    return [("feature", str(position)) for position in positions]


def test_columns_are_known_by_their_positions() -> None:
    found = chosen(
        ("event", "5"), ("exposure", ""), *ticks(0, 2, 3, 4), ("as0", "category"), ("as1", "number")
    )
    assert (found.outcome, found.environment, found.event, found.exposure) == (
        "y",
        "site",
        "died",
        None,
    )
    assert (found.features, found.categorical, found.numeric) == ("a,c", "a", None)
    assert chosen(*ticks(0, 5), ("weight", "5")).features == "a"
    assert chosen(*ticks(0), ("weight", "5")).weight == "died"
    assert chosen(*ticks(0, 1, 2, 3, 5)).features is None  # all others need not be listed
    assert chosen(*ticks(0), ("rest", "on"), rest=("c", "y")).features == "a,c"
    assert chosen(*ticks(0), rest=("c", "y")).features == "a"


def test_choices_are_the_options_of_fit() -> None:
    given = {
        "family": "gaussian",
        "prior": "inclusion(0.1)",
        "max_size": "2",
        "engine": "exact",
        "select": "mode",
    }
    given |= {
        "deviations": "random",
        "baseline": "shared",
        "strict": "on",
        "missing": "drop",
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
    assert (model.n_jobs, model.random_state) == (-1, 3)
    assert (model.deviations, model.baseline) == ("random", "shared")
    usual = chosen(*ticks(0), ("prior", ""), ("max_size", ""))
    assert usual == FitOptions(outcome="y", environment="site", features="a")


@pytest.mark.parametrize("baseline", get_args(Baseline))
def test_baselines_are_chosen_and_advised_in_plain_words(baseline: str) -> None:
    assert chosen(*ticks(0), ("baseline", baseline)).bip().baseline == baseline
    (button,) = said(Message("none fits", use(baseline=baseline))).buttons
    assert button.text.startswith("Baselines of environments: ")
    assert BASELINES[baseline].startswith(button.text.partition(": ")[2])
    assert not {"shared", "auto"} & set(re.findall(r"\w+", button.text))


def test_free_baselines_and_a_rule_by_probability_are_refused_with_buttons() -> None:
    with pytest.raises(SettingError) as refused:
        chosen(*ticks(0), ("baseline", "free"), ("select", "mode")).bip()
    texts = [button.text for button in said(refused.value.args[0]).buttons]
    assert texts == [
        "How features are selected: predictive",
        "Baselines of environments: the same in all",
    ]


def test_what_is_left_open_is_asked_for() -> None:
    for form, named in (
        ([("outcome", ""), *ticks(0)], "outcome"),
        ([("environment", "99"), *ticks(0)], "environment"),
        ([("outcome", "9" * 5000), *ticks(0)], "outcome"),
        (ticks(3), "feature"),
        ([*ticks(0), ("min_rows", "-1")], "'-1'"),
        ([*ticks(0), ("seed", "²")], "'²'"),
    ):
        with pytest.raises(SettingError, match=named):
            chosen(*form)


# ---- remedies

SETTINGS: dict[str, Any] = {
    "exclude": ["a"],
    "features": None,
    "categorical": ["b"],
    "numeric": ["c"],
    "missing": "level",
    "below_limit": "half",
    "na": ["n/k", "?"],
    "sep": ";",
    "decimal": ",",
    "thousands": ".",
    "encoding": "latin-1",
    "sheet": "May",
    "min_rows": 9,
    "max_size": 3,
    "family": "linear_gaussian",
    "prior": "beta-binomial",
    "engine": "tempering",
    "deviations": "auto",
    "baseline": "shared",
    "select": "mode",
    "drop_environments": ["x", "y, z"],
    "merge_environments": {"x": ["x", "X"]},
    "event": None,
    "exposure": None,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_remedy_is_a_button_that_sets_the_form(name: str) -> None:
    told = said(Message("something is wrong", use(**{name: SETTINGS[name]})))
    (button,) = told.buttons
    assert told.what == "Something is wrong."
    assert not re.search(r"--|\w=|_", button.text)
    settings = read_settings(button.settings)
    form = Form([*ROLES, *ticks(0, 1), ("event", "5"), ("exposure", "5")])
    new = changed(form, settings, COLUMNS)
    written = rewritten({}, settings)
    assert (new, written) != (form, {})
    assert (changed(new, settings, COLUMNS), rewritten(written, settings)) == (
        new,
        written,
    )  # it is set now
    read_choices(new, COLUMNS, (), written)


def test_what_a_remedy_sets() -> None:
    """What was chosen before stays."""
    form = Form(
        [*ROLES, *ticks(0, 1, 2), ("drop_environment", "w"), ("merge", "p+q=r"), ("event", "5")]
    )
    settings = {
        name: SETTINGS[name]
        for name in ("drop_environments", "merge_environments", "categorical", "max_size")
    }
    found = read_choices(
        changed(form, settings | {"exclude": ["a"], "event": None}, COLUMNS), COLUMNS, (), {}
    )
    assert found.environments == Environments(
        drop=["w", "x", "y, z"], merge={"r": ["p", "q"], "x": ["x", "X"]}
    )
    assert (found.features, found.categorical, found.max_size, found.event) == ("b,c", "b", 3, None)
    assert rewritten({"na": "?", "sep": ";"}, {"na": ["n/k"], "decimal": ","}) == {
        "na": "?,n/k",
        "sep": ";",
        "decimal": ",",
    }
    assert rewritten({}, {"na": {"bmi": [999.0, 88.5]}}) == {"na": "bmi=999,bmi=88.5"}


def test_labels_with_signs_of_the_field_cannot_be_merged_by_it() -> None:
    for merge in ({"a": ["a+b", "a"]}, {"a=": ["a", "b"]}):
        with pytest.raises(SettingError, match=r"'a[+=]"):
            changed(Form(ROLES), {"merge_environments": merge}, COLUMNS)
    assert in_words("drop_environments", ["Hill"]).endswith("environment Hill")


def test_what_is_no_button() -> None:
    """Settings that are not on this page; prediction has others than a fit."""
    assert said("Plain text.") == ("Plain text.", (), "")
    several = said(
        Messages(
            Message("one is wrong", use(missing="drop")), Message("so is two", use(min_rows=5))
        )
    )
    assert (several.what, len(several.buttons)) == ("One is wrong. So is two.", 2)
    unknown = Message("too many", use(groups=[1]), use(n_jobs=1), use(event="column"))
    assert (said(unknown).buttons, said(unknown).what) == ((), "Too many.")
    refused = Message(
        "new.csv lacks 'a'", use(" in a new fit", exclude=["a"]), use(predict_with="selected")
    )
    told = said(refused, OF_PREDICTION)
    assert told.what == "new.csv lacks 'a'."  # names of files stay as they are
    assert [json.loads(button.settings) for button in told.buttons] == [
        {"predict_with": "selected"}
    ]
    assert told.more == "Leave out a in a new fit."
    for text in ("", "{", "[1]", '{"n_jobs": 1}', '{"predict_with": "selected"}'):
        assert read_settings(text) == {}
    assert read_settings('{"predict_with": "selected"}', OF_PREDICTION) == {
        "predict_with": "selected"
    }


def test_words_of_a_report() -> None:
    text = worded(Message("rows are few", use(min_rows=5), use(n_jobs=2)))
    assert in_words("min_rows", 5) in text
    assert "n_jobs" not in text
    assert worded("as it is") == "as it is"
