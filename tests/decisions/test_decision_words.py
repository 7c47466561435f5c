"""What is said of a decision is what is known, and no more."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance_cases import UnitNoise
from decision_cases import Fixed, broken, decided, made, role_of
from invariance import BIP, InclusionPrior, LinearGaussian, MultiEnvironmentData, Tolerance, UniformPrior
from invariance.decisions import roles as module
from invariance.decisions.decision import Decision, header
from invariance.decisions.plots import plot_coefficients, plot_frontier
from invariance.decisions.roles import Role, never_challenged
from invariance.posterior.posterior import Posterior
from invariance.posterior.summary import format_p_value
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


def test_required_by_the_best_of_many_is_not_required_by_all_found() -> None:
    plain = decided(made())
    cut = replace(plain)
    listed = plain.compatible.masks[:2]
    object.__setattr__(cut, "compatible", replace(plain.compatible, masks=listed))
    assert f"required: in all of the 2 best of {plain.compatible.n} compatible subsets" in words(cut)
    assert "subsets found" not in words(cut)


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


def test_a_survey_of_some_subsets_is_not_one_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SURVEYED", 8)
    monkeypatch.setattr(module, "_FEWEST_SURVEYED", 8)
    decision = decided(broken())
    n = len(decision.survey.masks)
    assert n < 16
    assert f"is invariant: of the {n} looked at, " in decision.verdict


def test_what_the_prior_rules_out_is_not_said_to_fail() -> None:
    data = made()
    for prior in (UniformPrior(max_size=1), InclusionPrior({"effect": 1.0})):
        decision = decided(data, prior=prior, tolerance=Tolerance(level=0.9999999, weak_level=0.999999))
        assert not decision.compatible.n
        assert decision.verdict.startswith("No subset of these features that the prior allows is invariant: of all ")
    assert "the prior allows" not in decided(broken()).verdict
    p_value = decided(data).evidence.p_invariant
    tolerance = Tolerance(level=0.99999, weak_level=0.9 * p_value)
    assert "No subset reaches p-value" in decided(data, tolerance=tolerance).verdict
    limited = decided(data, tolerance=tolerance, prior=UniformPrior(max_size=2))
    assert "No subset that the prior allows reaches p-value" in limited.verdict
    only = decided(broken(), prior=InclusionPrior(1.0))
    assert "is invariant: the only one is {a, b, effect, noise0} (p-value <0.001, and 0.02 is needed)" in only.verdict


def test_too_few_rows_are_not_blamed_on_the_prior() -> None:
    data = broken()
    few = np.concatenate([np.flatnonzero(data.environment_index > 0), np.arange(5)])
    data = replace(data, X=data.X[few], y=data.y[few], environment_index=data.environment_index[few])
    verdict = decided(data).verdict
    assert verdict.startswith("No subset of these features is invariant")


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
    ax = plot_frontier(decision)
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


def test_one_compatible_subset_is_spoken_of_as_one() -> None:
    """By the prior: nothing, or the effect."""
    data = made()
    prior = InclusionPrior({"a": 1.0, "b": 1.0, "noise0": 0.0})
    decision = decided(data, prior=prior, select=Fixed((True, True, True, False)))
    assert decision.compatible.n == 1
    assert decision.verdict.endswith("although 1 subset does. That one is {a, b}.")


def test_numbers_that_round_to_nothing_have_no_minus() -> None:
    decision = decided(alike_everywhere(3), select=Fixed((True, True, True)))
    feature = replace(decision.features[0], r2_change=-1e-7)
    small = replace(decision)
    object.__setattr__(small, "features", (feature,))
    assert "R² +0.000 without it" in words(small)
    assert "-0.000" not in str(decision.findings.posterior.summary())


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


def test_one_panel_leaves_room_for_the_words() -> None:
    decision = decided(made(outcome_name="a name of the longest"), select=Fixed((False, False, True, False)))
    figure: Any = plot_coefficients(decision)[0].figure
    assert "NOT compatible" in figure.get_suptitle()
    figure.canvas.draw()
    for text in (figure._suptitle, figure._supxlabel):
        box = text.get_window_extent()
        assert box.x0 >= 0.0
        assert box.x1 <= figure.bbox.x1


# ---------------------------------------------------------------- the posterior beside the decision


def rejected_but_probable() -> BIP:
    """The posterior is sure of a subset whose p-value is below the weak level, and above 1e-9."""
    data = made(n_noise=0)
    y = data.y + np.array([0.0, 0.3, -0.3, 0.0])[data.environment_index]
    with pytest.warns(UserWarning, match="do not predict"):
        return BIP(tolerance=Tolerance(0.0, 0.0, 0.2, 0.05)).fit(replace(data, y=y))


def test_the_reading_does_not_contradict_the_decision() -> None:
    model = rejected_but_probable()
    posterior = model.posterior_
    assert model.decision_.verdict.startswith("No subset of these features is invariant")
    assert posterior.verdict is None
    assert not posterior.is_spread
    p_value = model.decision_.mode_evidence.p_invariant
    reading = posterior.reading()
    assert reading.startswith("If a subset is invariant, it is ")
    assert f"in the same way in all 4 environments (p-value {format_p_value(p_value)}, and 0.05 is needed)." in reading
    assert "it predicts y" not in reading
    again = Posterior.from_json(posterior.to_json())
    assert again.lowest_level == 0.05
    assert again.reading() == reading
    unknown = replace(posterior, judge=None, table_evidence=None)
    assert unknown.reading().startswith("The invariant subset is ")
    tolerant = replace(again, lowest_level=0.9 * p_value)
    assert "it predicts y in the same way" in tolerant.reading()
    older = json.loads(posterior.to_json())
    del older["lowest_level"]
    assert Posterior.from_json(json.dumps(older)).reading().startswith("The invariant subset is ")


def test_the_rule_that_found_nothing_says_so() -> None:
    said = "; here no subset is compatible"
    assert dict(header(decided(broken())))["rule"].endswith(said)
    assert said not in dict(header(decided(broken(), select="mode")))["rule"]
    assert said not in dict(header(decided(made())))["rule"]
