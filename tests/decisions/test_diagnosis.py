"""Diagnoses: which environment is named, what a fit without it says, what would help, and how it is
told."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from test_environments import (
    SAME,
    SCATTER,
    STEEP,
    counts,
    data_of,
    several_sites,
    shifted,
    times,
    unequal_noise,
)

from invariance import (
    BIP,
    BIPSurvival,
    LinearGaussian,
    Logistic,
    Moments,
    MultiEnvironmentData,
    NegativeBinomial,
    Tempering,
    Tolerance,
)
from invariance.decisions.decision import Grade
from invariance.decisions.diagnosis import (
    Refit,
    WithoutEnvironment,
    sites_of,
)
from invariance.exceptions import FileError, NotInvariantWarning, SettingError
from invariance.models.base import IN_MEAN, VARIANCE
from invariance.posterior.summary import format_small_p_value

PARTS = (*IN_MEAN, VARIANCE)
pytestmark = [
    pytest.mark.filterwarnings("ignore::invariance.exceptions.InvarianceWarning"),
    pytest.mark.usefixtures("brief"),
]


@cache
def unequal(by: float = 0.0) -> BIP:
    return BIP(LinearGaussian(invariance="mean"), baseline="shared", progress=False).fit(
        unequal_noise(by)
    )


# {case: (fit, subset, named, worst part, parts)}
NAMED = {
    "none": (
        lambda: BIP(tolerance=Tolerance.strict(0.01)).fit(data_of(seed=1)),
        None,
        None,
        None,
        PARTS,
    ),
    "intercept": (
        lambda: BIP(baseline="shared").fit(data_of("intercept")),
        ["a", "b"],
        "east",
        "intercept",
        PARTS,
    ),
    "slopes": (lambda: BIP().fit(data_of("slopes")), ["a", "b"], "east", "slopes", PARTS),
    "variance": (
        lambda: BIP(baseline="shared").fit(data_of("variance")),
        ["a", "b"],
        "east",
        "variance",
        PARTS,
    ),
    "moments": (
        lambda: BIP(baseline="shared").fit(Moments.from_data(data_of("intercept"))),
        None,
        "east",
        "intercept",
        PARTS,
    ),
    "two": (
        lambda: BIP().fit(data_of("intercept", sizes=(50, 50, 50)).choosing(["north", "east"])),
        ["a", "b"],
        None,
        "intercept",
        PARTS,
    ),
    "the mean, alike": (unequal, None, None, None, IN_MEAN),
    "the mean": (lambda: unequal(3.0), ["x0", "x1"], "site 3", "intercept", IN_MEAN),
    "classes": (
        lambda: BIP(Logistic(), baseline="shared", progress=False).fit(
            *shifted(False)[:2], environments=shifted(False)[2]
        ),
        ["x0", "x1"],
        2,
        "intercept",
        IN_MEAN,
    ),
    "counts": (
        lambda: BIP(NegativeBinomial(), baseline="shared", progress=False).fit(
            counts(SCATTER, 0.0 * SAME)
        ),
        [],
        "c",
        "dispersion",
        (*IN_MEAN, "dispersion"),
    ),
    "times": (
        lambda: BIPSurvival(baseline="shared", progress=False).fit(times(STEEP, SAME)),
        ["x0"],
        "c",
        "baseline",
        (*IN_MEAN, "baseline"),
    ),
}


@pytest.mark.parametrize(("fit", "subset", "named", "part", "parts"), NAMED.values(), ids=NAMED)
def test_what_is_named(
    fit: Any, subset: Any, named: Any, part: Any, parts: tuple[str, ...]
) -> None:
    diagnosis = fit().diagnose(subset, leave_out="auto" if subset is None else False)
    assert diagnosis.alarm == (part is not None)
    assert diagnosis.named == named
    assert diagnosis.worst is not None
    assert part in (None, diagnosis.worst.part)
    assert diagnosis.parts == parts
    assert (diagnosis.left_out == ()) == (diagnosis.n_environments == 2)
    plain = json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    assert plain["named"] == (None if named is None else str(named))
    assert list(plain["environments"][0]["against_the_rest"]["parts"]) == list(parts)
    if not diagnosis.subset:
        assert diagnosis.whole.parts["slopes"].p_value is None
    lines = str(diagnosis).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(diagnosis.plot(Figure().add_subplot()).patches) == diagnosis.n_environments * len(
        parts
    )
    assert not any("tau" in line for line in lines) or VARIANCE in parts


@pytest.fixture(scope="module")
def broken() -> BIP:
    with pytest.warns(NotInvariantWarning):
        return BIP(baseline="shared").fit(data_of("intercept", sizes=(80, 60, 70, 90, 60, 50)))


def test_where_nothing_is_compatible_the_environment_is_named_without_which_something_is(
    broken: BIP,
) -> None:
    assert broken.predictive_ is None
    diagnosis = broken.diagnose()
    assert diagnosis.nothing_compatible
    assert diagnosis.alarm
    assert diagnosis.named == "east"
    freed = diagnosis.freed_by
    assert freed is not None
    assert freed.refit is not None
    assert freed.refit.best == ("a", "b")
    assert freed.refit.best_r2 > 0.5
    others = [left.refit.best for left in diagnosis.left_out if left.environment != "east"]
    assert others == [None] * 5
    assert all(told in str(diagnosis) for told in ("'east'", "{a, b}", "0.02"))


def test_a_fit_without_an_environment_is_the_fit_to_the_others(broken: BIP) -> None:
    diagnosis = broken.diagnose()
    others = [label for label in broken.environments_ if label != "east"]
    fitted = BIP().fit(data_of("intercept", sizes=(80, 60, 70, 90, 60, 50)).choosing(others))
    left = diagnosis.left_out[2]
    assert left.environment == "east"
    assert left.refit is not None
    assert left.refit.selected == fitted.selected_features_
    np.testing.assert_allclose(left.refit.inclusion, fitted.posterior_.inclusion)
    assert fitted.predictive_ is not None
    np.testing.assert_allclose(left.refit.predictive_inclusion, fitted.predictive_.inclusion)
    change = diagnosis.influence(predictive=False)
    assert list(change.index) == list(broken.environments_)
    assert list(change.columns) == ["a", "b", "c"]
    np.testing.assert_allclose(
        change.loc["east"], fitted.posterior_.inclusion - broken.posterior_.inclusion, atol=1e-12
    )
    assert diagnosis.influence().isna().all(axis=None)
    evidence = fitted.posterior_.evidence(diagnosis.subset)
    assert left.p_invariant == pytest.approx(evidence.p_invariant)
    assert left.r2 == pytest.approx(evidence.r2)


def test_an_environment_that_alone_unmasks_a_decoy_is_not_named() -> None:
    """Without it the decoy predicts better, but what is selected with it holds in all
    environments."""
    rng = np.random.default_rng(8)
    n = 150
    labels = np.repeat(["one", "two", "three", "unmasking"], 150)
    a = rng.normal(size=4 * n)
    y = a + rng.normal(size=4 * n)
    decoy = y + 0.3 * rng.normal(size=4 * n)
    decoy[-n:] = rng.normal(3.0, 1.0, n)
    data = MultiEnvironmentData.from_arrays(np.column_stack([a, decoy]), y, labels.tolist())
    diagnosis = BIP().fit(data).diagnose()
    assert diagnosis.subset == ("x0",)
    left = diagnosis.left_out[-1].refit
    assert left is not None
    assert left.best is not None
    assert "x1" in left.best
    assert left.best_r2 > diagnosis.r2 + 0.2
    assert diagnosis.named is None
    assert diagnosis.freed_by is None
    assert [decisive.environment for decisive in diagnosis.decisive] == ["unmasking"]


def test_of_a_given_subset_the_environments_that_rule_out_a_better_one_are_told() -> None:
    """The causes are compatible with all environments, but with rows enough for slight differences
    to be significant: none is decisive for no features at all, though the causes predict better."""
    rng = np.random.default_rng(0)
    place = np.repeat(np.arange(4), 2000)
    x = rng.normal(size=(8000, 1)) + rng.normal(size=4)[place, None]
    y = (1.0 + 0.1 * (place == 3)) * x[:, 0] + rng.normal(size=8000)
    model = BIP(progress=False).fit(x, y, environments=place)
    assert model.selected_features_ == ("x0",)
    diagnosis = model.diagnose([])
    assert [left.refit.best for left in diagnosis.left_out] == [("x0",)] * 4
    assert diagnosis.left_out[3].refit.p_against_best < 0.01 / 4
    assert diagnosis.left_out[3].refit.best_p_with == pytest.approx(model.diagnose().p_invariant)
    assert diagnosis.decisive == ()


def world(kind: str, seed: int) -> MultiEnvironmentData:
    """y = 3a − b + noise, c results from it; the last of 2-6 environments is of this kind."""
    rng = np.random.default_rng([seed, len(kind)])
    n_environments = int(rng.integers(2, 7))
    n = int(rng.choice([30, 100, 400]))
    place = np.repeat(np.arange(n_environments), n)
    last = place == n_environments - 1
    size = rng.choice([0.1, 0.5, 1.5])
    a = rng.normal(size=len(place)) + rng.normal(size=n_environments)[place]
    b = rng.normal(size=len(place))
    slopes = 1.0 + (
        0.1 * rng.normal(size=n_environments)[place]
        if kind == "jitter"
        else size * (kind == "slope") * last
    )
    noise = (1.0 + size * last * (kind == "spread")) * rng.normal(size=len(place))
    y = 3.0 * slopes * a - b + size * last * (kind == "mean") + noise
    c = (
        rng.uniform(0.5, 1.5, n_environments)[place] * y
        + rng.normal(size=n_environments)[place]
        + rng.normal(size=len(y))
    )
    labels = [f"site {e}" for e in place]
    return MultiEnvironmentData.from_arrays(
        np.column_stack([a, b, c]), y, labels, feature_names=list("abc")
    )


@pytest.mark.parametrize("kind", ["clean", "slope", "jitter", "spread", "mean"])
def test_no_diagnosis_contradicts_the_verdict(kind: str) -> None:
    for seed in range(7):
        model = BIP(progress=False).fit(world(kind, seed))
        verdict = model.decision_.verdict
        diagnosis = model.diagnose()
        assert diagnosis.grade is verdict.grade
        if verdict.grade in (Grade.alike, Grade.no_difference):
            assert not diagnosis.alarm
            assert diagnosis.named is None
        if verdict.grade is Grade.no_difference:
            assert diagnosis.unlike == ()
        if verdict.grade is Grade.but_for:
            assert str(diagnosis.named) == verdict.environment
            assert format_small_p_value(model.decision_.worst.p_value) in verdict.sentence
            assert (
                "not clearly more than is tolerated" in verdict.sentence
            ) is model.decision_.is_compatible
        if diagnosis.unlike and diagnosis.n_environments > 2:
            assert verdict.environment == str(diagnosis.worst.environment)
            assert verdict.environment in verdict.sentence
            assert verdict.environment in " ".join(next(iter(diagnosis.sections)).sentences)


def told(rogue: float, **settings: Any) -> tuple[BIP, str]:
    """Of six environments the last has a slope of its own."""
    rng = np.random.default_rng(0)
    place = np.repeat(np.arange(6), 500)
    x = rng.normal(size=3000)
    y = np.where(place == 5, rogue, 1.0) * x + rng.normal(size=3000)
    model = BIP(progress=False, random_state=0, **settings).fit(x[:, None], y, environments=place)
    return model, " ".join(next(iter(model.diagnose(["x0"]).sections)).sentences)


def test_where_one_environment_is_unlike_the_others_are_not() -> None:
    """Against a rest that holds the one, others are unlike too."""
    model, sentences = told(2.5)
    assert (model.diagnose(["x0"]).grade, len(model.diagnose(["x0"]).unlike)) == (Grade.but_for, 6)
    assert "environment '5' is unlike the others" in sentences
    assert "also below it: 5 more, against rows that include '5'" in sentences
    assert "6 of 6" not in sentences


def test_without_an_environment_a_compatible_subset_does_not_become_compatible() -> None:
    model, sentences = told(1.25)
    diagnosis = model.diagnose(["x0"])
    assert (diagnosis.grade, diagnosis.compatible) == (Grade.but_for, True)
    assert "The subset is compatible" in sentences
    assert "Without '5' no difference is found" in sentences


def test_searches_do_not_rule_out_what_they_did_not_find() -> None:
    model, sentences = told(2.5, engine=Tempering(chains=2, steps=20))
    assert model.predictive_ is None
    assert "No subset of the features was found that is compatible" in sentences
    assert "of all 2 tested, {} is closest" in " ".join(str(model.summary()).split())


def test_where_another_environment_frees_the_best_subset_the_one_of_the_verdict_is_named() -> None:
    """Without 'a' the subset is compatible; without 'c' another is that predicts better."""
    whole = replace(one_short_site(40).diagnose(), nothing_compatible=True)
    refit = Refit(np.zeros(4), np.zeros(4), ("x0",), ("x0",), 0.95, 0.5, 1e-9, 1e-9)
    left = (
        WithoutEnvironment("a", 0.5, 0.5, 0.1, None),
        WithoutEnvironment("c", 0.001, 0.001, 0.1, refit),
    )
    tests = tuple(
        replace(
            test,
            deviation=replace(test.deviation, p_value=1e-9 if test.environment == "a" else 0.5),
        )
        for test in whole.tests
    )
    apart = replace(whole.evidence, p_invariant=0.001, difference_high=0.3)
    found = replace(whole, tests=tests, left_out=left, evidence=apart)
    assert (found.grade, found.named, found.freed_by.environment) == (Grade.but_for, "a", "c")
    broken = replace(found, left_out=(replace(left[0], p_invariant=0.001), left[1]))
    assert (broken.grade, broken.named) == (Grade.differ, "c")


def test_sampled_posteriors_are_not_fitted_again_unless_asked() -> None:
    model = BIP(engine=Tempering(chains=2, steps=20), random_state=0).fit(
        data_of(seed=1, sizes=(40, 40, 40))
    )
    diagnosis = model.diagnose(["a", "b"])
    assert not diagnosis.refitted
    assert all(left.refit is None for left in diagnosis.left_out)
    assert diagnosis.influence().empty
    asked = model.diagnose(["a", "b"], leave_out=True)
    assert [left.refit is not None for left in asked.left_out] == [True] * 3


@pytest.mark.parametrize(
    ("subset", "with_rows"), [([], True), (["only east"], False), (["a", "c"], True)]
)
def test_the_subset_alone_is_judged_as_in_a_whole_fit(subset: list[str], with_rows: bool) -> None:
    table = data_of(seed=1).to_frame()
    table["only east"] = np.where(table["environment"] == "east", table["b"], 4.0)
    data = MultiEnvironmentData.from_table(table, "y", "environment")
    model = BIP().fit(data) if with_rows else BIP().fit(Moments.from_data(data))
    alone, whole = (model.diagnose(subset, leave_out=refit) for refit in (False, True))
    for found, wanted in zip(alone.left_out, whole.left_out, strict=True):
        assert found.environment == wanted.environment
        assert found.refit is None
        assert found.p_invariant == pytest.approx(wanted.p_invariant)
        assert found.r2 == pytest.approx(wanted.r2, abs=1e-12)
    changes = whole.influence(predictive=False)["only east"]
    assert changes.isna().tolist() == [label == "east" for label in data.environments]


def one_short_site(n_short: int = 4) -> BIP:
    """Four features, and fewer rows in 'a' than a fit of all of them needs."""
    rng = np.random.default_rng(0)
    labels = np.repeat(list("abc"), [n_short, 60, 60])
    X = rng.normal(size=(len(labels), 4))
    model = BIP(deviations="free", progress=False)
    return model.fit(X, X.sum(axis=1) + rng.normal(size=len(labels)), environments=labels)


def test_a_subset_that_cannot_be_fitted_everywhere_is_not_judged() -> None:
    model = one_short_site()
    diagnosis = model.diagnose(["x0", "x1", "x2", "x3"])
    assert np.isnan([diagnosis.p_invariant, diagnosis.r2]).all()
    assert "'a'" in diagnosis.unjudged
    assert "nan" not in str(diagnosis)
    assert diagnosis.to_dict()["unjudged"] == diagnosis.unjudged
    assert model.diagnose(["x0", "x1"]).unjudged == ""
    assert model.diagnose().tolerance.level == model.predictive_.judge.tolerance.level == 0.2


@pytest.mark.parametrize(("leave_out", "with_rows"), [(False, True), (True, False)])
def test_an_environment_without_which_nothing_can_be_fitted(
    leave_out: bool, with_rows: bool
) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(list("abc"), 30)
    x = np.where(labels == "a", rng.normal(size=90), 0.0)[:, None]
    data = MultiEnvironmentData.from_arrays(x, x[:, 0] + rng.normal(size=90), labels.tolist())
    model = BIP(progress=False)
    model = model.fit(data) if with_rows else model.fit(Moments.from_data(data))
    diagnosis = model.diagnose(leave_out=leave_out)
    first, *others = diagnosis.left_out
    assert np.isnan([first.p_invariant, first.r2]).all()
    assert first.refit is None
    assert np.isfinite([left.r2 for left in others]).all()
    assert "nan" not in str(diagnosis)


@pytest.mark.parametrize("nothing_compatible", [True, False])
def test_an_environment_like_the_others_is_neither_named_nor_decisive(
    nothing_compatible: bool,
) -> None:
    whole = replace(one_short_site(40).diagnose(), nothing_compatible=nothing_compatible)

    def with_p(p_against_best: float, p_with: float = 0.01) -> tuple:
        refit = Refit(np.zeros(4), np.zeros(4), ("x0",), ("x0",), 0.95, 0.5, p_against_best, p_with)
        diagnosis = replace(whole, left_out=(WithoutEnvironment("a", 0.5, 0.5, 0.1, refit),))
        return diagnosis.freed_by is not None, len(diagnosis.decisive)

    assert with_p(0.01 / 3 * 1.01) == (False, 0)
    assert with_p(0.01 / 3 * 0.99) == ((True, 0) if nothing_compatible else (False, 1))
    # A subset that is compatible with all environments has none that speaks against it.
    assert with_p(0.01 / 3 * 0.99, p_with=0.3) == (False, 0)


def test_what_small_environments_cost() -> None:
    rng = np.random.default_rng(3)
    sizes = {"large": 60, "other": 40, "small": 9, "tiny": 5}
    labels = np.repeat(list(sizes), list(sizes.values()))
    X = rng.normal(size=(len(labels), 8))
    data = MultiEnvironmentData.from_arrays(
        X, X[:, 0] + rng.normal(size=len(labels)), labels.tolist()
    )
    diagnosis = BIP(deviations="free").fit(data).diagnose(leave_out=False)
    sites = diagnosis.sites
    assert (sites.largest, sites.enough_rows) == (3, 40)
    assert sites.without == {"large": 3, "other": 3, "small": 3, "tiny": 7}
    assert "min_rows=40" in str(diagnosis)
    kept = MultiEnvironmentData.from_table(
        data.to_frame(), "y", "environment", min_rows=sites.enough_rows
    )
    assert Moments.from_data(kept).largest_size == 8
    alone = MultiEnvironmentData.from_arrays(
        X[:65], X[:65, 0], np.repeat(list("ab"), [5, 60]).tolist()
    )
    assert sites_of(Moments.from_data(alone)).enough_rows is None


def test_what_cannot_be_diagnosed(tmp_path: Path) -> None:
    X, y, _ = several_sites()
    with pytest.raises(SettingError, match="one environment"):
        BIP().fit(X, y).diagnose()
    fitted = BIP().fit(data_of(seed=1))
    with pytest.raises(SettingError, match="leave_out='no'"):
        fitted.diagnose(leave_out="no")
    with pytest.raises(FileError, match="nowhere"):
        fitted.diagnose(leave_out=False).to_json(tmp_path / "nowhere" / "d.json")


def test_html_and_json_hold_what_the_text_says(tmp_path: Path) -> None:
    data = replace(data_of("intercept"), environments=("north", "south", "<east>", "west"))
    diagnosis = BIP(baseline="shared").fit(data).diagnose()
    shown = diagnosis._repr_html_()
    assert "&lt;east&gt;" in shown
    assert "<east>" not in shown
    diagnosis.to_json(tmp_path / "diagnosis.json")
    saved = json.loads(
        (tmp_path / "diagnosis.json").read_text(encoding="utf-8"), parse_constant=pytest.fail
    )
    assert (saved["alarm"], saved["named"], saved["nothing_compatible"]) == (True, "<east>", True)
    tested = {
        row["environment"]: row["against_the_rest"]["p_value"] for row in saved["environments"]
    }
    assert min(tested, key=lambda label: tested[label]) == "<east>"
    assert saved["predictive_inclusion"] == [None] * 3
    assert [row["environment"] for row in saved["left_out"]] == list(tested)
