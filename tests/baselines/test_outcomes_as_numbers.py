"""Methods that fit two values or counts by least squares say so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, MultiEnvironmentData, compare
from invariance.baselines import ICP

RNG = np.random.default_rng(5)
SITE = np.repeat(["a", "b", "c"], 80)
X = RNG.normal(size=(240, 2)) + np.repeat([0.0, 1.0, -1.0], 80)[:, None]
OUTCOMES = {
    "died": np.where(RNG.random(240) < 1 / (1 + np.exp(-X[:, 0])), "yes", "no"),
    "alive": (RNG.random(240) < 0.5).astype(int),
    "falls": RNG.poisson(np.exp(0.4 * X[:, 0])),
    "pressure": X[:, 0] + RNG.normal(size=240),
}


def data_of(outcome: str) -> MultiEnvironmentData:
    table = pd.DataFrame(X, columns=["age", "dose"]).assign(site=SITE, **{outcome: OUTCOMES[outcome]})
    return MultiEnvironmentData.from_table(table, outcome=outcome, environment="site")


def words(text: object) -> str:
    return " ".join(str(text).split())


@pytest.mark.parametrize("outcome", ["died", "alive", "falls"])
def test_least_squares_are_named(outcome: str) -> None:
    found = compare(data_of(outcome), ["BIP", "ICP", "Regression"])
    assert [m.as_number for m in found.methods] == [False, True, True]
    assert f"ICP and Regression fit {outcome} as a number, by least squares." in words(found)
    assert f"ICP fits {outcome} as a number" in words(compare(data_of(outcome), ["ICP"]))
    assert [m["as_number"] for m in json.loads(found.to_json())["methods"]] == [False, True, True]


def test_bip_may_be_told_to() -> None:
    found = compare(data_of("alive"), {"BIP": BIP(family="linear_gaussian"), "ICP": ICP()})
    assert "BIP and ICP fit alive as a number, by least squares." in words(found)


def test_numbers_need_no_such_words() -> None:
    found = compare(data_of("pressure"), ["BIP", "ICP", "Regression"])
    assert not any(m.as_number for m in found.methods)
    assert "as a number" not in words(found)


def test_the_report_says_it_of_each_method(tmp_path: Path) -> None:
    pytest.importorskip("jinja2", reason="needs pip install 'invariance[report]'")
    data = data_of("died")
    model = BIP().fit(data)
    model.report(tmp_path / "report.html", comparison=compare(data, ["BIP", "ICP"]))
    page = words(re.sub(r"<[^>]+>", " ", (tmp_path / "report.html").read_text()))
    assert page.count("Fits died as a number, by least squares.") == 1
