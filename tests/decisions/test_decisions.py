"""Rules that select features."""

from __future__ import annotations

import pytest
from sklearn.base import clone

from invariance import BIP, SettingError
from invariance.datasets import make_example
from invariance.decisions.mode import Mode
from invariance.decisions.registry import RULES, as_rule
from invariance.decisions.threshold import Threshold

EXAMPLE = make_example()


def test_every_rule_has_a_name_and_says_what_it_does() -> None:
    assert {name: type(as_rule(name, threshold=0.3)) for name in RULES} == {"mode": Mode, "threshold": Threshold}
    assert RULES.help.startswith("mode selects the most probable subset, threshold selects every feature")


def test_a_rule_takes_the_settings_that_it_has() -> None:
    assert as_rule("threshold", threshold=0.3) == Threshold(0.3)
    assert as_rule("mode", threshold=0.3) == Mode()
    given = Threshold(0.9)
    assert as_rule(given, threshold=0.1) is given


def test_unknown_rules_and_impossible_settings() -> None:
    with pytest.raises(SettingError, match="select='median' is not known: use 'mode' or 'threshold'"):
        as_rule("median")
    with pytest.raises(SettingError, match=r"threshold=1\.5 is not a probability: use a number between 0 and 1"):
        Threshold(1.5)


def test_a_rule_may_be_given_to_the_estimator() -> None:
    model = BIP(select=Threshold(0.005)).fit_data(EXAMPLE)
    assert model.support_.tolist() == (model.posterior_.inclusion >= 0.005).tolist()
    assert model.support_.sum() > BIP().fit_data(EXAMPLE).support_.sum()
    assert clone(model).get_params()["select"] == Threshold(0.005)


def test_what_is_no_rule() -> None:
    for given in (Threshold, 3, None):
        with pytest.raises(SettingError, match="is not a rule: use 'mode' or 'threshold', or a rule"):
            BIP(select=given).fit_data(EXAMPLE)
