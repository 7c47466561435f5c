"""The conditional that an outcome asks for: which, why, and that it is said."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, LinearGaussian, Logistic, Moments, MultiEnvironmentData, Posterior
from invariance.exceptions import SettingError
from invariance.models.registry import (
    FAMILIES,
    MODELS,
    ByOutcome,
    Chosen,
    family_of,
    parse_family,
    resolve_family,
    two_valued,
    with_family_columns,
)

RNG = np.random.default_rng(11)
N = 240
SITE = np.repeat(["a", "b", "c"], N // 3)
X = RNG.normal(size=(N, 3)) + 0.7 * np.repeat(RNG.normal(size=(3, 3)), N // 3, axis=0)
DIED = RNG.random(N) < 1.0 / (1.0 + np.exp(-2.0 * X[:, 0]))
YEARS = RNG.uniform(0.5, 4.0, size=N)
VISITS = RNG.poisson(YEARS * np.exp(0.6 * X[:, 0] - 0.5))
FRAME = pd.DataFrame(X, columns=["u", "v", "w"])
from_arrays = MultiEnvironmentData.from_arrays


def data_of(y: Any, **outcome_columns: Any) -> MultiEnvironmentData:
    return from_arrays(FRAME, y, SITE, outcome_name="died", **outcome_columns)


@pytest.mark.parametrize(
    ("y", "outcome_columns", "name"),
    [
        (X[:, 0], {}, "linear_gaussian"),
        (DIED, {}, "logistic"),
        (np.where(DIED, "yes", "no"), {}, "logistic"),
        (np.where(DIED, 2, 1), {}, "logistic"),
        (VISITS, {}, "negative_binomial"),
        (VISITS, {"exposure": YEARS}, "negative_binomial"),
        (DIED.astype(int), {"exposure": YEARS}, "negative_binomial"),
        (YEARS, {"event": DIED}, "piecewise_exponential"),
    ],
)
def test_the_choice(y: Any, outcome_columns: dict[str, Any], name: str) -> None:
    data = data_of(y, **outcome_columns)
    choice = family_of(data)
    assert choice.name == name
    assert choice.reason == data.outcome_kind.reason
    assert choice.overridable == (not outcome_columns and name != "linear_gaussian")


def test_two_values_are_fitted_by_logistic_regression() -> None:
    auto = BIP().fit(X, DIED, environments=SITE)
    stated = BIP(Logistic()).fit(X, DIED.astype(float), environments=SITE)
    np.testing.assert_array_equal(auto.posterior_.log_ratios, stated.posterior_.log_ratios)
    reason = auto.posterior_.model_reason
    assert reason == "y has two values: False and True; family='linear_gaussian' overrides"
    assert f"model logistic ({reason})" in " ".join(str(auto.summary()).split())
    assert stated.posterior_.model_reason == ""
    kept = (
        pickle.loads(pickle.dumps(auto)).posterior_,
        Posterior.from_json(auto.posterior_.to_json()),
    )
    for posterior in (auto.posterior_, auto.predictive_, *kept):
        assert (posterior.model, posterior.model_reason) == ("logistic", reason)
    assert (
        BIP("linear_gaussian").fit(X, DIED, environments=SITE).posterior_.model == "linear Gaussian"
    )


def test_the_choice_of_all_rows_holds_for_parts_of_them() -> None:
    """In the two environments that are left, the counts are 0 and 1 only."""
    data = data_of(np.where(SITE == "c", RNG.poisson(1.0, size=N), DIED))
    part = data.choosing(["a", "b"])
    kept = resolve_family(ByOutcome(), data)
    assert kept.name == family_of(part).name == "negative_binomial"
    assert kept.bind(part).name == "negative binomial"
    assert BIP().fit(data)._fit_settings.family == kept
    assert resolve_family(LinearGaussian(), data) == LinearGaussian()


def test_data_are_recoded_for_two_classes_only() -> None:
    data = data_of(np.where(DIED, 2, 1))
    for family in (Logistic(), Chosen("logistic", "")):
        assert with_family_columns(family, data)[1].classes == (1.0, 2.0)
    assert with_family_columns(LinearGaussian(), data)[1] is data


# ---------------------------------------------------------------- what comes with an outcome


class Stranger:
    """A family that knows nothing of events."""

    kind = "number"
    link = "identity"
    bind = None


@pytest.mark.parametrize(
    "family", ["linear_gaussian", "bayesian_linear_gaussian", "logistic", Stranger()]
)
def test_models_that_would_ignore_events_refuse_them(family: Any) -> None:
    with pytest.raises(SettingError, match="does not know of the event 'event'"):
        BIP(family).fit(data_of(YEARS, event=DIED))


# ---------------------------------------------------------------- moments and sweeps


def test_second_moments_tell_two_values() -> None:
    two = {"zero": DIED.astype(float), "pair": np.where(DIED, 7.25, -3.0)}
    others = {"more": VISITS, "any": X[:, 0], "tiny": 1e-9 * X[:, 1]}
    nearly = np.where(np.arange(N) == 5, 0.999999, DIED)
    table = pd.DataFrame({**two, **others, "nearly": nearly, "site": SITE})
    moments = Moments.from_data(MultiEnvironmentData.from_table(table, "any", "site"))
    found = {name for j, name in enumerate(moments.columns) if two_valued(moments, j)}
    assert found == set(two)


def test_moments_are_fitted_by_the_linear_gaussian_model() -> None:
    posterior = BIP().fit(Moments.from_data(data_of(DIED))).posterior_
    assert posterior.model == "linear Gaussian"
    assert posterior.model_reason.startswith("died is known by second moments alone")


# ---------------------------------------------------------------- names as they are typed


def test_families_by_name() -> None:
    typed = {
        "auto": "auto",
        "gaussian": "linear_gaussian",
        "Negative-Binomial": "negative_binomial",
        "mean": "linear_gaussian_mean",
        "logistic(pseudo_rows=0)": Logistic(pseudo_rows=0),
        "mean(prediction=0.5)": LinearGaussian("mean", 0.5),
    }
    assert {text: parse_family(text) for text in typed} == typed
    assert {"gaussian", "mean", *MODELS} == set(FAMILIES)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("normal", "family='normal' is not known: use family='auto'"),
        ("logistics", "did you mean 'logistic'?"),
        ("logistic(rows=1)", "logistic has no setting 'rows'"),
        ("logistic(pseudo_rows=many)", "pseudo_rows cannot be 'many'"),
        ("logistic(pseudo_rows=-1)", "pseudo_rows"),
        ("auto(a=1)", "auto has no setting 'a'"),
    ],
)
def test_families_that_are_none(text: str, phrase: str) -> None:
    with pytest.raises(SettingError) as error:
        parse_family(text)
    assert phrase in str(error.value)
