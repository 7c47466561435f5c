"""Base classes say what a subclass must answer."""

from __future__ import annotations

from invariance.estimators.fitted import IntervalRegressor
from invariance.models.gaussian import GaussianModel


def test_what_a_subclass_must_answer_is_asked_for_when_it_is_made() -> None:
    assert GaussianModel.__abstractmethods__ >= {"of"}
    assert IntervalRegressor.__abstractmethods__ >= {"_predictor", "_new_environments"}
