"""What a verdict says of effects, of baselines, and of a new environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from invariance import BIP, BIPClassifier, BIPSurvival, InclusionPrior, MultiEnvironmentData
from invariance.decisions.decision import p_values_in_words
from invariance.decisions.levels import Grade, level_in_words
from invariance.exceptions import Message, NotInvariantWarning
from invariance.kinds import CLASS, NUMBER
from invariance.models.base import Level
from shifted_sites import fitted, own_baselines


@pytest.mark.parametrize("sd", [0.0, 0.25, 1.0])
def test_p_values_of_a_decision_say_what_they_are_of(sd: float) -> None:
    """Those of the verdict are of effects alone, those of the selection of all that has to be the
    same."""
    decision = fitted(own_baselines(n=120, sd=sd)).decision_
    facts = dict(decision.sections[0].facts)
    together = p_values_in_words(decision.evidence)
    assert together != p_values_in_words(decision.heterogeneity)
    assert p_values_in_words(decision.heterogeneity) in facts["verdict"]
    compared = (
        "effects and noise"
        if decision.findings.level is Level.effects
        else "effects, baselines and noise"
    )
    assert f"{together} ({compared})" in facts["selected"]


def test_baselines_that_differ_at_the_full_level_are_to_be_estimated_anew() -> None:
    decision = fitted(own_baselines(n=120, sd=0.25)).decision_
    assert (decision.level, decision.baseline.same, decision.invariant) == ("full", False, False)
    follows = decision.verdict.follows
    assert isinstance(follows, Message)
    assert dict(follows.remedies[0].settings) == {"baseline": "free"}
    assert decision.verdict.baseline.startswith(
        "Tested together with effects, baselines pass at p ≥ 0.2 (p-value 0.250); tested alone, "
        "they differ (p-value 3.2e-05"
    )
    same = fitted(own_baselines(n=120, sd=0.0)).decision_
    assert (same.level, same.baseline.same, same.verdict.follows) == ("full", True, "")


@pytest.mark.filterwarnings("ignore::invariance.exceptions.InvarianceWarning")
def test_a_second_chance_says_what_holds_and_that_baselines_differ_all_the_same() -> None:
    """Together with the effects p ≥ 0.02 is reached, and baselines alone differ at 4e-4."""
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(5), 150)
    X = rng.normal(size=(750, 2)) + np.outer(np.linspace(-1, 1, 5)[site], [1.0, 0.0])
    y = X @ [0.8, -0.9] + 0.25 * np.array([1.2, -1.0, 0.3, -1.1, 0.6])[site]
    y += np.random.default_rng(100).normal(size=750)
    decision = BIP().fit(X, y, environments=site).decision_
    assert (decision.level, decision.accepted.level) == ("full", 0.02)
    assert not decision.baseline.same
    assert "baselines pass at p ≥ 0.02" in decision.verdict.baseline
    assert "tested alone, they differ" in decision.verdict.baseline
    assert dict(decision.verdict.follows.remedies[0].settings) == {"baseline": "free"}


@pytest.mark.filterwarnings("ignore::invariance.exceptions.InvarianceWarning")
def test_where_baselines_differ_no_sentence_says_that_environments_hardly_do() -> None:
    """All subsets are compatible with equal effects; of no features there are none to compare."""
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(5), 100)
    X = rng.normal(size=(500, 2))
    shift = np.array([0.0, 3.0, 1.0, 4.0, 2.0])[site]
    for slope, title in ((1.0, "baselines differ"), (0.0, "no effects to compare")):
        y = slope * X[:, 0] + shift + rng.normal(size=500)
        decision = BIP(baseline="free").fit(X, y, environments=site).decision_
        assert decision.compatible.n == 4
        assert "compatible with equal effects" in decision.verdict.context
        assert "differ too little" not in decision.verdict.sentence
        assert title in decision.in_short


@pytest.mark.filterwarnings("ignore::invariance.exceptions.InvarianceWarning")
def test_a_title_names_the_environment_whose_effects_deviate() -> None:
    rng = np.random.default_rng(3)
    site = np.repeat(np.arange(6), 200)
    X = rng.normal(size=(1200, 1))
    slope = np.where(site == 2, 1.35, 1.0)
    y = slope * X[:, 0] + np.array([0.0, 3.0, 1.0, 4.0, 2.0, 5.0])[site] + rng.normal(size=1200)
    decision = BIP(baseline="free").fit(X, y, environments=site).decision_
    assert (decision.level, decision.worst.part) == ("effects", "slopes")
    assert "the same in all environments but '2'" in decision.verdict.effects
    assert decision.in_short.startswith("effects are the same but for '2'")


@pytest.mark.filterwarnings("ignore::invariance.exceptions.InvarianceWarning")
@pytest.mark.parametrize("kind", ["number", "class", "count", "time"])
def test_the_features_that_environments_move_are_named_for_every_kind(kind: str) -> None:
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(6), 200)
    X = rng.normal(size=(1200, 3))
    X[:, 0] += np.linspace(-1, 1, 6)[site]
    mean = 1.2 * rng.normal(size=6)[site] + X @ [0.8, -0.9, 0.0]
    made: dict[str, Any] = {
        "number": lambda: (BIP(), mean + rng.normal(size=1200), {}),
        "class": lambda: (BIPClassifier(), rng.random(1200) < 1 / (1 + np.exp(-mean)), {}),
        "count": lambda: (BIP(), rng.poisson(np.exp(mean / 2)), {}),
        "time": lambda: (BIPSurvival(), rng.exponential(np.exp(-mean)), {"event": np.ones(1200)}),
    }
    estimator, y, more = made[kind]()
    decision = estimator.fit(X, y, environments=site, **more).decision_
    assert (decision.level, decision.selected) == ("effects", ("x0", "x1"))
    assert decision.shifted == ("x0",)
    assert decision.verdict.follows.endswith("here they move {x0}.")
    assert [f.never_challenged for f in decision.features if f.selected] == [False, True]


@pytest.mark.filterwarnings("ignore::invariance.exceptions.InvarianceWarning")
def test_what_environments_move_is_not_claimed_of_too_few_rows() -> None:
    """Of environments with two rows; classes may be all the same in one."""
    rng = np.random.default_rng(1)
    for n, known in ((2, None), (3, True)):
        site = np.repeat(np.arange(40), n)
        X = rng.normal(size=(40 * n, 2))
        y = X[:, 0] + rng.normal(size=40 * n)
        estimator, y = (BIP(), y) if n == 2 else (BIPClassifier(), y > 0.0)
        decision = estimator.fit(X, y, environments=site).decision_
        assert decision.selected == ("x0",)
        assert [f.never_challenged for f in decision.features if f.selected] == [known]
        assert decision.shifted == ()


@pytest.mark.filterwarnings("ignore::invariance.exceptions.InvarianceWarning")
def test_only_models_of_the_noise_find_that_its_spread_differs() -> None:
    """Of an outcome that no feature predicts, in environments that differ."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 2))
    site = np.repeat(np.arange(4), 40)
    classes = BIPClassifier().fit(X, (site > 1).astype(int), environments=site).decision_
    numbers = (
        BIP().fit(X, (1.0 + 3.0 * (site > 1)) * rng.normal(size=160), environments=site).decision_
    )
    assert classes.selected == numbers.selected == ()
    assert "spread" not in classes.verdict.effects
    assert "spread" in numbers.verdict.effects


@pytest.mark.filterwarnings("ignore::invariance.exceptions.InvarianceWarning")
def test_dispersions_that_differ_are_no_difference_of_effects() -> None:
    """Of counts; slopes that differ are found all the same."""
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(6), 200)
    X = rng.normal(size=(1200, 2)) + 0.5 * rng.normal(size=(6, 2))[site]
    scatter = np.array([0.1, 0.1, 0.2, 1.5, 2.0, 3.0])[site]
    found = []
    for slopes in (0.0, 0.3):
        own = 0.5 + slopes * np.array([-1.0, 1.0, 0.0, 0.0, 1.0, -1.0])[site]
        mean = np.exp(1.0 + own * X[:, 0] - 0.4 * X[:, 1] + 0.5 * rng.normal(size=6)[site])
        y = rng.poisson(rng.gamma(1.0 / scatter, scatter * mean)).astype(float)
        prior = InclusionPrior({"x0": 1, "x1": 1})
        found.append(BIP("negative_binomial", prior=prior).fit(X, y, environments=site).decision_)
    same, apart = found
    assert (same.level, same.heterogeneity.same, apart.heterogeneity.same) == ("none", True, False)
    assert same.heterogeneity.p_exact > 0.05 > apart.heterogeneity.p_exact
    assert "No difference was found" in same.verdict.effects
    assert apart.heterogeneity.low > 0.1


@pytest.mark.filterwarnings("ignore::invariance.exceptions.InvarianceWarning")
def test_a_verdict_does_not_contradict_its_grade() -> None:
    """Nor heterogeneity the verdict: one of many sites has another slope, which all together do not
    show."""
    grades = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        site = np.repeat(np.arange(12), 25)
        x = rng.normal(size=300)
        y = (1.0 - 0.65 * (site == 3)) * x + rng.normal(size=300)
        decision = BIP("linear_gaussian").fit(x[:, None], y, environments=site).decision_
        if decision.level != "full" or not decision.selected:
            continue
        same = decision.verdict.grade in (Grade.alike, Grade.no_difference)
        grades.append(same)
        assert decision.invariant == same == decision.heterogeneity.same
        said = decision.verdict.effects
        assert (
            said.startswith(("No difference was found", "No clear difference was found"))
        ) == same
    assert len(set(grades)) == 2


@pytest.mark.filterwarnings("ignore::invariance.exceptions.InvarianceWarning")
def test_an_interval_for_a_new_environment_that_is_missing_has_a_reason() -> None:
    """An environment whose effect is infinite leaves three."""
    rng = np.random.default_rng(0)
    site = np.repeat(["a", "b", "c", "d"], [150, 150, 150, 12])
    x = rng.normal(size=len(site))
    y = np.where(site == "d", x > 0, rng.random(len(x)) < 1 / (1 + np.exp(-x))).astype(float)
    data = MultiEnvironmentData.from_arrays(x[:, None], y, site)
    decision = BIPClassifier(prior=InclusionPrior({"x0": 1})).fit(data).decision_
    assert np.isnan(decision.effects()["prediction_lower"]).all()
    notes = next(section for section in decision.sections if section.title == "Effects").notes
    assert any("estimates of 4 environments" in note for note in notes)


def test_the_methods_paragraph_says_what_is_the_same() -> None:
    model = fitted(own_baselines())
    assert model.decision_.level == "effects"
    told = model.methods_paragraph()
    assert "when, given z, the coefficients and the variance of the noise are the same" in told
    site = np.repeat(["a", "b", "c", "d"], 100)
    x = np.random.default_rng(0).normal(size=400)
    high = (
        x + np.repeat([-2.0, 0.0, 1.0, 2.0], 100) + np.random.default_rng(1).logistic(size=400) > 0
    )
    with pytest.warns(NotInvariantWarning):
        model = BIPClassifier().fit(
            MultiEnvironmentData.from_arrays(x[:, None], high.astype(float), site)
        )
    assert model.decision_.level == "effects"
    assert "when, given z, the coefficients are the same" in model.methods_paragraph()


def test_a_level_names_the_noise_of_numbers_only() -> None:
    for level in (Level.full, Level.effects):
        assert "noise" in level_in_words(level, NUMBER)
        assert "noise" not in level_in_words(level, CLASS)
    assert level_in_words("none", NUMBER) == "none"


def test_a_difference_whose_interval_excludes_zero_is_stated() -> None:
    """Exact p-values between 0.02 and 0.05 are graded as no difference found."""
    seen = set()
    for seed in range(60):
        decision = fitted(own_baselines(n=60, sd=1.0, seed=seed)).decision_
        found = decision.heterogeneity
        verdict = decision.verdict
        if found.grade is verdict.grade is Grade.no_difference and decision.level == "effects":
            clear = not found.low > 0.0
            seen.add(clear)
            assert verdict.effects.startswith("No difference" if clear else "No clear difference")
            assert ("cannot be excluded" in verdict.effects) == clear
            assert ("no difference found" in decision.in_short) == clear
    assert seen == {True, False}
