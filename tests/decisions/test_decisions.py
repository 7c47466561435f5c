"""Rules that select features."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from invariance import BIP
from invariance.datasets import make_example
from invariance.decisions import BestCompatible, Median, Mode, Threshold
from invariance.decisions.rules import RULES, as_rule
from invariance.exceptions import SettingError

EXAMPLE = make_example()


def test_every_rule_has_a_name_and_says_what_it_does() -> None:
    kinds = {"predictive": BestCompatible, "mode": Mode, "threshold": Threshold, "median": Median}
    assert {name: type(as_rule(name)) for name in RULES} == kinds
    assert RULES.help.startswith("predictive selects the best predictor that is invariant, mode selects the most")


def test_a_rule_takes_the_settings_that_it_has() -> None:
    assert as_rule("threshold") == Threshold(0.5)
    assert as_rule("mode") == Mode()
    given = Threshold(0.9)
    assert as_rule(given) is given


def test_unknown_rules_and_impossible_settings() -> None:
    with pytest.raises(SettingError, match="best"):
        as_rule("best")
    with pytest.raises(SettingError, match=r"threshold=1\.5"):
        Threshold(1.5)


def test_a_rule_may_be_given_to_the_estimator() -> None:
    model = BIP(select=Threshold(1e-7)).fit(EXAMPLE)
    assert model.support_.tolist() == (model.posterior_.inclusion >= 1e-7).tolist()
    assert model.selected_features_ == ("age", "pulse", "exercise", "smoking")
    assert clone(model).get_params()["select"] == Threshold(1e-7)


def test_what_is_no_rule() -> None:
    for given in (Threshold, 3, None):
        with pytest.raises(SettingError, match="is not a rule: use select='predictive' or"):
            BIP(select=given).fit(EXAMPLE)


@pytest.mark.parametrize("engine", ["exact", "tempering"])
def test_a_copy_of_a_feature_is_not_selected_beside_it(engine: str) -> None:
    rng = np.random.default_rng(0)
    X, site = rng.normal(size=(200, 3)), np.repeat(np.arange(4), 50)
    y = X[:, 0] - X[:, 1] + rng.normal(size=200)
    X = np.column_stack([X, 3.0 * X[:, 0] + 1.0])
    model = BIP(engine=engine, random_state=0).fit(X, y, environments=site)
    assert model.support_[[0, 3]].sum() == 1
    assert model.support_[1]
    assert not model.support_[2]
