"""The registry of methods is where comparison, command line and studies have their names from."""

from __future__ import annotations

import numpy as np
import pytest

from cli_runner import run
from invariance import BIP, baselines, compare
from invariance.baselines import Screened
from invariance.baselines.comparison import METHODS as COMPARED
from invariance.baselines.comparison import named_methods
from invariance.baselines.registry import METHODS, Method, class_names, compared_by_default, name_of
from invariance.datasets import make_example
from replication.methods import METHODS as STUDIED


def test_one_registry() -> None:
    assert COMPARED is METHODS
    known = {name: method.build(0) for name, method in STUDIED.items() if name in METHODS}
    assert {"ICP", "Oracle", "EILLS-screen"} <= set(known)
    for name, model in known.items():
        assert isinstance(model, Screened if METHODS[name].screened else METHODS[name].load())


@pytest.mark.parametrize("name", METHODS)
def test_every_name_builds_what_bears_it(name: str) -> None:
    model = METHODS[name].build()
    inner = model.estimator if isinstance(model, Screened) else model
    assert type(inner) is METHODS[name].load()
    assert [found for found, _ in named_methods([model], 3)] == [name]
    assert METHODS[name].help
    assert "\n" not in METHODS[name].help


def test_screens_are_derived_for_what_asks_for_invariance() -> None:
    alone = [method for method in METHODS.values() if not method.screened]
    screened = [f"{method.name}-screen" for method in alone if method.kind == "invariance"]
    assert [method.name for method in METHODS.values() if method.screened] == screened
    model = METHODS["ICP-screen"].build(alpha=0.3)
    assert isinstance(model, Screened)
    assert model.estimator.alpha == 0.3


def test_the_default_screens_beyond_sixteen_features() -> None:
    few = ["BIP", "ICP", "Hidden-ICP", "EILLS", "Regression", "Lasso", "Marginal"]
    assert [method.name for method in compared_by_default(16)] == few
    many = ["BIP", "ICP-screen", "Hidden-ICP-screen", "EILLS-screen", "Regression", "Lasso", "Marginal"]
    assert [method.name for method in compared_by_default(17)] == many


def test_help_and_docstring_come_from_the_registry() -> None:
    result = run("compare", "--help")
    text = " ".join(result.stdout.split())
    for method in (method for method in METHODS.values() if not method.screened):
        assert f"{method.name} {method.help}" in text
        assert f"{method.name:<10}  {method.help}" in str(compare.__doc__)
    assert "Beyond 16 features ICP, Hidden-ICP and EILLS see" in text
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_a_new_line_in_the_registry_is_a_new_method(monkeypatch: pytest.MonkeyPatch) -> None:
    lasso = METHODS["Lasso"]
    monkeypatch.setitem(METHODS, "Mine", Method("Mine", lasso.home, "mine", "prediction"))
    result = compare(make_example(), "mine, Lasso")
    assert [method.name for method in result.methods] == ["Mine", "Lasso"]
    np.testing.assert_array_equal(result.methods[0].selected, result.methods[1].selected)


def test_names_of_classes() -> None:
    class Mine(BIP):
        pass

    assert name_of(baselines.HiddenICP) == "Hidden-ICP"
    assert name_of(Mine) == "Mine"
    assert set(baselines.__all__) - {"LassoScreen", "Screened"} == set(class_names()) - {"BIP"}
    assert class_names()["PooledRegression"] == "Regression"
