"""Each environment against the rest under heavy tails: permutations beside plain refits, and what
they decide."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import f, f_oneway

from invariance import BIP, Additive, LinearGaussian, Moments, MultiEnvironmentData, Tolerance
from invariance.decisions.environments import ALARM, environment_tests, worst_environment
from invariance.decisions.levels import exactly
from invariance.decisions.pipeline import FitSettings
from invariance.exceptions import NotInvariantWarning
from invariance.models import gaussian, permutation
from invariance.models.invariance_test import EACH
from invariance.models.permutation import (
    ENOUGH,
    PERMUTATIONS,
    own_coefficients_p_value,
    permutation_p_value,
    sampled_rows,
    scatter_p_value,
)

ALL = np.ones((1, 3), dtype=bool)
STRICT = Tolerance.strict(0.01)
# With which environments are compared with the rest whatever the other p-values are.
ASKED = Tolerance(level=1e-300, weak_level=1e-300)


def heavy(
    rogue: float = 0.0,
    seed: int | list[int] = 0,
    normal: bool = False,
    n: int = 20,
    n_environments: int = 40,
) -> MultiEnvironmentData:
    """Three causes in 40 environments, noise lognormal unless `normal`; the first slope is larger
    in the last one."""
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(n_environments), n)
    X = rng.normal(size=(len(site), 3)) + 0.7 * rng.normal(size=(n_environments, 3))[site]
    noise = rng.normal(size=len(site)) if normal else np.exp(rng.normal(size=len(site)))
    y = X @ [1.0, -1.0, 0.5] + rogue * X[:, 0] * (site == site.max()) + noise
    return MultiEnvironmentData.from_arrays(X, y, site)


def rss(X: np.ndarray, y: np.ndarray) -> tuple[float, int]:
    """Of a fit with a constant, and its rank"""
    design = np.column_stack([np.ones(len(X)), X])
    return float(np.sum((y - design @ np.linalg.lstsq(design, y)[0]) ** 2)), int(
        np.linalg.matrix_rank(design)
    )


def smallest_p_value(X: np.ndarray, y: np.ndarray, places: np.ndarray) -> float:
    """Of F tests of each environment against the rest, by refits"""
    labels, (pooled, rank) = np.unique(places), rss(X, y)
    own = [rss(X[places == e], y[places == e]) for e in labels]
    rest = [rss(X[places != e], y[places != e]) for e in labels]
    left = len(y) - sum(ranks for _, ranks in own)
    within = sum(values for values, _ in own) / left
    return min(
        f.sf(
            (pooled - other - mine) / (ranks + others - rank) / within, ranks + others - rank, left
        )
        for (mine, ranks), (other, others) in zip(own, rest, strict=True)
    )


def smallest_of_means(sizes: np.ndarray, places: np.ndarray) -> float:
    """Of F tests of the mean of each environment against the rest"""
    groups = [(sizes[places == e], sizes[places != e]) for e in np.unique(places)]
    return min(f_oneway(*each).pvalue for each in groups)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permutation, "PERMUTATIONS", 120)


@pytest.mark.usefixtures("few")
def test_permuted_residuals_deviate_as_often_as_refits_to_them_say() -> None:
    """Also where a column is constant in an environment, and one is the sum of two others."""
    rng = np.random.default_rng(3)
    places = np.repeat([2, 0, 1, 3], [12, 9, 14, 11])
    X = rng.normal(size=(46, 3))
    X[places == 1, 1] = 0.5
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    y = X[:, 0] + rng.standard_t(3, size=46)
    design = np.column_stack([np.ones(46), X[:, :3]])
    fitted = design @ np.linalg.lstsq(design, y)[0]
    order = np.argsort(np.abs(y - fitted))
    drawn = np.concatenate(
        [permutation._permutations(46, first, min(50, 120 - first)) for first in (0, 50, 100)]
    )
    assert len(np.unique(drawn, axis=0)) == 120
    values = np.empty(120)
    for b, places_of in enumerate(drawn):
        values[b] = smallest_p_value(
            X[order], fitted[order] + (y - fitted)[order][places_of], places[order]
        )
    for smallest in (
        np.sort(values)[4] * 1.001,
        np.sort(values)[0] * 0.5,
        np.sort(values)[0] * 1.001,
    ):
        reached = int((values <= smallest).sum())
        assert permutation_p_value(X, y, places, smallest) == (
            (reached + 1) / 121 if reached else 0.0
        )
    smallest = np.median(values)
    taken = int(np.flatnonzero(np.cumsum(values <= smallest) == ENOUGH)[0]) + 1
    assert permutation_p_value(X, y, places, smallest) == ENOUGH / taken


@pytest.mark.usefixtures("few")
def test_permuted_sizes_deviate_as_often_as_f_tests_of_them_say() -> None:
    rng = np.random.default_rng(5)
    places = np.repeat([0, 1, 3], [3, 20, 23])
    sizes = np.abs(rng.standard_t(3, size=46))
    order = np.argsort(sizes)
    drawn = permutation._permutations(46, 0, 50)
    values = [smallest_of_means(sizes[order][places_of], places[order]) for places_of in drawn]
    smallest = np.median(values) * (1.0 + 1e-9)  # two permutations have the same
    taken = int(np.flatnonzero(np.cumsum(values <= smallest) == ENOUGH)[0]) + 1
    assert scatter_p_value(sizes, places, smallest) == ENOUGH / taken
    rows = rng.permutation(46)
    assert scatter_p_value(sizes[rows], places[rows], smallest) == ENOUGH / taken
    assert scatter_p_value(sizes, places, 1e-300) == 0.0


def smallest_of_own(X: np.ndarray, y: np.ndarray, places: np.ndarray, within: bool) -> float:
    """Of F tests of an own intercept, and of own slopes beyond it, beside one fit to all rows"""
    labels = np.unique(places)
    own = [(places == e)[:, None] for e in labels]
    baselines = np.hstack(own)[:, 1:] if within else np.empty((len(y), 0))
    p_values = []
    for member in own:
        models = [
            np.hstack([X, baselines]),
            np.hstack([X, baselines, member]),
            np.hstack([X, baselines, member, X * member]),
        ]
        fits = [rss(columns, y) for columns in models]
        for (before, rank), (after, more) in pairwise(fits):
            left = len(y) - more
            if more > rank:
                p_values.append(
                    f.sf((before - after) / (more - rank) / (after / left), more - rank, left)
                )
    return min(p_values)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("within", [False, True])
def test_permuted_residuals_give_own_coefficients_as_often_as_refits_say(within: bool) -> None:
    """Also of environments with fewer rows than coefficients."""
    rng = np.random.default_rng(4)
    places = np.repeat([0, 1, 2, 3, 4], [12, 1, 2, 14, 4])
    X = rng.normal(size=(33, 2))
    y = X[:, 0] + rng.standard_t(3, size=33)
    if within:
        for e in range(5):
            X[places == e] -= X[places == e].mean(axis=0)
            y[places == e] -= y[places == e].mean()
    design = np.column_stack([np.ones(33), X])
    fitted = design @ np.linalg.lstsq(design, y)[0]
    order = np.argsort(np.abs(y - fitted))
    drawn = permutation._permutations(33, 0, 50)
    values = [
        smallest_of_own(X[order], (y - fitted)[order][rows], places[order], within)
        for rows in drawn
    ]
    smallest = np.median(values) * (1.0 + 1e-9)
    taken = int(np.flatnonzero(np.cumsum(values <= smallest) == ENOUGH)[0]) + 1
    assert own_coefficients_p_value(X, y, places, smallest, within) == ENOUGH / taken
    assert own_coefficients_p_value(X, y, places, 1e-300, within) == 0.0


@pytest.mark.usefixtures("few")
def test_permuted_scores_are_the_statistic_of_random_deviations() -> None:
    data = heavy(seed=1, n=4, n_environments=8)
    family = LinearGaussian(deviations="random")
    model = family.bind(data)
    design = np.column_stack([np.ones(32), data.X])
    fitted = design @ np.linalg.lstsq(design, data.y)[0]
    left = data.y - fitted
    order = np.argsort(np.abs(left))

    def p_value(y: np.ndarray) -> float:
        rows = replace(data, X=data.X[order], y=y, environment_index=data.environment_index[order])
        return float(family.bind(rows).mean_p_values(ALL, np.zeros(1))[0])

    drawn = permutation._permutations(32, 0, 50)
    p_values = np.array([p_value(fitted[order] + left[order][rows]) for rows in drawn])
    reached = np.flatnonzero(p_values <= model.mean_p_values(ALL, np.zeros(1))[0])
    assert model.permuted_score(ALL[0]) == ENOUGH / (reached[ENOUGH - 1] + 1)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_few_rows_with_heavy_tails_are_no_environment_that_deviates(seed: int) -> None:
    """Environments of four rows have no fits of their own, which F tests of each took."""
    data = heavy(0.0, [seed, 4, 20], n=4, n_environments=20)
    fitted = BIP(progress=False).fit(data)
    alone = environment_tests(fitted.decision_.findings.target.model, fitted.support_)
    alone.__dict__["_chance_of_tails"] = 0.0
    assert worst_environment(alone.each()).p_value < ALARM / 20
    assert fitted.decision_.worst is None
    assert fitted.invariant_


def test_an_environment_of_few_rows_with_other_slopes_is_named() -> None:
    data = heavy(8.0, [0, 4, 20], normal=True, n=4, n_environments=20)
    model = LinearGaussian(deviations="random").bind(data)
    worst = worst_environment(environment_tests(model, ALL[0]).each())
    assert worst.environment == 19
    assert worst.p_value < ALARM / 20


def test_effects_are_the_same_where_tails_alone_deviate() -> None:
    """The score test of effects without baselines rejects these."""
    data = heavy(0.0, [21, 5, 20], n=5, n_environments=20)
    decision = BIP(progress=False).fit(data).decision_
    effects = decision.findings.target.model.at_level("effects")
    assert effects.invariance_test(decision.mask[None], exactly(Tolerance())).mean[0] < 0.02
    assert decision.heterogeneity.same
    assert decision.heterogeneity.p_exact >= 0.02


def test_order_and_units_do_not_count() -> None:
    data = heavy(seed=4)
    rng = np.random.default_rng(1)
    X = data.X
    y = data.y
    places = data.environment_index
    rows = rng.permutation(data.n_rows)
    first = permutation_p_value(X, y, places, 1e-4)
    assert 0.0 < first < 1.0
    assert permutation_p_value(X[rows], y[rows], rng.permutation(40)[places][rows], 1e-4) == first
    assert (
        permutation_p_value(
            X[:, [2, 0, 1]] @ np.diag([3.0, -1.0, 1e6]), 5.0 - 100.0 * y, places, 1e-4
        )
        == first
    )


def test_the_order_of_rows_does_not_count_where_residuals_are_tied() -> None:
    """As with features and outcomes of few values, in which rows are repeated."""
    rng = np.random.default_rng(0)
    places = np.repeat(np.arange(20), 15)
    X = rng.integers(0, 2, size=(300, 2)).astype(float)
    y = np.round(2.0 * X[:, 0] + rng.exponential(size=300) ** 2)
    first = permutation_p_value(X, y, places, 1e-3)
    assert 0.5 < first < 1.0
    for rows in (rng.permutation(300) for _ in range(5)):
        assert permutation_p_value(X[rows], y[rows], places[rows], 1e-3) == first


def test_many_rows_stand_for_all_and_small_environments_stay_whole() -> None:
    places = np.repeat([0, 1, 2], [300_000, 150, 40_000])
    rows = sampled_rows(places)
    assert np.bincount(places[rows]).tolist() == [3333, 150, 3333]
    assert (np.diff(rows) > 0).all()
    assert len(sampled_rows(places[:5000])) == 5000


def test_heavy_tails_are_no_environment_that_deviates() -> None:
    """F tests reject these invariant causes; what is decided, printed and written is one number."""
    model = LinearGaussian().bind(data := heavy(seed=2))
    alone = LinearGaussian().bind(Moments.from_data(data)).invariance_test(ALL, ASKED).each[0]
    test = model.invariance_test(ALL, Tolerance())
    assert alone < 1e-6
    assert test.each[0] > EACH
    assert test.joint[0] > Tolerance().level
    for tolerance in (Tolerance(), STRICT, Tolerance(level=0.9, weak_level=0.9)):
        joint = model.invariance_test(ALL, tolerance).joint
        assert model.compatible(ALL, tolerance)[0] == (joint[0] >= tolerance.level)
    fitted = BIP(LinearGaussian(), progress=False).fit(data)
    assert fitted.support_.all()
    assert fitted.invariant_
    evidence = fitted.decision_.evidence
    assert evidence.p_each == test.each[0]
    table = fitted.posterior_.subsets()
    assert table["p_each"][table["size"] == 3].tolist() == [test.each[0]]
    assert json.loads(fitted.posterior_.to_json())["table_evidence"]["p_each"][-1] == test.each[0]


@pytest.mark.parametrize("seed", [0, 6])
def test_no_environment_is_named_for_its_tails(seed: int) -> None:
    """By F tests, which know of normal noise, one of the invariant environments deviates; a rogue
    one is named."""
    invariant, rogue = (LinearGaussian().bind(heavy(slope, [seed, 20, 40])) for slope in (0.0, 8.0))
    alone = environment_tests(LinearGaussian().bind(Moments.from_data(invariant.data)), ALL[0])
    tested = environment_tests(invariant, ALL[0])
    assert worst_environment(alone.each()).p_value < ALARM / 40
    assert worst_environment(tested.each()).p_value >= ALARM / 40
    assert worst_environment(environment_tests(rogue, ALL[0]).each()).environment == 39
    assert BIP(LinearGaussian(), progress=False).fit(invariant.data).decision_.worst is None


def test_random_deviations_name_no_environment_for_its_tails() -> None:
    family = LinearGaussian(deviations="random")
    for rogue in (0.0, 8.0):
        model = family.bind(heavy(rogue, [0, 15, 20], n=15, n_environments=20))
        tested = environment_tests(model, ALL[0])
        alone = environment_tests(model, ALL[0])
        alone.__dict__["_chance_of_tails"] = 0.0
        assert worst_environment(alone.each()).p_value < ALARM / 20
        worst = worst_environment(tested.each())
        assert worst.environment == 19 if rogue else worst.p_value >= ALARM / 20


@pytest.mark.parametrize("seed", [3, 27])
def test_no_environment_is_named_for_the_size_of_heavy_noise(seed: int) -> None:
    """Levene's test of one environment takes absolute residuals for normal."""
    data = heavy(0.0, [seed, 15, 20], n=15, n_environments=20)
    fitted = BIP(progress=False).fit(data)
    model = fitted.decision_.findings.target.model
    p_values = model.absolute_p_values(fitted.support_)
    assert p_values.min() < ALARM / 20 / 3
    assert fitted.decision_.worst is None
    assert fitted.invariant_


def test_an_environment_with_other_noise_is_named_under_heavy_tails() -> None:
    data = heavy(0.0, [0, 15, 20], n=15, n_environments=20)
    last = data.environment_index == 19
    noise = data.y - data.X @ [1.0, -1.0, 0.5]
    noisy = replace(data, y=data.y + np.where(last, 9.0 * (noise - noise.mean()), 0.0))
    with pytest.warns(NotInvariantWarning):
        worst = BIP(progress=False).fit(noisy).decision_.worst
    assert worst is not None
    assert worst.environment == 19


def test_what_permutations_never_reach_keeps_the_p_value_of_the_f_tests() -> None:
    data = heavy(rogue=8.0, seed=2)
    model = LinearGaussian().bind(data)
    moments = LinearGaussian().bind(Moments.from_data(data))
    each, alone = (bound.invariance_test(ALL, ASKED).each[0] for bound in (model, moments))
    assert each == pytest.approx(alone, rel=1e-6)
    assert each < 1.0 / (PERMUTATIONS + 1)


def test_normal_noise_is_not_permuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian, "permutation_p_value", lambda *_: 1.0)
    data = heavy(rogue=1.2, seed=3, normal=True)
    model = LinearGaussian().bind(data)
    moments = LinearGaussian().bind(Moments.from_data(data))
    each, alone = (bound.invariance_test(ALL, Tolerance()).each[0] for bound in (model, moments))
    assert each == pytest.approx(alone, rel=1e-6)
    assert not model.compatible(ALL, Tolerance())[0]


def test_the_tolerance_counts_among_permutations() -> None:
    """A slope that differs by what is tolerated is compared by its p-value, and not as an exact
    difference."""
    data = heavy(rogue=1.2, seed=7)
    exact, tolerant = (
        LinearGaussian().bind(data).invariance_test(ALL, t).each[0] for t in (STRICT, Tolerance())
    )
    assert exact < tolerant


def test_curves_permute_too() -> None:
    data = heavy(seed=3, n=30)
    one = Additive(knots=3).bind(data)
    before = replace(data, X=data.X.copy())
    assert one.invariance_test(ALL, Tolerance()).each[0] > EACH
    np.testing.assert_array_equal(data.X, before.X)


def test_moments_alone_say_that_tails_are_unchecked() -> None:
    data = heavy(seed=3)
    settings = FitSettings.of(BIP(LinearGaussian()), np.random.default_rng(0))
    noted = [settings.target(each).notes for each in (data, Moments.from_data(data))]
    assert [
        any("tails are unchecked without rows" in note for note in notes) for notes in noted
    ] == [False, True]
