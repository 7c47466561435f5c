"""What a person reads after a fit."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from conformance_cases import UnitNoise
from decision_cases import Fixed, broken, decided, made, role_of
from invariance import BIP, InclusionPrior, LinearGaussian, Moments, MultiEnvironmentData, Tolerance, UniformPrior
from invariance._tools.text import display_width
from invariance.data.features import Features
from invariance.decisions.decision import Decision
from invariance.decisions.roles import Role, never_challenged
from invariance.decisions.rules import Threshold
from invariance.posterior.posterior import Judge
from posteriors import all_masks


@pytest.fixture(scope="module")
def plain() -> Decision:
    return decided(made())


# ---------------------------------------------------------------- the verdict


def test_how_many_subsets_are_compatible(plain: Decision) -> None:
    masks = all_masks(4)
    compatible = masks[plain.findings.judge.compatible(masks)]
    assert 0 < len(compatible) < 16
    assert plain.compatible.n == len(compatible) == len(plain.compatible.masks)
    assert plain.compatible.complete
    assert f"{len(compatible)} of 16 subsets" in str(plain)


def test_where_nothing_is_compatible_that_is_said_first() -> None:
    data = broken()
    decision = decided(data)
    masks = all_masks(4)
    p_values = decision.findings.judge.evidence(masks).p_invariant
    assert p_values.max() < 0.02
    closest = [name for name, flag in zip(data.feature_names, masks[np.argmax(p_values)], strict=True) if flag]
    assert decision.verdict.startswith("No subset of these features is invariant: of all 16, {" + ", ".join(closest))
    assert "that of the random-effects rule" in decision.verdict
    assert "may fail in a new environment" in decision.verdict
    assert {feature.role for feature in decision.features} <= {Role.chosen, Role.left_out}
    assert not decision.invariant
    by_mode = decided(data, select="mode")
    assert "is what the rule chose all the same" in by_mode.verdict
    assert "random-effects" not in by_mode.verdict


def test_a_rule_that_breaks_invariance_is_told_what_would_not() -> None:
    decision = decided(made(), select=Threshold(0.0))
    assert decision.selected == ("a", "b", "effect", "noise0")
    n = decision.compatible.n
    assert decision.verdict.startswith(
        "The selected features {a, b, effect, noise0} do not predict y alike in all 4 environments (p-value <0.001), "
        f"although {n} subsets do. Of these, {{a, b}} predicts best."
    )
    assert role_of(decision, "a").role is Role.required


def test_one_environment_cannot_tell() -> None:
    decision = decided(made(n_environments=1))
    assert decision.verdict.startswith("One environment cannot tell which features predict y alike elsewhere")
    assert "alike in all" not in str(decision)
    assert "compatible" not in str(decision).split("Selected features")[0]
    assert "p-value" not in str(decision)


def test_too_few_rows_are_named() -> None:
    data = made(n=120, n_noise=3)
    few = np.concatenate([np.flatnonzero(data.environment_index > 0), np.arange(5)])
    data = replace(data, X=data.X[few], y=data.y[few], environment_index=data.environment_index[few])
    limit = (
        "The data are too few to judge subsets of more than 3 features: the smallest environment, site 0, has 5 rows."
    )
    decision = decided(data)
    assert limit not in decision.verdict
    assert f"limit {limit}" in " ".join(str(decision).split())
    full = decided(data, select=Fixed((True, True, False, True, False, False)))
    assert full.verdict.endswith(limit)
    assert "limit" not in str(full)
    assert role_of(full, "noise2").role is Role.not_judged
    assert "too few" not in str(decided(data, prior=UniformPrior(max_size=2)))
    assert "too few" not in str(decided(made()))


def test_a_p_value_stays_on_its_side_of_the_level(plain: Decision) -> None:
    p_value = plain.evidence.p_invariant
    for level in (p_value - 1e-7, p_value + 1e-7):
        near = decided(made(), tolerance=Tolerance(level=level), select=Fixed((True, True, False, False)))
        said = float(near.verdict.split("(p-value ")[1].split(")")[0])
        assert (said >= level) == (p_value >= level) == near.is_compatible


def test_a_selection_that_the_data_leave_open_is_said_to_be_open() -> None:
    """Not rejected, while others reach a higher level."""
    decision = decided(made(), select=Fixed((True, True, True, False)), tolerance=Tolerance(weak_level=1e-300))
    assert decision.invariant
    assert not decision.is_compatible
    assert decision.verdict.startswith(
        "It is open whether the selected features {a, b, effect} predict y alike in all 4"
    )
    assert (
        f"; {decision.compatible.n} other subsets reach p-value 0.2. Of these, {{a, b}} predicts best."
        in decision.verdict
    )
    assert "do not predict" not in decision.verdict


def test_where_only_the_weak_level_is_reached_that_is_said() -> None:
    p_value = decided(made()).evidence.p_invariant
    decision = decided(made(), tolerance=Tolerance(level=0.99999, weak_level=0.9 * p_value))
    assert decision.accepted.level == 0.9 * p_value
    assert decision.verdict.startswith("2 features predict y alike in all 4 environments")
    assert f"No subset reaches p-value 0.99999: from {0.9 * p_value:g} on they pass here." in decision.verdict
    assert f"at level {0.9 * p_value:g}" in " ".join(str(decision).split())
    assert "No subset reaches" not in decided(made()).verdict


# ---------------------------------------------------------------- features


def test_roles_are_what_all_subsets_say(plain: Decision) -> None:
    masks = all_masks(4)
    judge = plain.findings.judge
    compatible = masks[judge.compatible(masks)]
    r2 = judge.evidence(plain.mask[None]).r2[0]
    for j, name in enumerate(("a", "b", "effect", "noise0")):
        feature = role_of(plain, name)
        neighbour = plain.mask.copy()
        neighbour[j] = not neighbour[j]
        evidence = judge.evidence(neighbour[None])
        assert feature.r2_change == pytest.approx(evidence.r2[0] - r2, abs=1e-12)
        assert feature.p_invariant == pytest.approx(evidence.p_invariant[0])
        if plain.mask[j]:
            assert (feature.role is Role.required) == compatible[:, j].all()
        else:
            assert (feature.role is Role.breaks) == (evidence.p_invariant[0] < 0.2)
    assert role_of(plain, "a").role is Role.required
    assert role_of(plain, "b").role is Role.kept
    assert role_of(plain, "effect").role is Role.breaks
    assert role_of(plain, "noise0").role is Role.adds_nothing


def test_the_environment_that_breaks_it_is_named(plain: Decision) -> None:
    broken = role_of(plain, "effect").broken
    assert broken is not None
    assert broken.environment in ("site 0", "site 3")
    assert f"breaks invariance (p-value <0.001), most in {broken.environment} ({broken.part}); R² +0" in " ".join(
        str(plain).split()
    )
    two = decided(made(n_environments=2))
    assert "breaks invariance (p-value <0.001), in its " in " ".join(str(two).split())


def test_what_the_prior_decides_is_said_to_be_the_priors() -> None:
    decision = decided(made(), prior=InclusionPrior({"b": 1.0, "noise0": 0.0}))
    assert role_of(decision, "b").role is Role.forced
    assert role_of(decision, "noise0").role is Role.not_allowed
    assert "forced in by the prior; R² -" in str(decision)
    small = decided(made(), prior=UniformPrior(max_size=2))
    assert role_of(small, "noise0").role is Role.not_allowed
    assert "not allowed beside the selected ones by the prior: R² +0" in " ".join(str(small).split())
    assert role_of(small, "effect").role is Role.breaks


def test_a_feature_that_predicts_more_is_not_said_to_add_nothing() -> None:
    decision = decided(made(), select="mode")
    assert decision.selected == ("a",)
    assert role_of(decision, "b").role is Role.predicts_more
    assert "would predict more and stay compatible (p-value" in " ".join(str(decision).split())


def test_never_challenged_is_invariance_of_the_feature_given_the_others(plain: Decision) -> None:
    """By hand: the feature as the outcome of the other selected ones."""
    assert role_of(plain, "a").never_challenged is False
    assert role_of(plain, "b").never_challenged is True
    assert role_of(plain, "effect").never_challenged is None
    data = made()
    turned = replace(data, X=data.X[:, [0]], y=data.X[:, 1], feature_names=("a",), outcome_name="b")
    assert Judge(LinearGaussian().bind(turned)).compatible(np.array([[True]]))[0]
    assert "never challenged" in str(plain)
    assert "could not have shown it to be a decoy" in " ".join(str(plain).split())
    moved = replace(data, X=data.X + np.array([0, 1, 0, 0]) * (data.environment_index == 2)[:, None])
    assert role_of(decided(moved), "b").never_challenged is False
    assert "decoy" not in str(decided(moved))


def test_challenges_of_features_alone_of_several_columns_and_from_moments() -> None:
    data, tolerance = made(), Tolerance()
    alone = np.array([False, True, False, False])
    for bound in (LinearGaussian().bind(data), LinearGaussian().bind(Moments.from_data(data))):
        assert never_challenged(bound, alone, 1, tolerance) is True
        assert never_challenged(bound, ~alone, 0, tolerance) is False
    order = [0, 1, 3, 2]
    grouped = replace(
        data,
        X=np.ascontiguousarray(data.X[:, order]),
        feature_names=("a", "pair", "effect"),
        grouping=Features.of(("a", "b", "noise0", "effect"), {"pair": ("b", "noise0")}),
    )
    both = np.array([True, True, False])
    for bound in (LinearGaussian().bind(grouped), LinearGaussian().bind(Moments.from_data(grouped))):
        assert never_challenged(bound, both, 1, tolerance) is True
        assert never_challenged(bound, both, 0, tolerance) is False
    constant = data.X.copy()
    constant[data.environment_index == 1, 1] = 0.5
    assert never_challenged(LinearGaussian().bind(replace(data, X=constant)), alone, 1, tolerance) is False


def test_models_without_such_abilities_are_read_too() -> None:
    decision = decided(made(n=40, n_noise=0), family=UnitNoise())
    assert {feature.never_challenged for feature in decision.features} == {None}
    assert decision.coefficients()[["lower", "upper"]].isna().all().all()
    assert str(decision).startswith("Decision\n  verdict ")


def test_hundreds_of_features_are_cut() -> None:
    decision = decided(made(n_noise=300), prior=UniformPrior(max_size=1))
    others = str(decision).split("Other features\n")[1]
    assert len([line for line in others.splitlines() if line.startswith("  ") and line[2] not in " …"]) == 20
    selected = len(decision.selected)
    assert f"  … and {303 - selected - 20} more: " in others
    assert len(decision.to_plain()["features"]) == 303
    for j in (1, 255, 256, 302):
        joined = decision.mask.copy()
        joined[j] = True
        evidence = decision.findings.judge.evidence(joined[None]).one()
        feature = role_of(decision, decision.findings.posterior.feature_names[j])
        assert feature.p_invariant == pytest.approx(evidence.p_invariant)
        assert feature.r2_change == pytest.approx(evidence.r2 - decision.evidence.r2, abs=1e-12)


# ---------------------------------------------------------------- coefficients


def test_coefficients_agree_with_statsmodels() -> None:
    statsmodels = pytest.importorskip("statsmodels.api")
    data = made(n=30)
    for source in (data, Moments.from_data(data)):
        decision = replace(decided(source), mask=np.array([True, True, True, False]))
        table = decision.coefficients(0.9).set_index(["environment", "column"])
        assert len(table) == 15
        for label in ("pooled", *data.environments):
            rows = slice(None) if label == "pooled" else data.rows(data.environments.index(label))
            fit = statsmodels.OLS(data.y[rows], statsmodels.add_constant(data.X[rows, :3])).fit()
            expected = np.column_stack([fit.params, fit.conf_int(0.1)])[1:]
            np.testing.assert_allclose(table.loc[label].drop(columns="note").to_numpy(dtype=float), expected, rtol=1e-8)


def test_intervals_by_hand() -> None:
    """One column: the textbook's formula."""
    data = made(n=20)
    decision = replace(decided(data), mask=np.array([False, True, False, False]))
    x, y = data.X[data.rows(2), 1], data.y[data.rows(2)]
    slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    residuals = y - y.mean() - slope * (x - x.mean())
    margin = 2.10092204024096 * np.sqrt((residuals**2).sum() / 18 / ((x - x.mean()) ** 2).sum())
    row = decision.coefficients().set_index("environment").loc["site 2"]
    np.testing.assert_allclose(
        [row["estimate"], row["lower"], row["upper"]], [slope, slope - margin, slope + margin], rtol=1e-9
    )


def test_columns_that_are_constant_or_given_by_others_have_no_coefficient() -> None:
    data = made(n=30, environments=("pooled", "x", "y", "z"))
    X = data.X.copy()
    X[data.environment_index == 1, 0] = 2.0
    X[data.environment_index == 2, 2] = X[data.environment_index == 2, 1]
    decision = replace(decided(replace(data, X=X)), mask=np.array([True, True, True, False]))
    table = decision.coefficients().set_index(["environment", "column"])
    assert table.index.get_level_values(0)[0] == "pooled_"
    nowhere = [("x", "a"), ("y", "effect")]
    assert table[["estimate", "lower", "upper"]].isna().all(axis=1)[nowhere].all()
    assert table["note"][nowhere].tolist() == ["constant", "not identified"]
    assert not table.drop(nowhere).isna().any().any()


def test_impossible_coverage(plain: Decision) -> None:
    with pytest.raises(ValueError, match=r"coverage=1\.5 is not possible: use a number between 0 and 1"):
        plain.coefficients(1.5)


# ---------------------------------------------------------------- text, HTML, JSON


def test_text_never_passes_80_columns() -> None:
    names = ("遺伝子" * 20, "a\nb" + "x" * 90, "<b>", "$y$ " * 30)
    for data in (made(feature_names=names, outcome_name="outcome " * 20), broken()):
        for line in str(decided(data)).splitlines():
            assert line.isprintable()
            assert display_width(line) <= 80


def test_html_is_escaped() -> None:
    decision = decided(made(feature_names=("<script>", "a&b", "<i>c", "d"), outcome_name="<b>y"))
    html = decision._repr_html_()
    for raw in ("<script", "<b>", "<i>", "a&b"):
        assert raw not in html
    assert "&lt;script&gt;" in html
    assert html.count("<div") == html.count("</div>")
    assert "never challenged" in html


def test_the_summary_is_the_decision_and_then_the_posterior() -> None:
    model = BIP().fit(made())
    summary = model.summary(top=3)
    assert str(summary) == repr(summary) == f"{model.decision_}\n\n{model.posterior_.summary(3)}"
    assert summary._repr_html_() == model.decision_._repr_html_() + model.posterior_.summary(3)._repr_html_()


@pytest.mark.parametrize("data", [made(), broken(), made(n_environments=1)])
def test_plain_values_are_strict_json(data: MultiEnvironmentData) -> None:
    decision = decided(data)
    again = json.loads(json.dumps(decision.to_plain(), allow_nan=False))
    assert again["verdict"] == decision.verdict
    assert again["selected"] == list(decision.selected)
    assert again["tolerance"] == {"delta": 0.02, "tau": 0.1, "level": 0.2, "weak_level": 0.02}
    assert [feature["name"] for feature in again["features"]] == [feature.name for feature in decision.features]
    assert len(again["coefficients"]) == len(decision.selected) * (1 + data.n_environments)


def test_a_fitted_decision_survives_pickle() -> None:
    model = BIP().fit(made())
    assert str(pickle.loads(pickle.dumps(model)).decision_) == str(model.decision_)


# ---------------------------------------------------------------- the predictive posterior's own words
