"""The decision of a fit: its verdict, the roles of features, coefficients, and how it is told."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from test_environments import unequal_noise

from conformance_cases import UnitNoise
from decision_cases import Fixed, broken, decided, made, role_of
from decision_twins import separate_gains
from invariance import (
    BIP,
    InclusionPrior,
    LinearGaussian,
    Logistic,
    Moments,
    MultiEnvironmentData,
    PiecewiseExponential,
    Poisson,
    Tolerance,
    UniformPrior,
)
from invariance._tools.sections import as_text
from invariance._tools.text import display_width
from invariance.data.features import Features
from invariance.datasets import make_example
from invariance.decisions.decision import Decision, Role, fallback, feature_roles, never_challenged
from invariance.decisions.rules import Threshold
from invariance.exceptions import ApproximationWarning, NotInvariantWarning
from invariance.posterior.posterior import Judge
from posteriors import all_masks
from regression_cases import HARD, plain_table

pytestmark = pytest.mark.usefixtures("brief")


@pytest.fixture(scope="module")
def plain() -> Decision:
    return decided(made())


def alike_everywhere() -> MultiEnvironmentData:
    """No environment moves anything, so that every subset is compatible; three features predict
    much."""
    rng = np.random.default_rng(0)
    e = rng.integers(0, 4, 20_000)
    X = rng.normal(size=(20_000, 12))
    y = 3 * X[:, 0] - X[:, 1] + 0.5 * X[:, 2] + rng.normal(size=20_000)
    return MultiEnvironmentData.from_arrays(X, y, e)


@pytest.fixture(scope="module")
def unmoved() -> Decision:
    return decided(alike_everywhere())


def scarce() -> MultiEnvironmentData:
    """Two environments of 4 and 10 rows, six features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(14, 6))
    return MultiEnvironmentData.from_arrays(
        X, X[:, 0] + rng.normal(size=14), np.repeat(["few", "more"], [4, 10])
    )


def small() -> MultiEnvironmentData:
    rng = np.random.default_rng(3)
    return MultiEnvironmentData.from_arrays(
        rng.normal(size=(60, 2)), rng.normal(size=60), np.arange(60) % 2
    )


def far() -> MultiEnvironmentData:
    data = broken()
    return replace(data, y=data.y + 1e6 * (data.environment_index == 2))


# ---------------------------------------------------------------- the verdict


@dataclass(frozen=True)
class Case:
    """What a fit decides. selected : or None where that is the rule's; n : of compatible subsets,
    or None where some are; told : what the verdict names"""

    data: MultiEnvironmentData
    compatible: bool
    invariant: bool
    grade: str
    selected: tuple[str, ...] | None = None
    judged: bool = True
    n: int | None = None
    level: float = 0.2
    told: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)


SHARED = {"baseline": "shared"}
EVERYTHING = Fixed((True,) * 6)
OPEN = Fixed((True, True, True, False))
CASES = {
    "compatible": Case(
        made(),
        True,
        True,
        "no difference found",
        ("a", "b"),
        told=("2 features", "4 environments", "p-value", "exact"),
    ),
    "two environments": Case(
        made(n_environments=2), True, True, "no difference found", told=("2 environments",)
    ),
    "one environment": Case(
        made(n_environments=1), True, False, "cannot be told", told=("One environment",)
    ),
    "all are": Case(small(), True, True, "no difference found", n=4, told=("all 4",)),
    "all are, by a search": Case(
        small(),
        True,
        True,
        "no difference found",
        n=4,
        settings={"engine": "tempering", "random_state": 0},
    ),
    "weak level": Case(
        made(),
        True,
        True,
        "no difference found",
        ("a", "b"),
        level=0.3,
        settings={"tolerance": Tolerance(level=0.99999, weak_level=0.3)},
    ),
    "a rule that breaks it": Case(
        made(),
        False,
        False,
        "differ",
        ("a", "b", "effect", "noise0"),
        told=("{a, b}",),
        settings={"select": Threshold(0.0)},
    ),
    "open": Case(
        made(),
        False,
        False,
        "differ",
        told=("{a, b}",),
        settings={"select": OPEN, "tolerance": Tolerance(weak_level=1e-300)},
    ),
    "too few rows": Case(
        scarce(), False, False, "cannot be told", judged=False, settings={"select": EVERYTHING}
    ),
    "nothing is": Case(
        broken(),
        False,
        False,
        "differ",
        n=0,
        level=0.02,
        told=("all 16", "random-effects"),
        settings=SHARED,
    ),
    "nothing is, by the mode": Case(
        broken(), False, False, "differ", n=0, level=0.02, settings={"select": "mode"}
    ),
    "nothing is, by a search": Case(
        broken(),
        False,
        False,
        "differ",
        n=0,
        level=0.02,
        settings={"engine": "tempering", "random_state": 1, **SHARED},
    ),
    "nothing comes near": Case(
        far(), False, False, "differ", n=0, level=0.02, told=("<0.001",), settings=SHARED
    ),
    "nothing is, by a family of one's own": Case(
        broken(),
        False,
        False,
        "differ",
        n=0,
        level=0.02,
        told=("random-effects",),
        settings={"family": UnitNoise(), **SHARED},
    ),
    "effects are, by a family of one's own": Case(
        broken(),
        True,
        False,
        "no difference found",
        told=("Baselines differ",),
        settings={"family": UnitNoise()},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_verdicts(case: Case) -> None:
    decision = decided(case.data, **case.settings)
    assert (decision.is_compatible, decision.invariant, decision.judged) == (
        case.compatible,
        case.invariant,
        case.judged,
    )
    assert decision.accepted.level == case.level
    assert decision.compatible.n == case.n if case.n is not None else decision.compatible.n > 0
    assert case.selected in (None, decision.selected)
    assert decision.verdict.grade == case.grade
    assert all(text in str(decision.verdict) for text in case.told)
    if case.n == 0:
        assert {feature.role for feature in decision.features} <= (
            {Role.fallback, Role.too_small} if decision.fell_back else {Role.chosen, Role.left_out}
        )
    again = json.loads(json.dumps(decision.to_plain(), allow_nan=False))
    assert again["invariant"] == (case.invariant if case.data.n_environments > 1 else None)
    assert (again["verdict"]["grade"], again["verdict"]["sentence"]) == (
        case.grade,
        str(decision.verdict),
    )
    assert again["selected"] == list(decision.selected)
    assert [feature["name"] for feature in again["features"]] == [
        feature.name for feature in decision.features
    ]
    assert len(again["coefficients"]) == len(decision.columns) * (1 + case.data.n_environments)
    text = str(decision)
    assert max(map(display_width, text.splitlines())) <= 80
    assert (", exact" in text) == (case.judged and case.data.n_environments > 1)


@pytest.mark.parametrize("select", ["predictive", "median"])
def test_where_nothing_is_compatible_the_least_risky_subset_is_chosen(select: str) -> None:
    decision = decided(broken(), select=select, baseline="shared")
    worth = [
        mask
        for mask in all_masks(4)
        if (separate_gains(broken(), mask)[mask] > decision.findings.score.price).all()
    ]
    risks = decision.findings.target.model.random_effects_risk_many(worth)
    assert (worth[np.argmin(risks)] == decision.mask).all()
    assert (decision.mask != decision.posterior.mode_mask).any()
    told = [fallback(each) for each in (decision, decided(broken(), select="mode"))]
    assert "random-effects" in told[0]
    assert "rule" in told[1]


def broken_of(family: str) -> MultiEnvironmentData:
    """The outcome follows a in every environment, with another intercept in each, and b, constant
    there, not at all."""
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(6), 150)
    b = rng.normal(size=6)
    X = np.column_stack([rng.normal(size=900), b[site], rng.normal(size=900)])
    eta = 1.2 * X[:, 0] + np.array([-2.0, -1.0, 0.0, 0.3, 1.0, 2.0])[rng.permutation(6)][site]
    if family == "logistic":
        return MultiEnvironmentData.from_arrays(
            X, (rng.random(900) < expit(eta)).astype(float), site
        )
    if family == "piecewise_exponential":
        times = rng.exponential(np.exp(-eta))
        return MultiEnvironmentData.from_arrays(
            X, np.minimum(times, 2.0), site, event=(times < 2.0).astype(float)
        )
    years = rng.uniform(0.5, 2.0, 900)
    return MultiEnvironmentData.from_arrays(
        X, rng.poisson(years * np.exp(eta)).astype(float), site, exposure=years
    )


@pytest.mark.parametrize(
    "family", ["logistic", "poisson", "negative_binomial", "piecewise_exponential"]
)
def test_where_nothing_is_compatible_every_family_takes_what_risks_least(family: str) -> None:
    """The most probable subset leaves out what predicts."""
    decision = decided(broken_of(family), family=family, baseline="shared")
    assert not decision.compatible.n
    assert "x0" in set(decision.selected) - set(decision.posterior.mode)
    assert "x1" not in decision.selected
    assert "random-effects" in fallback(decision)


def test_what_stands_for_times_and_counts() -> None:
    times = broken_of("piecewise_exponential")
    counts = broken_of("poisson")
    residuals = PiecewiseExponential().working_outcome(times)
    assert abs(residuals.sum()) < 1e-9 * len(residuals)
    assert residuals.max() <= 1.0
    assert np.corrcoef(residuals, times.X[:, 0])[0, 1] > 0.3
    # It does not depend on the unit of exposure.
    days = replace(counts, exposure=365.25 * counts.exposure)
    logs = [Poisson().working_outcome(each) for each in (counts, days)]
    np.testing.assert_allclose(logs[0], logs[1])
    assert np.corrcoef(logs[0], counts.X[:, 0])[0, 1] > 0.3


def test_an_environment_without_events_tells_no_coefficients() -> None:
    data = broken_of("logistic")
    without = replace(data, y=np.where(data.environment_index == 1, 0.0, data.y))
    X = data.X.copy()
    others = without.choosing([label for label in data.environments if label != 1])
    risks = [
        Logistic().bind(each).random_effects_risk_many(all_masks(3)) for each in (without, others)
    ]
    np.testing.assert_allclose(risks[0], risks[1])
    X[:, 1] = data.environment_index == 1  # constant where the outcome varies
    shown = Logistic().bind(replace(without, X=X)).random_effects_risk_many(all_masks(3))
    assert np.isfinite(shown).all()
    alone = replace(data, y=np.where(data.environment_index > 0, 1.0, data.y))
    assert np.isinf(Logistic().bind(alone).random_effects_risk_many(all_masks(3))).all()


def test_the_least_risky_subset_can_be_fitted() -> None:
    """To an environment of three rows, none of them an event, no two columns can."""
    data = broken_of("logistic")
    data = replace(data, y=np.where(data.environment_index == 0, 0.0, data.y))
    few = np.concatenate([np.flatnonzero(data.environment_index > 0), np.arange(3)])
    data = replace(
        data, X=data.X[few], y=data.y[few], environment_index=data.environment_index[few]
    )
    model = Logistic().bind(data)
    risks = model.random_effects_risk_many(all_masks(3))
    assert (np.isinf(risks) == ~model.supported(all_masks(3))).all()
    assert np.isinf(risks).any()


def test_how_many_subsets_are_compatible(plain: Decision, unmoved: Decision) -> None:
    """Where subsets and rows are few, all are tested, whatever the engine; where it stopped early,
    it says so."""
    n = int(plain.findings.judge.compatible(all_masks(4)).sum())
    assert 0 < n < 16
    assert plain.compatible.n == n
    assert plain.compatible.all_scored
    assert unmoved.compatible.n < unmoved.findings.judge.compatible(all_masks(12)).sum()
    searched = decided(made(), engine="tempering", random_state=1)
    assert unmoved.to_plain()["compatible"]["all_scored"] is False
    assert f"at least {unmoved.compatible.n:,}" in str(unmoved)
    assert searched.compatible.n == searched.findings.judge.compatible(all_masks(4)).sum()
    assert searched.findings.predictive.kind == "predictive"


def test_too_few_rows_are_named() -> None:
    data = made(n=120, n_noise=3)
    few = np.concatenate([np.flatnonzero(data.environment_index > 0), np.arange(5)])
    data = replace(
        data, X=data.X[few], y=data.y[few], environment_index=data.environment_index[few]
    )
    (limit,) = (
        text
        for label, text in decided(data, deviations="free").sections[0].facts
        if label == "limit"
    )
    assert all(text in limit for text in ("3 features", "site 0", "5"))
    full = decided(data, deviations="free", select=Fixed((True, True, False, True, False, False)))
    assert role_of(full, "noise2").role is Role.not_judged
    for other in (
        decided(data),
        decided(data, deviations="free", prior=UniformPrior(max_size=2)),
        decided(made()),
    ):
        assert "limit" not in dict(other.sections[0].facts)


# ---------------------------------------------------------------- features


def test_roles_are_what_all_subsets_say(plain: Decision) -> None:
    masks = all_masks(4)
    judge = plain.findings.judge
    compatible = masks[judge.compatible(masks)]
    r2 = judge.evidence(plain.mask[None]).r2[0]
    roles = {"a": Role.required, "b": Role.kept, "effect": Role.breaks, "noise0": Role.adds_nothing}
    for j, name in enumerate(roles):
        feature = role_of(plain, name)
        evidence = judge.evidence((plain.mask ^ (np.arange(4) == j))[None])
        assert feature.r2_change == pytest.approx(evidence.r2[0] - r2, abs=1e-12)
        assert feature.p_invariant == pytest.approx(evidence.p_invariant[0])
        if plain.mask[j]:
            assert (feature.role is Role.required) == compatible[:, j].all()
        else:
            assert (feature.role is Role.breaks) == (evidence.p_invariant[0] < 0.2)
        assert feature.role is roles[name]
    assert role_of(plain, "effect").broken.environment in ("site 0", "site 3")


@pytest.mark.parametrize(
    ("settings", "roles"),
    [
        (
            {"prior": InclusionPrior({"b": 1.0, "noise0": 0.0})},
            {"b": Role.forced, "noise0": Role.not_allowed, "effect": Role.breaks},
        ),
        ({"prior": UniformPrior(max_size=2)}, {"noise0": Role.not_allowed, "effect": Role.breaks}),
        ({"select": "mode"}, {"a": Role.required, "b": Role.predicts_more}),
        ({"select": Threshold(0.0)}, {"a": Role.required, "effect": Role.chosen}),
        ({"family": UnitNoise()}, {"effect": Role.breaks}),
    ],
    ids=["forced", "small", "mode", "everything", "without abilities"],
)
def test_roles(settings: dict[str, Any], roles: dict[str, Role]) -> None:
    decision = decided(made(), **settings)
    assert {name: role_of(decision, name).role for name in roles} == roles


def test_no_feature_is_required_that_a_compatible_subset_lacks(
    plain: Decision, unmoved: Decision
) -> None:
    """Nor one that the listed ones all hold, while a compatible subset of the paper's posterior
    lacks it."""
    assert unmoved.compatible.masks[:, :2].all()
    assert not unmoved.compatible.in_all.any()
    assert [feature.role for feature in unmoved.features[:3]] == [Role.kept] * 3
    assert plain.compatible.in_all.tolist() == [True, False, False, False]
    roles = feature_roles(
        plain.findings, plain.mask, replace(plain.compatible, in_all=np.zeros(4, dtype=bool))
    )
    assert roles[0].role is Role.kept


def test_a_feature_whose_weight_is_not_above_that_of_the_selection_adds_nothing() -> None:
    """Even where it comes close: between −1 and 0."""
    data = made()
    chosen = np.array([True, True, False, False])
    decision = decided(
        replace(data, y=data.y + 0.12 * data.X[:, 3]), select=Fixed(tuple(chosen.tolist()))
    )
    predictive = decision.findings.predictive
    lost = np.log(
        predictive.probability(chosen) / predictive.probability(np.array([True, True, False, True]))
    )
    assert 0.0 < lost < 1.0
    assert role_of(decision, "noise0").role is Role.adds_nothing


def test_never_challenged_is_invariance_of_the_feature_given_the_others(plain: Decision) -> None:
    """By hand: the feature as the outcome of the other selected ones."""
    assert [role_of(plain, name).never_challenged for name in ("a", "b", "effect")] == [
        False,
        True,
        None,
    ]
    data = made()
    turned = replace(data, X=data.X[:, [0]], y=data.X[:, 1], feature_names=("a",), outcome_name="b")
    assert Judge(LinearGaussian().bind(turned)).compatible(np.array([[True]]))[0]
    moved = replace(
        data, X=data.X + np.array([0, 1, 0, 0]) * (data.environment_index == 2)[:, None]
    )
    assert role_of(decided(moved), "b").never_challenged is False


def test_challenges_of_features_alone_of_several_columns_and_from_moments() -> None:
    data = made()
    tolerance = Tolerance()
    alone = np.array([False, True, False, False])
    both = np.array([True, True, False])
    grouped = replace(
        data,
        X=np.ascontiguousarray(data.X[:, [0, 1, 3, 2]]),
        feature_names=("a", "pair", "effect"),
        grouping=Features.of(("a", "b", "noise0", "effect"), {"pair": ("b", "noise0")}),
    )
    for bind in (
        lambda d: LinearGaussian().bind(d),
        lambda d: LinearGaussian().bind(Moments.from_data(d)),
    ):
        assert never_challenged(bind(data), alone, 1, tolerance) is True
        assert never_challenged(bind(data), ~alone, 0, tolerance) is False
        assert never_challenged(bind(grouped), both, 1, tolerance) is True
        assert never_challenged(bind(grouped), both, 0, tolerance) is False
    # Between the usual and the weak level a feature counts as moved.
    between = Tolerance(level=0.9999999, weak_level=1e-6)
    assert never_challenged(LinearGaussian().bind(data), alone, 1, between) is False
    constant = data.X.copy()
    constant[data.environment_index == 1, 1] = 0.5
    assert (
        never_challenged(LinearGaussian().bind(replace(data, X=constant)), alone, 1, tolerance)
        is False
    )


def test_hundreds_of_features_are_cut() -> None:
    decision = decided(made(n_noise=300, n=80), prior=UniformPrior(max_size=1))
    others = decision.sections[-1]
    assert len(others.facts) == 20
    assert f"{303 - len(decision.selected) - 20} more" in others.notes[0]
    assert len(decision.to_plain()["features"]) == 303
    for j in (1, 255, 256, 302):
        evidence = decision.findings.judge.evidence(
            (decision.mask | (np.arange(303) == j))[None]
        ).one()
        feature = role_of(decision, decision.findings.posterior.feature_names[j])
        assert feature.p_invariant == pytest.approx(evidence.p_invariant)
        assert feature.r2_change == pytest.approx(evidence.r2 - decision.evidence.r2, abs=1e-12)


def test_where_the_mean_alone_must_be_the_same_variances_do_not_count() -> None:
    model = BIP(LinearGaussian(invariance="mean"), progress=False).fit(unequal_noise())
    assert model.selected_features_ == ("x0", "x1")
    np.testing.assert_allclose(model.coef_[:2], model.decision_.coefficients().estimate[:2])
    assert "tau" not in str(model.summary())
    rng = np.random.default_rng(4)
    X = rng.normal(size=(160, 3))
    place = np.repeat(range(4), 40)
    y = X[:, 0] + 0.3 * X[:, 1] + np.array([0.1, 1.0, 3.0, 0.1])[place] * rng.normal(size=160)
    features = (
        BIP("linear_gaussian_mean", progress=False).fit(X, y, environments=place).decision_.features
    )
    # Rows of quiet environments weigh more in the likelihood, and as much as others in R².
    assert [(each.name, each.role, each.r2_change > 0.0) for each in features[:2]] == [
        ("x0", Role.kept, False),
        ("x1", Role.kept, True),
    ]


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_separation_is_heard() -> None:
    X, y, environment = HARD["separated"](*plain_table(False))
    with pytest.warns(ApproximationWarning, match="'y'"):
        model = BIP(Logistic(), select="mode", progress=False).fit(X, y, environments=environment)
    assert "caution" in dict(model.decision_.sections[0].facts)


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
            np.testing.assert_allclose(
                table.loc[label, ["estimate", "lower", "upper"]].to_numpy(dtype=float),
                expected,
                rtol=1e-8,
            )
    with pytest.raises(ValueError, match=r"coverage=1\.5"):
        decision.coefficients(1.5)
    assert decided(data, family=UnitNoise()).coefficients()[["lower", "upper"]].isna().all().all()


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


# ---------------------------------------------------------------- text and HTML


def test_the_summary_is_the_decision_and_then_the_posterior() -> None:
    for select, after in (
        ("predictive", "\n\nThe paper's posterior, by invariance alone"),
        ("mode", ""),
    ):
        model = BIP(select=select).fit(made())
        summary = model.summary(top=3)
        assert str(summary) == repr(summary)
        # How many subsets there are is said once, by the verdict.
        ranked = str(model.decision_.posterior.summary(3)).splitlines()
        told = "\n".join(line for line in ranked if not line.startswith("  subsets "))
        assert str(summary).startswith(f"{model.decision_}\n\n{told}{after}")
        effects = next(
            section for section in model.decision_.sections if section.title == "Effects"
        )
        told = str(summary).replace(as_text([effects]), "")
        counts = [
            text.count("16;") + text.count("of 16 ")
            for text in (told, str(model.decision_.verdict))
        ]
        assert counts == [1, 1]
        assert str(pickle.loads(pickle.dumps(model)).decision_) == str(model.decision_)


def test_the_price_is_told_once_it_was_asked_for() -> None:
    """Printing computes nothing of it."""
    model = BIP().fit(made())
    decision = model.decision_
    str(model.summary())
    facts = dict(decision.sections[0].facts)
    plain = decision.to_plain()
    assert facts["predicts with"] == plain["prediction"]["sentence"] == str(decision.prediction)
    assert ("price" in facts, plain["price"], plain["predicts_with"]) == (
        False,
        None,
        decision.prediction.uses,
    )
    price = model.explain_cost()
    decision = model.decision_
    assert dict(decision.sections[0].facts)["price"] == price
    plain = json.loads(json.dumps(decision.to_plain(), allow_nan=False))
    assert (plain["price"]["ratio"], plain["price"]["sentence"]) == (
        model.cost_of_invariance().ratio,
        str(model.cost_of_invariance()),
    )
    assert plain["price_of_a_column"] == decision.findings.score.price
    assert max(map(display_width, str(model.summary()).splitlines())) <= 80


def test_what_is_asked_for_is_said_to_predict() -> None:
    """Also where that is changed after the fit."""
    model = BIP(predict_with="selected").fit(made())
    told = {
        "selected": "the 2 selected, as asked",
        "everything": "all 4 features, as asked",
        "average": "an average of",
    }
    for kind, words in told.items():
        decision = model.set_params(predict_with=kind).decision_
        assert dict(decision.sections[0].facts)["predicts with"].startswith(words)
        assert decision.to_plain()["predicts_with"] == kind
    with pytest.warns(NotInvariantWarning):
        nothing = BIP(predict_with="average", baseline="shared").fit(broken())
    assert nothing.predictive_ is None
    assert "none to average" in dict(nothing.decision_.sections[0].facts)["predicts with"]


@pytest.mark.parametrize("slope", [0.5, 3.0])
def test_the_tolerance_of_a_strong_signal_is_the_one_that_counts(slope: float) -> None:
    """Differences may explain 2% of the residual variance at most: sqrt(0.02 (1 − R²)/R²) of the
    coefficients."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 1))
    place = np.repeat(np.arange(3), 300)
    data = MultiEnvironmentData.from_arrays(x, slope * x[:, 0] + rng.normal(size=900), place)
    decision = decided(data)
    assert decision.selected == ("x0",)
    expected = (
        np.sqrt(0.02 * (1.0 - decision.evidence.r2) / decision.evidence.r2) if slope > 1.0 else 0.1
    )
    assert decision.effective_tolerance == pytest.approx(expected)
    assert decision.tolerates_less == (slope > 1.0)
    assert (f"rho {expected:.2g} for" in str(decision)) == (slope > 1.0)
    assert decision.to_plain()["effective_tolerance"] == pytest.approx(expected)
    apart = replace(data, y=data.y + 0.08 * slope * x[:, 0] * (place - 1)).choosing([0, 2])
    rejected = decided(apart, select=Fixed((True,)))
    if slope > 1.0:
        assert rejected.evidence.difference < 0.1
        assert not rejected.is_compatible
        assert "is tolerated" in rejected.verdict.sentence


def test_luck_is_no_evidence_of_likeness() -> None:
    """Environments that are more alike than chance: the F statistic is below its 5% point, where
    nothing is known."""
    rng = np.random.default_rng(0)
    x = np.tile(rng.normal(size=30), 3)
    data = MultiEnvironmentData.from_arrays(
        x[:, None], x + 3.0 * np.tile(rng.normal(size=30), 3), np.arange(90) // 30
    )
    decision = decided(data, select=Fixed((True,)))
    assert decision.evidence.p_exact > 0.95
    assert decision.evidence.difference_high > 0.3
    assert decision.verdict.grade.value == "no difference found"
    times = MultiEnvironmentData.from_arrays(
        x[:, None], (x > 0.5) ^ (np.arange(90) % 30 < 9), np.arange(90) // 30
    )
    assert decided(times, family=Logistic(), select=Fixed((True,))).evidence.difference_high > 0.3


def test_estimates_above_the_tolerance_are_not_called_within_it() -> None:
    rng = np.random.default_rng(0)
    place = np.arange(800) // 400
    x = rng.normal(size=800)
    y = np.where(place == 1, 1.25, 1.0) * x + rng.normal(size=800)
    decision = decided(MultiEnvironmentData.from_arrays(x[:, None], y, place))
    assert (decision.is_compatible, decision.verdict.grade.value) == (True, "differ")
    assert decision.evidence.difference > decision.effective_tolerance
    assert "not clearly more than is tolerated" in decision.verdict.sentence


def test_the_closest_subset_is_told_by_differences_where_all_p_values_are_0() -> None:
    rng = np.random.default_rng(0)
    place = np.arange(60_000) // 20_000
    X = rng.normal(size=(60_000, 2))
    y = X @ [3, 1] + 3.0 * X[:, 0] * place + 9.0 * place + 0.01 * rng.normal(size=60_000)
    decision = decided(MultiEnvironmentData.from_arrays(X, y, place), baseline="shared")
    assert decision.survey.p_invariant.max() == 0.0
    known = np.nan_to_num(decision.survey.difference, nan=np.inf)
    closest = decision.findings.posterior.names_of(decision.survey.masks[np.argmin(known)])
    assert f"{{{', '.join(closest)}}} is closest" in decision.verdict.sentence


def test_marginal_likelihoods_are_not_said_to_prefer_small_subsets() -> None:
    small = "prefers small"
    assert small in str(BIP().fit(made()).summary())
    assert small not in str(BIP("bayesian_linear_gaussian").fit(made()).summary())


def test_of_one_environment_nothing_is_called_compatible_or_invariant() -> None:
    text = str(BIP().fit(made(n_environments=1)).summary())
    assert "16 compatible" not in text
    assert "subsets are invariant" not in text


def test_what_a_strict_level_accepts_is_no_difference_found() -> None:
    usual = decided(
        made(seed=109, n=30),
        select=Fixed((True, True, False, False)),
        tolerance=Tolerance.strict(0.001),
    )
    assert 0.001 < usual.evidence.p_exact < 0.02
    assert usual.verdict.grade.value == "no difference found"


def test_no_difference_is_claimed_where_none_is_significant() -> None:
    """The selection has a p-value below the level, which others reach, and above the one that
    rejects."""
    rule = Fixed((True, True, False, False))
    decision = decided(made(seed=5, n=40), select=rule, tolerance=Tolerance(level=0.9))
    assert (decision.is_compatible, decision.invariant, decision.worst) == (False, False, None)
    assert decision.evidence.p_exact > 0.02
    assert decision.verdict.grade.value == "no difference found"


def test_long_selections_are_not_repeated_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for the price of invariance, nor without each environment, unless somebody asks for
    these."""
    monkeypatch.setattr("invariance.decisions.pipeline._CHEAP_STEPS", 1)
    model = BIP().fit(make_example())
    assert "was not estimated, because that repeats the selection" in model.explain_cost()
    assert not model.diagnose().refitted
    assert model.diagnose(leave_out=True).refitted
    assert str(model.cost_of_invariance()) == model.explain_cost()
