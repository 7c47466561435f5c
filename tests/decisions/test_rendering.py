"""A decision is computed when it is asked for; texts and JSON show it and compute nothing."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd
import pytest

from decision_cases import broken, made
from invariance import BIP, Moments, MultiEnvironmentData, Tolerance, along
from invariance.datasets import make_example
from invariance.decisions.pipeline import Findings
from invariance.models.base import BoundModel
from invariance.posterior.posterior import Judge
from invariance.prediction import model_choice, new_environments, predictions

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
# What models say in words, from what they are.
IN_WORDS = {"judged_by"}


def with_own_baselines() -> MultiEnvironmentData:
    data = made()
    return made(y=data.y + 2.0 * data.environment_index)


def classes() -> MultiEnvironmentData:
    data = made()
    return made(y=(data.y > 0.0).astype(float))


def counts() -> MultiEnvironmentData:
    data = made()
    return made(y=np.floor(np.exp(0.3 * data.y)))


def one_environment() -> MultiEnvironmentData:
    data = made()
    return made(environment_index=np.zeros_like(data.environment_index), environments=("all",))


def times() -> MultiEnvironmentData:
    data = made()
    time = np.exp(-0.3 * data.y)
    return made(y=time, event=(np.arange(len(time)) % 5 > 0), event_name="died")


def by_year() -> tuple[pd.DataFrame, pd.Series, Any]:
    data = made()
    frame = pd.DataFrame(data.X, columns=list(data.feature_names))
    return frame.assign(year=1990 + np.arange(len(frame)) // 20), pd.Series(data.y), along("year")


CASES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "numbers": (make_example, {}),
    "mode": (make_example, {"select": "mode"}),
    "own baselines": (with_own_baselines, {}),
    "nothing is compatible": (broken, {}),
    "classes": (classes, {}),
    "counts": (counts, {}),
    "times": (times, {}),
    "moments": (lambda: Moments.from_data(make_example()), {}),
    "one environment": (one_environment, {}),
    "additive": (made, {"family": "additive"}),
    "mean": (made, {"family": "linear_gaussian_mean"}),
    "Bayesian": (made, {"family": "bayesian_linear_gaussian"}),
    "random deviations": (made, {"deviations": "random"}),
    "along a variable": (by_year, {}),
    "a search": (made, {"engine": "tempering", "random_state": 0}),
    "exactly": (made, {"tolerance": Tolerance.strict()}),
    "average": (made, {"predict_with": "average"}),
}


def fitted(name: str) -> BIP:
    make, settings = CASES[name]
    data = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BIP(**settings).fit(*(data if isinstance(data, tuple) else (data,)))


def subclasses(kind: type) -> Iterator[type]:
    yield kind
    for each in kind.__subclasses__():
        yield from subclasses(each)


def refuse(*arguments: object, **more: object) -> None:
    raise AssertionError("a rendering computes")


def refuse_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every method of a model, of evidence on subsets, of rules, and every repetition raises."""
    for kind in {*subclasses(BoundModel), Judge}:
        for name, method in list(vars(kind).items()):
            if isinstance(method, FunctionType) and name not in IN_WORDS:
                monkeypatch.setattr(kind, name, refuse)
    monkeypatch.setattr(Findings, "at", refuse)
    monkeypatch.setattr(predictions, "choose", refuse)
    monkeypatch.setattr(predictions, "cross_validate", refuse)
    monkeypatch.setattr(new_environments, "build", refuse)
    monkeypatch.setattr(model_choice, "build", refuse)


@pytest.mark.parametrize("name", CASES)
def test_texts_and_json_compute_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(name)
    decision = model.decision_
    with monkeypatch.context() as refusing:
        refuse_all(refusing)
        assert model.decision_ is decision
        shown = [
            str(decision),
            decision._repr_html_(),
            json.dumps(decision.to_plain()),
            str(model.summary()),
            model.methods_paragraph(),
        ]
        with pytest.raises(AssertionError, match="a rendering computes"):
            model.diagnose()
    assert shown[0] == str(decision)
    assert json.loads(shown[2])["selected"] == list(model.selected_features_)


def test_a_decision_does_not_change_when_more_is_found() -> None:
    model = BIP(random_state=0).fit(make_example())
    decision = model.decision_
    told = str(decision)
    plain = decision.to_plain()
    chance = model.chance_selection()
    cost = model.cost_of_invariance()
    decision.by_tolerance  # noqa: B018
    assert (str(decision), decision.to_plain()) == (told, plain)
    again = model.decision_
    assert (again.chance, again.cost) == (chance, cost)
    assert again.to_plain()["luck"]["share"] == chance.share
    assert dict(again.sections[0].facts)["price"] == str(cost)
    assert again.features is decision.features  # nothing is computed twice


def test_fitting_computes_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is for who asks for it: a fit has the verdict where it warns."""
    for name in ("estimates", "own_estimates", "standard_errors"):
        for kind in subclasses(BoundModel):
            if name in vars(kind):
                monkeypatch.setattr(kind, name, refuse)
    model = BIP().fit(make_example())
    assert model.invariant_ is not None
    with pytest.raises(AssertionError, match="a rendering computes"):
        model.decision_  # noqa: B018
