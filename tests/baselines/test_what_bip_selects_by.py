"""A comparison shows the values that BIP selects by."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from invariance import BIP, compare
from invariance.baselines.screened import Screened
from invariance.datasets import make_example
from invariance.screening import LassoScreen


def test_selection_by_prediction_is_shown_with_predictive_inclusion() -> None:
    data = make_example()
    result = compare(data, ["BIP"])
    (method,) = result.methods
    model = BIP().fit(data)
    assert model.predictive_ is not None
    assert method.evidence is not None
    kind, values = method.evidence
    assert kind == "predictive inclusion"
    np.testing.assert_array_equal(values, model.predictive_.inclusion)
    np.testing.assert_array_equal(method.inclusion, model.posterior_.inclusion)
    text = " ".join(str(result).split())
    assert "predictive inclusion" in text
    assert "A predictive inclusion near 1 (among compatible subsets, by how they predict) speaks for a feature." in text
    (content,) = json.loads(result.to_json())["methods"]
    assert content["predictive_inclusion"] == model.predictive_.inclusion.tolist()
    assert content["inclusion_probabilities"] == model.posterior_.inclusion.tolist()
    np.testing.assert_array_equal(result.table["predictive_inclusion"], model.predictive_.inclusion)


@pytest.mark.parametrize("rule", ["mode", "threshold"])
def test_other_rules_are_shown_with_what_they_go_by(rule: str) -> None:
    (method,) = compare(make_example(), {"it": BIP(select=rule)}).methods
    assert method.predictive_inclusion is None
    assert method.evidence is not None
    assert method.evidence[0] == "inclusion probability"


def test_screened_features_have_no_predictive_inclusion() -> None:
    data = make_example()
    screened = Screened(BIP(select="median"), screen=LassoScreen(k=5))
    (method,) = compare(data, {"it": screened}).methods
    values = method.predictive_inclusion
    assert values is not None
    assert not method.seen.all()
    np.testing.assert_array_equal(np.isnan(values), ~method.seen)
    assert (values[method.selected] >= 0.5).all()


def test_where_nothing_is_compatible_the_posterior_is_shown() -> None:
    data = make_example()
    y = data.y + 50.0 * (data.environment_index == 1)
    with pytest.warns(UserWarning, match="do not predict"):
        (method,) = compare(replace(data, y=y), ["BIP"]).methods
    assert method.predictive_inclusion is None
    assert method.evidence is not None
    assert method.evidence[0] == "inclusion probability"
