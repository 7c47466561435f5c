"""Logistic and Poisson models: agreement with statsmodels, and data on which fits are easily
wrong."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.stats import chi2

from count_twins import counted
from invariance import (
    Logistic,
    MultiEnvironmentData,
    NegativeBinomial,
    PiecewiseExponential,
    Poisson,
)
from invariance.exceptions import use
from invariance.models.counts import overdispersion
from invariance.models.gaussian_fits import row_groups
from invariance.models.invariance_test import Tolerance
from invariance.models.regression import Figures, Regression, RegressionModel, separates
from regression_cases import GUARD, HARD, plain_table, regression_data
from twins import all_masks, walked_log_ratios

BOTH = pytest.mark.parametrize("counts", [False, True], ids=["logistic", "poisson"])


def family(counts: bool, pseudo_rows: float = 1.0) -> Regression:
    return Poisson(pseudo_rows) if counts else Logistic(pseudo_rows)


def bound(counts: bool, pseudo_rows: float = 1.0, **options: int) -> RegressionModel:
    return family(counts, pseudo_rows).bind(regression_data(*plain_table(counts, **options)))


def by_statsmodels(
    counts: bool, data: MultiEnvironmentData, mask: NDArray, extra: NDArray
) -> tuple:
    """log Λ, the pooled log-likelihood and fit; extra (N,): weight of each row's pseudo-data, at
    the pooled mean, or for counts at the pooled fit"""
    design = np.column_stack([np.ones(data.n_rows), data.X[:, mask]])
    kind = sm.families.Poisson() if counts else sm.families.Binomial()

    def fitted(y: NDArray, weight: NDArray, rows: NDArray) -> tuple:
        y = y[rows]
        weight = weight[rows]
        fit = sm.GLM(y / weight, design[rows], family=kind, freq_weights=weight).fit(
            tol=1e-14, maxiter=200
        )
        return fit, value(fit.params, y, weight, rows)

    def value(beta: NDArray, y: NDArray, weight: NDArray, rows: NDArray) -> float:
        eta = design[rows] @ beta
        return y @ eta - weight @ (np.exp(eta) if counts else np.logaddexp(0.0, eta))

    *groups, every = row_groups(data)
    share = GUARD * (extra > 0.0) if counts else extra
    y = data.y + share * data.y.mean()
    weight = 1.0 + share
    fit, pooled = fitted(y, weight, every)
    if counts:
        y = y + extra * weight * np.exp(design @ fit.params)
        weight = (1.0 + extra) * weight
    return (
        value(fit.params, y, weight, every) - sum(fitted(y, weight, rows)[1] for rows in groups),
        pooled,
        fit,
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pseudo_rows", [0.0, 2.5])
@BOTH
def test_agreement_with_statsmodels(counts: bool, pseudo_rows: float) -> None:
    model = bound(counts, pseudo_rows)
    data = model.data
    masks = all_masks(5)[[0, 1, 6, 19, 31]]
    extra = pseudo_rows / data.counts[data.environment_index]
    log_ratios, pooled, fits = zip(
        *(by_statsmodels(counts, data, mask, extra) for mask in masks), strict=True
    )
    np.testing.assert_allclose(model.log_ratio_many(masks), log_ratios, atol=1e-8)
    np.testing.assert_allclose(model.gain_many(masks), np.array(pooled) - pooled[0], atol=1e-8)
    for mask, known in zip(masks, fits, strict=True):
        fit = model.fit(mask)
        errors = model.standard_errors(mask)
        np.testing.assert_allclose([fit.intercept, *fit.coefficients], known.params, atol=1e-6)
        np.testing.assert_allclose(errors.values[-1], known.bse[1:], rtol=1e-5)
        np.testing.assert_allclose(fit.predict(data.X[:, mask]), known.fittedvalues, atol=1e-6)


# ---------------------------------------------------------------- data that are easily wrong


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize(
    "specification",
    [Logistic(0.0), Logistic(), Poisson(0.0), Poisson(), NegativeBinomial()],
    ids=repr,
)
def test_hard_data(specification: Regression, case: str) -> None:
    X, y, environment = HARD[case](*plain_table(not isinstance(specification, Logistic)))
    model = specification.bind(regression_data(X, y, environment))
    masks = all_masks(model.n_features)
    masks = masks[masks.sum(axis=1) <= model.largest_size]
    values = model.log_ratio_many(masks)
    gain = model.gain_many(masks)
    null = model.null_many(masks)
    assert np.isfinite(values).all()
    assert values.max() <= 0.0
    assert np.isfinite(gain).all()
    assert (gain > -1e-6).all()
    assert (null.degrees >= 0.0).all()
    walked = walked_log_ratios(model)[masks @ (1 << np.arange(model.n_features))]
    # The dispersion of a single event is hardly told by the rows: there a walk of negative binomial
    # fits ends earlier.
    hardly_told = case == "one event" and isinstance(specification, NegativeBinomial)
    np.testing.assert_allclose(walked, values, atol=6e-2 if hardly_told else model.walk_error)
    for subset in (masks[0], masks[-1]):
        fit = model.fit(subset)
        assert np.isfinite(fit.predict(X[:, model.features.expand(subset)])).all()
        assert not (model.standard_errors(subset).values <= 0.0).any()


# ---------------------------------------------------------------- pseudo-data, and environments
# against the rest


@pytest.mark.parametrize(
    ("specification", "alpha"), [(Poisson(), 0.0), (NegativeBinomial(), 0.2)], ids=repr
)
def test_steep_rates_are_not_bent_by_pseudo_data(specification: Regression, alpha: float) -> None:
    """Pseudo-data at the pooled mean made −2 log Λ four times and 1.7 times as large as it should
    be."""
    rng = np.random.default_rng(0)
    ratios = []
    site = np.repeat(np.arange(5), 50)
    truth = np.ones((1, 1), dtype=bool)
    for _ in range(30):
        x = rng.normal(size=250) + 0.7 * rng.normal(size=5)[site]
        scatter = rng.gamma(1.0 / alpha, alpha, 250) if alpha else 1.0
        data = regression_data(x[:, None], rng.poisson(10.0 * np.exp(1.5 * x) * scatter), site)
        model = specification.bind(data, 1)
        ratios.append(model.log_ratio_many(truth)[0] / model.null_many(truth).expected[0])
    assert 0.75 < np.mean(ratios) < 1.25


AGAINST = {
    "logistic": (Logistic, 0),
    "poisson": (Poisson, 1),
    "negative binomial": (NegativeBinomial, 1),
    "survival": (partial(PiecewiseExponential, 3), 2),
}


@pytest.mark.parametrize("name", AGAINST)
def test_an_environment_against_the_rest(name: str) -> None:
    """The same fits of two groups of rows; with pseudo-data, which each environment keeps, no
    larger than log Λ."""
    make, kind = AGAINST[name]
    X, y, environment = plain_table(bool(kind))
    X[environment == 1, 2] = 1.0
    more = {"event": (np.arange(len(y)) % 3 > 0).astype(float)} if kind == 2 else {}
    data = replace(regression_data(X, y + (kind == 2) * 0.5, environment), **more)
    masks = all_masks(5)[[0, 3, 21, 31]]
    pairs = list(make(pseudo_rows=0.0).bind(data, 1).against_the_rest(masks))
    assert len(pairs) == 3
    for e, (log_ratio, null) in enumerate(pairs):
        groups = replace(
            data, environment_index=(environment == e).astype(np.intp), environments=(0, 1)
        )
        expected = make(pseudo_rows=0.0).bind(groups, 1)
        np.testing.assert_allclose(log_ratio, expected.log_ratio_many(masks), atol=1e-3)
        np.testing.assert_array_equal(null.degrees, expected.null_many(masks).degrees)
        np.testing.assert_allclose(null.expected, expected.null_many(masks).expected)
    guarded = make().bind(data, 1)
    for log_ratio, _ in guarded.against_the_rest(masks):
        assert (log_ratio >= guarded.log_ratio_many(masks) - 1e-3).all()
        assert (log_ratio <= 0.0).all()


@BOTH
def test_without_variances_the_level_is_that_of_both_parts(counts: bool) -> None:
    """What is judged by coefficients alone is rejected at the p-value 0.05, as where variances are
    the same."""
    model = bound(counts)
    masks = all_masks(5)
    exact, usual = (
        model.invariance_test(masks, Tolerance(rho=0.0, tau=tau, level=0.01)) for tau in (0.0, 0.1)
    )
    p_values = model.invariance_tails(masks, model.log_ratio_many(masks))
    np.testing.assert_allclose(np.fmin(p_values, exact.each / 0.05), exact.joint, rtol=1e-9)
    np.testing.assert_allclose(
        np.fmin(p_values * (1.0 - np.log(p_values)), usual.each / 0.05), usual.joint
    )


# ---------------------------------------------------------------- what searches and decisions ask


@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance.strict()], ids=["usual", "strict"])
@BOTH
def test_screen_lets_all_compatible_subsets_pass(counts: bool, tolerance: Tolerance) -> None:
    model = bound(counts, n=150, p=6)
    free = np.array([0, 1, 3, 4, 5])
    forced = np.array([2])
    masks = np.zeros((32, 6), dtype=bool)
    masks[:, free] = all_masks(5)
    masks[:, forced] = True
    screen = model.subset_walk(free, forced, tolerance)
    least = np.full(7, -np.inf)
    gain = screen.dense(np.empty(0, np.int64), np.ones(6, dtype=bool), least).gain
    assert len(model.walked) == 1
    accepted = model.invariance_test(masks, tolerance).joint >= tolerance.level
    assert 0 < accepted.sum() < 32
    np.testing.assert_array_equal(~np.isnan(gain), accepted)
    np.testing.assert_allclose(gain[accepted], model.gain_many(masks)[accepted], atol=1e-3)
    members = np.empty((32, 5), np.int32)
    listed = screen.listed(np.empty(0, np.int64), 5, np.ones(6, dtype=bool), members, least).gain
    codes = [sum(1 << j for j in row if j >= 0) for row in members.tolist()]
    np.testing.assert_allclose(listed, gain[codes], atol=1e-3)
    least[masks.sum(axis=1).max()] = np.inf
    light = screen.dense(np.empty(0, np.int64), np.ones(6, dtype=bool), least).gain
    np.testing.assert_array_equal(np.isnan(light), np.isnan(gain) | masks.all(axis=1))


def test_the_screen_allows_for_the_error_of_a_walk() -> None:
    """What a walk puts just beyond the limit may be within it."""
    model = bound(False, n=150, p=6)
    tolerance = Tolerance()
    screen = model.subset_walk(np.arange(6), np.arange(0), tolerance)
    degrees = float(model.figures(np.zeros((1, 6), dtype=bool)).degrees[0])
    # Nothing is tolerated of the empty subset, and by Fisher's rule nothing is said by the spread.
    limit = -0.5 * chi2.isf(np.exp(-0.5 * chi2.isf(tolerance.level, 4)), np.array([degrees]))
    for beyond, possible in ((0.5, True), (2.0, False)):
        figures = Figures(
            limit - beyond * model.walk_error,
            np.array([model.empty]),
            np.array([degrees]),
            np.ones(1),
        )
        assert (
            np.isnan(screen._screened(figures, np.zeros(1, np.int64), np.full(7, -np.inf)))[0]
            != possible
        )


@BOTH
def test_guesses_are_near(counts: bool) -> None:
    model = bound(counts, n=200)
    for mask in (np.zeros(5, dtype=bool), np.array([True, True, False, False, False])):
        guess = model.guessed_flips(mask)
        flipped = mask ^ np.eye(5, dtype=bool)
        log_ratio = model.log_ratio_many(flipped)
        gain = model.gain_many(flipped)
        np.testing.assert_allclose(
            guess.log_ratio[0], log_ratio, atol=1.0 + 0.3 * np.abs(log_ratio).max()
        )
        np.testing.assert_allclose(guess.gain[0], gain, atol=0.5 + 0.25 * gain.max())
        np.testing.assert_array_equal(guess.expected[0], model.null_many(flipped).expected)
        assert np.argmax(guess.gain[0]) == np.argmax(gain)
        change = model.flip_neighbours(mask)
        np.testing.assert_allclose(change, guess.log_ratio[0] - model.log_ratio(mask), atol=1e-9)


# ---------------------------------------------------------------- what is said of the rows


def test_events_are_told() -> None:
    X, y, environment = plain_table(False)
    notes, alarms = Logistic().bind(regression_data(X, y, environment)).remarks(all_masks(5))
    events = np.bincount(environment, y)
    rarer = np.minimum(events, 60 - events)
    assert f"{y.sum():,.0f} events in 180 rows" in notes[0]
    assert f"first: '{np.argmin(rarer)}' {events[np.argmin(rarer)]:.0f} in 60" in notes[0]
    assert alarms == ()


@pytest.mark.parametrize(
    ("family", "first"), [(Logistic(), "'2' 52 in 60"), (Poisson(), "'0' 20 in 60")]
)
def test_of_two_classes_the_rarer_one_is_counted(family: Logistic | Poisson, first: str) -> None:
    environment = np.repeat(np.arange(3), 60)
    X = np.random.default_rng(0).normal(size=(180, 1))
    y = np.concatenate([np.arange(60) < n for n in (20, 30, 52)]).astype(float)
    notes, _ = family.bind(regression_data(X, y, environment)).remarks(all_masks(1))
    assert f"first: {first}" in notes[0]


@pytest.mark.parametrize(
    ("counts", "case", "told"), [(0, "none in one", 1), (0, "all in one", 1), (1, "all in one", 0)]
)
def test_environments_without_events_are_told(counts: bool, case: str, told: bool) -> None:
    alarms = (
        family(counts)
        .bind(regression_data(*HARD[case](*plain_table(counts))))
        .remarks(all_masks(5)[:1])
        .alarms
    )
    assert ["environment '1' (60 rows)" in alarm for alarm in alarms] == [True] * told


def test_separating_subsets_are_told() -> None:
    model = Logistic().bind(regression_data(*HARD["separated"](*plain_table(False))))
    masks = all_masks(5)
    np.testing.assert_array_equal(
        [separates(model, mask) for mask in masks], masks[:, 0] & masks[:, 1]
    )
    (alarm,) = model.remarks(masks[[0, 3, 7]]).alarms
    assert alarm.startswith("{x0, x1} separates")
    (alarm,) = model.remarks(masks[-1:]).alarms
    assert alarm.startswith("{x0, x1} separates")
    assert alarm.remedies == (use(exclude=["x0"]), use(exclude=["x1"]))
    assert model.remarks(masks[:3]).alarms == ()


def test_a_plane_that_no_fit_shows() -> None:
    """One row far away turns the fit, and a plane between the values is still there."""
    X = np.random.default_rng(4).normal(size=(60, 2))
    y = (X[:, 0] > 0.0).astype(float)
    X[:, 0] += np.where(y == 1.0, 0.02, -0.02)
    X[0] = 0.03 if y[0] else -0.03, 40.0
    model = Logistic(pseudo_rows=5.0).bind(regression_data(X, y, np.repeat([0, 1], 30)))
    assert separates(model, np.array([True, True]))
    assert not separates(model, np.array([False, True]))


# ---------------------------------------------------------------- counts that scatter more than a
# Poisson law has it


@pytest.mark.parametrize(("exposed", "alone"), [(False, False), (True, False), (False, True)])
def test_overdispersion_is_pearsons_statistic_with_common_slopes(
    exposed: bool, alone: bool
) -> None:
    data = counted(exposed=exposed)
    data = MultiEnvironmentData.from_arrays(data.X, data.y) if alone else data
    design = np.column_stack(
        [np.repeat(np.eye(len(data.counts)), data.counts, axis=0), data.X[:, [0, 2]]]
    )
    exposure = data.exposure if exposed else None
    fit = sm.GLM(data.y, design, family=sm.families.Poisson(), exposure=exposure).fit(tol=1e-12)
    found = overdispersion(Poisson(0.0).bind(data), np.array([True, False, True, False]))
    assert found == pytest.approx(fit.pearson_chi2 / fit.df_resid, rel=1e-6)


def test_it_is_about_one_for_poisson_counts_only() -> None:
    for alpha, least, most in ((0.0, 0.9, 1.1), (1.0, 2.0, np.inf)):
        model = Poisson().bind(counted(alpha=alpha, counts=(400, 400)))
        mask = np.array([True, True, False, False])
        assert least < overdispersion(model, mask) < most
        notes = model.remarks(mask[None]).notes
        advised = [remedy.settings for note in notes for remedy in getattr(note, "remedies", ())]
        assert advised == ([(("family", "negative_binomial"),)] if alpha else [])
