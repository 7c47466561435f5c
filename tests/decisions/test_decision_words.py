"""What is said of a decision is what is known, and no more."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from conformance_cases import UnitNoise
from decision_cases import Fixed, broken, decided, made, role_of
from invariance import LinearGaussian, MultiEnvironmentData, Tolerance
from invariance.decisions.decision import Decision
from invariance.decisions.roles import Role, never_challenged
from posteriors import all_masks


def words(decision: Decision) -> str:
    return " ".join(str(decision).split())


def alike_everywhere(n_features: int = 12) -> MultiEnvironmentData:
    """No environment moves anything, so that every subset is compatible; three features predict much."""
    rng = np.random.default_rng(0)
    e, X = rng.integers(0, 4, 20_000), rng.normal(size=(20_000, n_features))
    y = 3 * X[:, 0] - X[:, 1] + 0.5 * X[:, 2] + rng.normal(size=20_000)
    return MultiEnvironmentData.from_arrays(X, y, e)


@pytest.fixture(scope="module")
def unmoved() -> Decision:
    return decided(alike_everywhere())


# ---------------------------------------------------------------- how many are compatible, and what they share


def test_an_exact_engine_that_stopped_early_does_not_claim_to_have_counted(unmoved: Decision) -> None:
    predictive = unmoved.findings.predictive
    assert predictive is not None
    assert predictive.diagnostics["compatible_counted"] is False
    n = unmoved.compatible.n
    assert n < unmoved.findings.judge.compatible(all_masks(12)).sum()
    assert not unmoved.compatible.all_scored
    assert not unmoved.compatible.complete
    assert unmoved.to_plain()["compatible"]["all_scored"] is False
    assert f"compatible at least {n:,} of 4,096 subsets" in words(unmoved)
    assert f"  subsets       at least {n:,} compatible of 4,096 in" in str(predictive.summary())


def test_no_feature_is_required_that_a_compatible_subset_lacks(unmoved: Decision) -> None:
    assert unmoved.compatible.masks[:, :2].all()
    for feature in unmoved.features[:3]:
        assert feature.p_invariant >= 0.2
        assert feature.role is Role.kept
    assert "required" not in str(unmoved)
    alone = replace(unmoved)
    object.__setattr__(alone, "compatible", replace(unmoved.compatible, others=unmoved.compatible.masks[:0]))
    assert alone.compatible.in_all()[:2].all()
    assert [feature.role for feature in alone.features[:3]] == [Role.kept] * 3


def test_a_probable_subset_that_is_not_listed_is_asked_too() -> None:
    decision = decided(made())
    compatible = decision.compatible
    assert compatible.in_all()[0]
    lacking = np.array([[False, True, False, True]])
    assert not replace(compatible, others=lacking).in_all()[0]
    assert not replace(compatible, masks=compatible.masks[:0]).in_all().any()
    others = decision.findings.posterior.masks[decision.findings.judge.compatible(decision.findings.posterior.masks)]
    np.testing.assert_array_equal(compatible.others, others)


@pytest.mark.parametrize("engine", ["tempering", "vi"])
def test_what_a_search_found_is_the_predictive_posterior(engine: str) -> None:
    decision = decided(made(), engine=engine, random_state=1)
    predictive = decision.findings.predictive
    assert predictive is not None
    assert predictive.kind == json.loads(predictive.to_json())["kind"] == "predictive"
    text = str(predictive.summary())
    assert text.startswith("Posterior over compatible subsets, by prediction\n")
    assert "The invariant subset is" not in text
    assert f"  subsets       at least {decision.compatible.n} compatible of 16 in" in text
    assert not decision.compatible.all_scored


def test_a_search_that_found_every_subset_has_counted() -> None:
    rng = np.random.default_rng(3)
    data = MultiEnvironmentData.from_arrays(rng.normal(size=(60, 2)), rng.normal(size=60), np.arange(60) % 2)
    decision = decided(data, engine="tempering", random_state=0)
    assert decision.compatible.n == 4
    assert decision.compatible.all_scored
    assert "all 4 are compatible with invariance" in decision.verdict
    assert "at least" not in str(decision)


# ---------------------------------------------------------------- where nothing is compatible


def test_a_search_says_that_none_was_found() -> None:
    decision = decided(broken(), engine="tempering", random_state=1)
    n = len(decision.survey.masks)
    assert n < 16
    assert decision.verdict.startswith(
        f"No subset of these features was found that is invariant: of the {n} looked at, "
    )


def test_none_is_closest_where_no_p_value_can_tell() -> None:
    data = broken()
    data = replace(data, y=data.y + 1e6 * (data.environment_index == 2))
    decision = decided(data)
    assert decision.survey.p_invariant.max() == 0.0
    assert decision.survey.closest is None
    assert "of all 16, none comes near (every p-value is below 1e-300, and 0.02 is needed)" in decision.verdict
    assert "is closest" not in decision.verdict


def test_the_rule_that_took_over_is_said_to_do_what_it_does() -> None:
    decision = decided(broken())
    model = decision.findings.target.model
    risks = model.random_effects_risk_many(all_masks(4))
    assert risks is not None
    assert (all_masks(4)[np.argmin(risks)] == decision.mask).all()
    assert "which expects the least error from it in a new environment" in decision.verdict
    assert "scatter least" not in decision.verdict
    assert {feature.role for feature in decision.features if feature.selected} == {Role.chosen}
    assert "chosen by the rule; R² -" in words(decision)
    assert "kept for prediction" not in str(decision)


def test_a_model_without_random_effects_falls_back_to_the_mode() -> None:
    decision = decided(broken(), family=UnitNoise())
    assert not decision.compatible.n
    assert "is the most probable subset; its predictions may fail" in decision.verdict


# ---------------------------------------------------------------- subsets that cannot be judged


def scarce() -> MultiEnvironmentData:
    """Two environments of 4 and 10 rows, six features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14, 6))
    return MultiEnvironmentData.from_arrays(X, X[:, 0] + rng.normal(size=14), np.repeat(["few", "more"], [4, 10]))


def test_a_selection_that_cannot_be_judged_is_not_said_to_fail() -> None:
    decision = decided(scarce(), select=Fixed((True,) * 6))
    assert not decision.judged
    assert decided(made()).judged
    assert decision.verdict.startswith(
        "Whether the selected features {x0, x1, x2, x3, x4, x5} predict y alike cannot be judged: the rows are too few"
    )
    assert "do not predict" not in decision.verdict
    assert f"{decision.compatible.n} other subsets reach p-value 0.2. Of these, " in decision.verdict
    assert "p-value" not in words(decision).split(" selected {")[1].split(" compatible ")[0]


def test_the_frontier_leaves_out_what_cannot_be_scored() -> None:
    decision = decided(scarce(), select=Fixed((True,) * 6))
    assert np.isnan(decision.survey.r2[0])
    ax = decision.plot("frontier")
    ax.figure.canvas.draw()
    assert np.isfinite(ax.get_ylim()).all()
    (steps,) = (line for line in ax.lines if str(line.get_label()).startswith("best R²"))
    assert np.isfinite(np.asarray(steps.get_ydata(), dtype=float)).all()
    assert "which the rows cannot judge" in " ".join(ax.get_title(loc="left").split())


# ---------------------------------------------------------------- smaller words


def test_two_environments_are_both() -> None:
    decision = decided(made(n_environments=2))
    assert "alike in both environments (p-value" in decision.verdict
    assert "all 2" not in str(decision) + str(decision.findings.posterior.summary())


def test_one_environment_leaves_invariance_unknown_in_json() -> None:
    assert decided(made(n_environments=1)).to_plain()["invariant"] is None
    assert decided(made()).to_plain()["invariant"] is True
    assert decided(broken()).to_plain()["invariant"] is False


def test_challenges_are_judged_at_the_level_of_the_tolerance() -> None:
    """Between the usual and the weak level a feature counts as moved."""
    data, alone = made(), np.array([False, True, False, False])
    bound = LinearGaussian().bind(data)
    assert never_challenged(bound, alone, 1, Tolerance()) is True
    assert never_challenged(bound, alone, 1, Tolerance(level=0.9999999, weak_level=1e-6)) is False


def test_a_feature_whose_weight_is_not_above_that_of_the_selection_adds_nothing() -> None:
    """Even where it comes close: between −1 and 0."""
    data, chosen = made(), np.array([True, True, False, False])
    for strength in np.linspace(0.0, 0.5, 101):
        decision = decided(replace(data, y=data.y + strength * data.X[:, 3]), select=Fixed(tuple(chosen.tolist())))
        predictive = decision.findings.predictive
        assert predictive is not None
        more = np.array([True, True, False, True])
        lost = np.log(predictive.probability(chosen) / predictive.probability(more))
        if lost < 1.0:
            break
    assert 0.0 < lost < 1.0
    assert role_of(decision, "noise0").role is Role.adds_nothing


# ---------------------------------------------------------------- the posterior beside the decision
