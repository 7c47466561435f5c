"""Rules that select features."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.base import clone

from invariance import BIP
from invariance.datasets import make_example
from invariance.decisions import BestCompatible, Median, Mode, Threshold
from invariance.decisions.pipeline import generator
from invariance.decisions.rules import RULES, as_rule
from invariance.exceptions import SettingError

EXAMPLE = make_example()


def test_every_rule_has_a_name() -> None:
    kinds = {"predictive": BestCompatible, "mode": Mode, "threshold": Threshold, "median": Median}
    assert {name: type(as_rule(name)) for name in RULES} == kinds
    assert as_rule("threshold") == Threshold(0.5)
    for text in ("threshold(0.9)", "Threshold( threshold = .9 )"):
        assert as_rule(text) == Threshold(0.9)
    given = Threshold(0.9)
    assert as_rule(given) is given


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: as_rule("best"), r"best.*'threshold\(0\.9\)'"),
        (lambda: as_rule("threshold(t)"), r"threshold\(t\)"),
        (lambda: as_rule("threshold(1.5)"), r"threshold=1\.5"),
        (lambda: Threshold(1.5), r"threshold=1\.5"),
        (lambda: BIP(select=Threshold).fit(EXAMPLE), "select='predictive'"),
        (lambda: BIP(select=None).fit(EXAMPLE), "select=None"),
    ],
)
def test_unknown_rules_and_impossible_settings(make: Callable[[], object], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        make()


def test_a_rule_may_be_given_to_the_estimator() -> None:
    model = BIP(select=Threshold(1e-11)).fit(EXAMPLE)
    assert model.support_.tolist() == (model.posterior_.inclusion >= 1e-11).tolist()
    assert model.selected_features_ == ("age", "pulse", "exercise", "smoking")
    assert clone(model).get_params()["select"] == Threshold(1e-11)


@pytest.mark.parametrize("select", ["mode", "threshold(0.9)", "predictive"])
def test_inclusion_probabilities_are_those_of_the_posterior_that_selects(select: str) -> None:
    model = BIP(select=select).fit(EXAMPLE)
    posterior = model.predictive_ if select == "predictive" else model.posterior_
    assert posterior is not None
    np.testing.assert_array_equal(model.inclusion_probabilities_, posterior.inclusion_probabilities)
    if select == "threshold(0.9)":
        assert model.support_.tolist() == (model.inclusion_probabilities_ >= 0.9).tolist()


@pytest.mark.parametrize("engine", ["exact", "tempering"])
def test_a_copy_of_a_feature_is_not_selected_beside_it(engine: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    site = np.repeat(np.arange(4), 50)
    y = X[:, 0] - X[:, 1] + rng.normal(size=200)
    X = np.column_stack([X, 3.0 * X[:, 0] + 1.0])
    model = BIP(engine=engine, random_state=0).fit(X, y, environments=site)
    assert model.support_[[0, 3]].sum() == 1
    assert model.support_[1]
    assert not model.support_[2]


def test_a_random_state_seeds_a_generator_that_spawns() -> None:
    first, again, other = (generator(np.random.RandomState(seed)) for seed in (3, 3, 4))
    drawn = [rng.spawn(1)[0].integers(1 << 40) for rng in (first, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    state = np.random.RandomState(3)
    assert generator(state).integers(1 << 40) != generator(state).integers(1 << 40)
