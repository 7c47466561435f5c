"""A selected feature that is constant within every environment has a role of its own, and the
verdict says so."""

from __future__ import annotations

import json

import numpy as np
import pytest

from decision_cases import Fixed, decided, role_of
from invariance import InclusionPrior, MultiEnvironmentData
from invariance.decisions.decision import Decision, Role, role_in_words
from invariance.decisions.site_level import absorbed_baselines

pytestmark = pytest.mark.usefixtures("brief")

N_SITES = 7


def stores(family: str = "auto", **settings: object) -> Decision:
    """Site 6 has a baseline of its own, which store6, a recoding, explains; size is a setting of
    sites, half varies in one of them, and z is noise."""
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(N_SITES), 120)
    x, z = rng.normal(size=(2, len(site)))
    store6 = 1.0 * (site == 6)
    size = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0])[site]
    half = np.where(site == 2, z, size)
    eta = x + 2.0 * store6
    y = eta + rng.normal(size=len(site))
    if family == "logistic":
        y = 1.0 * (rng.random(len(site)) < 1.0 / (1.0 + np.exp(-eta)))
    X = np.column_stack([x, z, store6, size, half])
    names = "x", "z", "store6", "size", "half"
    data = MultiEnvironmentData.from_arrays(X, y, site, feature_names=names)
    return decided(data, family=family, **settings)


@pytest.mark.parametrize("family", ["auto", "logistic"])
def test_a_recoding_of_the_label_is_not_selected_in_silence(family: str) -> None:
    decision = stores(family)
    assert decision.selected == ("x", "store6")
    assert role_of(decision, "store6").role is Role.constant_within
    assert role_of(decision, "x").role is not Role.constant_within
    assert [feature.name for feature in decision.features if feature.constant_within] == [
        "store6",
        "size",
    ]
    assert role_of(decision, "size").role not in (Role.constant_within, Role.required, Role.kept)
    assert decision.absorbed_baselines == 1
    assert all(text in str(decision.verdict) for text in ("'store6'", "constant within", "1 of 6"))
    written = json.loads(json.dumps(decision.to_plain(), allow_nan=False))
    assert written["absorbed_baselines"] == 1
    assert [
        each["constant_within"] for each in written["features"] if each["name"] == "store6"
    ] == [True]


def test_settings_of_sites_absorb_as_many_baselines_as_they_tell_apart() -> None:
    everything = stores(select=Fixed((True, False, True, True, True)))
    model = everything.findings.target.model
    assert everything.absorbed_baselines == 2
    alone = np.eye(5, dtype=bool)
    assert [absorbed_baselines(model, mask) for mask in alone] == [0, 0, 1, 1, 0]
    assert absorbed_baselines(model, np.zeros(5, dtype=bool)) == 0
    assert "constant within" in str(everything.verdict)


def test_without_such_features_nothing_is_added() -> None:
    decision = stores(select=Fixed((True, False, False, False, True)))
    assert decision.absorbed_baselines == 0
    assert "constant within" not in str(decision.verdict)


def test_what_the_prior_forces_in_keeps_its_role() -> None:
    decision = stores(prior=InclusionPrior({"size": 1.0}))
    size = role_of(decision, "size")
    assert size.role is Role.forced
    assert size.constant_within
    assert "constant within environments" in role_in_words(size)
    assert decision.absorbed_baselines >= 1
