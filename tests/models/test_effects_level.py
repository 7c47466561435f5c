"""Regressions whose environments have baselines of their own: beside statsmodels with a factor for
each of them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import binom, chi2

from benchmarks._families import GammaLog, PlainLogistic
from count_twins import counted
from invariance import (
    Logistic,
    MultiEnvironmentData,
    NegativeBinomial,
    PiecewiseExponential,
    Poisson,
    Tolerance,
)
from invariance.decisions.levels import baseline_of
from invariance.exceptions import DataError, SettingError
from invariance.models.base import Level
from invariance.models.regression import RegressionModel, baseline_ratios, separates
from regression_cases import GUARD, HARD, AtEffects, plain_table, regression_data
from survival_twins import split, split_by_site, survived
from twins import all_masks

NOTHING = np.empty(0, np.int64)
BOTH = pytest.mark.parametrize("counts", [False, True], ids=["logistic", "poisson"])


def sites_of(data: MultiEnvironmentData) -> NDArray:
    """(N, E) a dummy for each environment"""
    return (data.environment_index[:, None] == np.arange(data.n_environments)).astype(float)


def at_means(data: MultiEnvironmentData, mask: NDArray) -> NDArray:
    """(E, E + k) a row of each environment that has the means of all rows"""
    return np.column_stack(
        [np.eye(data.n_environments), np.tile(data.X[:, mask].mean(axis=0), (len(data.counts), 1))]
    )


def rows_of_each(data: MultiEnvironmentData) -> list[NDArray]:
    return [data.rows(e) for e in range(data.n_environments)]


def check_fit(
    model: Any, mask: NDArray, params: NDArray, covariance: NDArray, tolerance: float = 1e-6
) -> None:
    """Against parameters of the sites, then of the columns, then others"""
    data = model.data
    E = model.n_environments
    k = int(mask.sum())
    fit, errors, (levels, their_errors) = (
        model.fit(mask),
        model.standard_errors(mask),
        model.baselines(mask),
    )
    at = np.pad(at_means(data, mask), ((0, 0), (0, len(params) - E - k)))
    np.testing.assert_allclose(fit.coefficients, params[E : E + k], atol=tolerance)
    assert fit.intercept == pytest.approx(
        np.average(params[:E], weights=data.counts), abs=tolerance
    )
    np.testing.assert_allclose(
        errors.values[-1], np.sqrt(np.diag(covariance))[E : E + k], rtol=tolerance
    )
    np.testing.assert_allclose(
        errors.freedom, [*(data.counts - len(params) + E - 1), data.n_rows - len(params)]
    )
    np.testing.assert_allclose(levels, at @ params, atol=tolerance)
    np.testing.assert_allclose(
        their_errors, np.sqrt(np.diag(at @ covariance @ at.T)), rtol=tolerance
    )
    mean = data.X[:, mask].mean(axis=0)
    assert fit.intercept == pytest.approx(
        np.average(levels, weights=data.counts) - fit.coefficients @ mean, abs=1e-9
    )


def glm(
    counts: bool,
    y: NDArray,
    design: NDArray,
    exposure: NDArray | None = None,
    weight: NDArray | None = None,
) -> Any:
    family = sm.families.Poisson() if counts else sm.families.Binomial()
    return sm.GLM(y, design, family=family, exposure=exposure, freq_weights=weight).fit(
        tol=1e-14, maxiter=200
    )


@BOTH
def test_agreement_with_statsmodels(counts: bool) -> None:
    X, y, environment = plain_table(counts, n=80, n_environments=4)
    data = regression_data(X, y, environment)
    exposure = np.exp(np.random.default_rng(3).normal(size=len(y))) if counts else None
    data = replace(data, exposure=exposure)
    model = (Poisson(0.0) if counts else Logistic(0.0)).bind(data).at_level(Level.effects)
    nothing = glm(counts, y, sites_of(data), exposure)
    for mask in all_masks(5)[[1, 6, 19, 31]]:
        design = np.column_stack([sites_of(data), X[:, mask]])
        fit = glm(counts, y, design, exposure)
        own = 0.0
        for rows in rows_of_each(data):
            alone = sm.add_constant(X[np.ix_(rows, mask)], has_constant="add")
            own += glm(counts, y[rows], alone, None if exposure is None else exposure[rows]).llf
        assert model.log_ratio(mask) == pytest.approx(fit.llf - own, abs=1e-8)
        assert model.gain_many(mask)[0] == pytest.approx(fit.llf - nothing.llf, abs=1e-8)
        assert model.null_many(mask).degrees[0] == 3 * mask.sum()
        check_fit(model, mask, fit.params, fit.cov_params())


@BOTH
def test_pseudo_data_are_those_of_each_environment(counts: bool) -> None:
    """At its own mean, moved a row's weight towards that of all rows; for counts at the means of
    the stratified fit."""
    X, y, environment = plain_table(counts, n=60)
    y = np.where(environment == 1, 0.0, y)
    data = regression_data(X, y, environment)
    mask = np.arange(5) < 2
    share = 2.5 / 60
    means = ((np.bincount(environment, y) + y.mean()) / 61.0)[environment]
    np.testing.assert_allclose(
        y.mean() * baseline_ratios(data, y, 0.0 * y + y.mean(), True)[environment], means
    )
    design = np.column_stack([sites_of(data), X[:, mask]])
    once = GUARD if counts else share
    outcome = y + once * means
    weight = np.full(len(y), 1.0 + once)

    def value(params: NDArray, outcome: NDArray, weight: NDArray) -> float:
        eta = design @ params
        return float(outcome @ eta - weight @ (np.exp(eta) if counts else np.logaddexp(0.0, eta)))

    def best(outcome: NDArray, weight: NDArray, rows: NDArray) -> NDArray:
        used = design[rows].any(axis=0)
        found = np.zeros(design.shape[1])
        found[used] = glm(
            counts, (outcome / weight)[rows], design[np.ix_(rows, used)], weight=weight[rows]
        ).params
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = best(outcome, weight, np.arange(len(y)))
        if counts:
            outcome = outcome + share * weight * np.exp(design @ params)
            weight = (1.0 + share) * weight
        own = sum(
            value(best(outcome, weight, rows), *_only(outcome, weight, rows))
            for rows in rows_of_each(data)
        )
    model = (Poisson(2.5) if counts else Logistic(2.5)).bind(data).at_level(Level.effects)
    assert model.log_ratio(mask) == pytest.approx(value(params, outcome, weight) - own, abs=1e-6)
    np.testing.assert_allclose(model.fit(mask).coefficients, params[3:], atol=1e-6)


def _only(outcome: NDArray, weight: NDArray, rows: NDArray) -> tuple[NDArray, NDArray]:
    """The same of these rows alone"""
    kept = np.isin(np.arange(len(outcome)), rows)
    return outcome * kept, weight * kept


def negative_binomial(y: NDArray, design: NDArray, exposure: NDArray | None) -> Any:
    model = sm.NegativeBinomial(y, design, exposure=exposure)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        near = model.fit(disp=False, method="bfgs", maxiter=1000, gtol=1e-7)
        return model.fit(near.params, disp=False, method="newton", maxiter=100, tol=1e-12)


@pytest.mark.parametrize("exposed", [False, True])
@pytest.mark.parametrize("subset", [[], ["x1", "x2", "x3"]])
def test_negative_binomial_agrees_with_statsmodels(subset: list[str], exposed: bool) -> None:
    data = counted(exposed=exposed, mean=2.0, alpha=1.0, counts=(190, 170, 180))
    model = NegativeBinomial(0.0).bind(data).at_level(Level.effects)
    mask = np.isin(data.feature_names, subset)
    fit = negative_binomial(
        data.y, np.column_stack([sites_of(data), data.X[:, mask]]), data.exposure
    )
    own = 0.0
    for rows in rows_of_each(data):
        design = np.column_stack([np.ones(len(rows)), data.X[np.ix_(rows, mask)]])
        own += negative_binomial(data.y[rows], design, data.exposure[rows] if exposed else None).llf
    assert model.log_ratio(mask) == pytest.approx(fit.llf - own, abs=1e-8)
    assert model.null_many(mask).degrees[0] == 2 * (mask.sum() + 1)
    check_fit(model, mask, fit.params, fit.cov_params())


# ---------------------------------------------------------------- times to an event


@pytest.mark.parametrize("mask", [[1, 0, 1, 0, 0], [1, 1, 1, 1, 1]])
@pytest.mark.parametrize(("pseudo_rows", "steps"), [(0.0, 2), (1.0, 16)])
def test_split_rows_with_a_hazard_for_each_step_of_a_site(
    pseudo_rows: float, steps: int, mask: list[int]
) -> None:
    data = survived(80)
    specification = PiecewiseExponential(3, steps, pseudo_rows=pseudo_rows)
    data = replace(data, y=data.y * np.array([1.0, 2.0, 0.6])[data.environment_index])
    model = specification.bind(data).at_level(Level.effects)
    chosen = np.array(mask, dtype=bool)
    k = sum(mask)
    parts = split_by_site(data, specification)
    n_steps = [events.shape[1] for events, _ in parts]
    firsts = np.cumsum([0, *n_steps])

    def fitted(environments: list[int]) -> Any:
        rows = []
        y = []
        exposure = []
        for e in environments:
            events, watched = parts[e]
            cells = np.eye(firsts[-1])[firsts[e] : firsts[e + 1]]
            X = data.X[data.rows(e)][:, chosen]
            rows.append(
                np.column_stack([np.repeat(X, n_steps[e], axis=0), np.tile(cells, (len(X), 1))])
            )
            y.append(events.ravel())
            exposure.append(watched.ravel())
        design = np.vstack(rows)
        y = np.concatenate(y)
        exposure = np.concatenate(exposure)
        seen = exposure > 0.0
        used = design.any(axis=0)
        model = sm.GLM(
            y[seen], design[np.ix_(seen, used)], sm.families.Poisson(), exposure=exposure[seen]
        )
        fit = model.fit(tol=1e-13, tol_criterion="params", maxiter=200)
        return float(np.sum(y[seen] * np.log(fit.mu) - fit.mu)), fit

    pooled, fit = fitted([0, 1, 2])
    own = [fitted([e]) for e in range(3)]
    assert model.log_ratio(chosen) == pytest.approx(
        pooled - sum(value for value, _ in own), abs=1e-7
    )
    assert model.null_many(chosen).degrees[0] == 2 * k
    found = model.fit(chosen)
    errors = model.standard_errors(chosen).values
    np.testing.assert_allclose(found.coefficients, fit.params[:k], atol=1e-6)
    np.testing.assert_allclose(errors[-1], fit.bse[:k], rtol=1e-6)
    for e, (_, alone) in enumerate(own):
        np.testing.assert_allclose(found.local_coefficients[e], alone.params[:k], atol=1e-6)
        np.testing.assert_allclose(errors[e], alone.bse[:k], rtol=1e-6)


def test_stratified_cox_is_near() -> None:
    """Baseline hazards on scales of time that differ six times"""
    for seed in range(4):
        data = survived(250, 4, seed=seed)
        data = replace(data, y=data.y * np.array([0.5, 1.0, 1.5, 3.0])[data.environment_index])
        chosen = np.array([1, 0, 1, 0, 0], dtype=bool)
        model = PiecewiseExponential(pseudo_rows=0.0).bind(data).at_level(Level.effects)
        cox = sm.PHReg(
            data.y, data.X[:, chosen], status=data.event, strata=data.environment_index
        ).fit()
        np.testing.assert_allclose(
            model.fit(chosen).coefficients, cox.params, atol=0.15 * cox.bse.min()
        )


def test_baseline_hazards_are_those_of_a_proportional_fit() -> None:
    """Poisson regression of the events of each site and step on both, given the relative risks."""
    data = survived(80)
    specification = PiecewiseExponential(pseudo_rows=0.0)
    chosen = np.arange(5) < 2
    data = replace(data, y=data.y * np.array([1.0, 2.0, 0.6])[data.environment_index])
    model = specification.bind(data).at_level(Level.effects)
    parts = split(data, specification)
    sites = sites_of(data)
    fit, (values, errors), n_steps = (
        model.fit(chosen),
        model.baselines(chosen),
        parts.events.shape[1],
    )
    exposed = sites.T @ (parts.watched * fit.risk(data.X[:, chosen])[:, None])
    design = np.column_stack(
        [np.repeat(np.eye(3), n_steps, axis=0), np.tile(np.eye(n_steps), (3, 1))[:, 1:]]
    )
    seen = exposed.ravel() > 0.0
    known = glm(
        True, (sites.T @ parts.events).ravel()[seen], design[seen], exposed.ravel()[seen]
    ).params
    np.testing.assert_allclose(
        values, known[:3] - np.average(known[:3], weights=data.counts), atol=1e-6
    )
    mean = np.average(known[:3], weights=data.counts)
    np.testing.assert_allclose(
        np.log(fit.baseline.hazards), np.append(0.0, known[3:]) + mean, atol=1e-6
    )
    happened = sites.T @ data.event
    assert (errors > 1.0 / np.sqrt(happened)).all()
    np.testing.assert_allclose(model.baselines([])[1], 1.0 / np.sqrt(happened))


# ---------------------------------------------------------------- what must always hold


def table(
    kind: str, seed: int = 0, counts: tuple[int, ...] = (50, 60, 70), spread: float = 1.0
) -> MultiEnvironmentData:
    """The outcome follows x0 and x1 alike everywhere, around another level in each environment."""
    rng = np.random.default_rng(seed)
    site = np.repeat(range(len(counts)), counts)
    X = rng.normal(size=(len(site), 4)) + 0.5 * rng.normal(size=(len(counts), 4))[site]
    predictor = 0.8 * X[:, 0] - 0.5 * X[:, 1] + spread * rng.normal(size=len(counts))[site]
    event = None
    if kind == "classes":
        y = (rng.random(len(site)) < 1.0 / (1.0 + np.exp(-predictor))).astype(float)
    elif kind == "counts":
        y = rng.poisson(np.exp(0.5 + 0.5 * predictor)).astype(float)
    elif kind == "scattered":
        y = rng.poisson(rng.gamma(2.0, 0.5, len(site)) * np.exp(0.5 + 0.5 * predictor)).astype(
            float
        )
    elif kind == "positive":
        y = rng.gamma(2.0, np.exp(0.5 * predictor) / 2.0)
    else:
        y = rng.exponential(np.exp(-predictor))
        event = (rng.random(len(site)) < 0.8).astype(float)
    return MultiEnvironmentData.from_arrays(X, y, site, event=event)


# {name: (family, what the outcome is, parameters of the noise)}
FAMILIES: dict[str, tuple[Any, str, int]] = {
    "logistic": (Logistic(), "classes", 0),
    "plain logistic": (Logistic(0.0), "classes", 0),
    "poisson": (Poisson(), "counts", 0),
    "negative binomial": (NegativeBinomial(), "scattered", 1),
    "survival": (PiecewiseExponential(), "times", 0),
    "plain survival": (PiecewiseExponential(pseudo_rows=0.0), "times", 0),
    "logistic by others": (PlainLogistic(), "classes", 0),
    "gamma by others": (GammaLog(), "positive", 1),
}
every = pytest.mark.parametrize("name", FAMILIES)
MASKS = all_masks(4)


def bound(name: str, data: MultiEnvironmentData | None = None) -> Any:
    family, kind, _ = FAMILIES[name]
    return AtEffects(family).bind(table(kind) if data is None else data)


@every
def test_degrees_and_the_empty_subset(name: str) -> None:
    """There, the noise alone is compared."""
    model = bound(name)
    extra = FAMILIES[name][2]
    null = model.null_many(MASKS)
    values = model.log_ratio_many(MASKS)
    np.testing.assert_array_equal(null.degrees, 2 * (MASKS.sum(axis=1) + extra))
    assert model.gain_many(MASKS[0])[0] == 0.0
    assert (values <= 0.0).all()
    assert "intercept" not in model.compares
    assert "baseline" not in model.compares
    assert ("dispersion" in model.compares) == bool(extra)
    if not extra:
        assert values[0] == 0.0
        assert model.invariance_tails(MASKS[:1], values[:1])[0] == 1.0
        for tolerance in (Tolerance(), Tolerance.strict()):
            test = model.invariance_test(MASKS[:1], tolerance)
            assert (test.joint[0], test.each[0]) == (1.0, 1.0)
            assert model.compatible(MASKS[:1], tolerance)[0]
    for _, law in model.against_the_rest(MASKS):
        np.testing.assert_array_equal(law.degrees, MASKS.sum(axis=1) + extra)


@every
def test_shifts_of_environments_change_nothing(name: str) -> None:
    """Of features, and of the outcome's level on the scale of the link"""
    data = table(FAMILIES[name][1], seed=2)
    rng = np.random.default_rng(0)
    site = data.environment_index
    model = bound(name, table(FAMILIES[name][1], seed=2))
    X = data.X * np.exp(rng.normal(size=4)) + 5.0 * rng.normal(size=(3, 4))[site]
    shifted = bound(name, replace(data, X=X))
    np.testing.assert_allclose(
        shifted.log_ratio_many(MASKS), model.log_ratio_many(MASKS), atol=1e-6
    )
    np.testing.assert_allclose(shifted.gain_many(MASKS), model.gain_many(MASKS), atol=1e-6)
    rests = zip(shifted.against_the_rest(MASKS), model.against_the_rest(MASKS), strict=True)
    for (found, law), (expected, known) in rests:
        np.testing.assert_allclose(found, expected, atol=1e-3)
        np.testing.assert_array_equal(law.degrees, known.degrees)
    factors = np.array([0.2, 1.0, 30.0])[site]
    scaled = {"y": data.y * factors}
    moved = {"gamma by others": scaled, "plain survival": scaled, "poisson": {"exposure": factors}}
    if name in moved:
        other = bound(name, replace(data, **moved[name]))
        np.testing.assert_allclose(
            other.log_ratio_many(MASKS), model.log_ratio_many(MASKS), atol=1e-4
        )


@every
def test_orders_change_nothing(name: str) -> None:
    data = table(FAMILIES[name][1], seed=3)
    rng = np.random.default_rng(1)
    rows = rng.permutation(data.n_rows)
    features = rng.permutation(4)
    labels = rng.permutation(3)
    event = None if data.event is None else data.event[rows]
    other = MultiEnvironmentData.from_arrays(
        data.X[rows][:, features], data.y[rows], labels[data.environment_index[rows]], event=event
    )
    expected = bound(name, data).log_ratio_many(MASKS)
    found = bound(name, other).log_ratio_many(MASKS[:, features])
    np.testing.assert_allclose(found, expected, atol=1e-6)


@every
def test_levels_of_a_model(name: str) -> None:
    family, kind, _ = FAMILIES[name]
    full = family.bind(table(kind))
    effects = full.at_level(Level.effects)
    assert (full.level, full.lower_levels) == (Level.full, (Level.effects,))
    assert effects.level is Level.effects
    assert effects.at_level(Level.effects) is effects
    np.testing.assert_array_equal(
        effects.at_level(Level.full).log_ratio_many(MASKS), full.log_ratio_many(MASKS)
    )
    assert (effects.log_ratio_many(MASKS) > full.log_ratio_many(MASKS)).all()
    label = full.data.environments[0]
    assert effects.without(label).level is Level.effects
    expected = family.bind(full.data.choosing(full.data.environments[1:])).at_level(Level.effects)
    np.testing.assert_array_equal(
        effects.without(label).log_ratio_many(MASKS), expected.log_ratio_many(MASKS)
    )
    with pytest.raises(SettingError, match="one baseline"):
        full.baselines(["x0"])
    with pytest.raises(SettingError, match="free baselines"):
        full.at_level(Level.effects_noise_free)


@every
def test_features_that_are_constant_in_environments(name: str) -> None:
    """In all of them: nothing can be said of them. In some: the others are compared."""
    data = table(FAMILIES[name][1])
    X = data.X.copy()
    site = data.environment_index
    X[:, 3] = np.array([0.3, -1.0, 2.0])[site]
    X[site == 1, 2] = 4.0
    model = bound(name, replace(data, X=X))
    hidden = MASKS[:, 3]
    values = model.log_ratio_many(MASKS)
    np.testing.assert_array_equal(values == -np.inf, hidden)
    np.testing.assert_array_equal(model.gain_many(MASKS) == -np.inf, hidden)
    np.testing.assert_array_equal(model.in_support(MASKS), ~hidden)
    assert not model.compatible(MASKS[hidden], Tolerance()).any()
    walk = model.subset_walk(np.arange(4), NOTHING).dense(NOTHING, np.ones(5, dtype=bool)).log_ratio
    np.testing.assert_array_equal(np.isnan(walk), hidden)
    degrees = 2 * (MASKS.sum(axis=1) + FAMILIES[name][2]) - MASKS[:, 2]
    np.testing.assert_array_equal(model.null_many(MASKS).degrees[~hidden], degrees[~hidden])
    if hasattr(model, "guessed_flips"):
        guess = model.guessed_flips(MASKS[:1]).log_ratio[0]
        np.testing.assert_array_equal(guess == -np.inf, [False, False, False, True])
    assert model.outside_support(MASKS)[0].startswith("'x3' constant in every environment")
    with pytest.raises(DataError, match="'x3' constant in every environment"):
        model.fit(["x0", "x3"])
    assert np.isnan(model.fit(["x0", "x2"]).local_coefficients[1, 1])


def brute_rests(data: MultiEnvironmentData, family: Any, mask: NDArray) -> list[float]:
    """log Λ of each environment against the others, which are stratified, from fits without
    pseudo-data"""

    def largest(labels: tuple) -> float:
        model = family.bind(data.choosing(labels)).at_level(Level.effects)
        return float(model.figures(mask).pooled[0])

    labels = data.environments
    return [
        largest(labels)
        - largest((label,))
        - largest(tuple(other for other in labels if other != label))
        for label in labels
    ]


@pytest.mark.parametrize(
    "name",
    ["plain logistic", "poisson", "negative binomial", "logistic by others", "gamma by others"],
)
def test_an_environment_against_the_others_with_baselines_of_theirs(name: str) -> None:
    family, kind, _ = FAMILIES[name]
    family = replace(family, pseudo_rows=0.0) if hasattr(family, "pseudo_rows") else family
    data = table(kind, counts=(60, 50, 70, 80))
    model = family.bind(data).at_level(Level.effects)
    for mask in MASKS[[0, 3, 13]]:
        found = [float(log_ratio[0]) for log_ratio, _ in model.against_the_rest(mask[None])]
        np.testing.assert_allclose(
            found, np.minimum(brute_rests(data, family, mask), 0.0), atol=1e-3
        )


def test_times_of_an_environment_against_the_others() -> None:
    """By the partial likelihood of steps"""
    specification = PiecewiseExponential(3, steps=5, pseudo_rows=0.0)
    data = survived(60, 4)
    mask = np.array([1, 0, 1, 0, 1], dtype=bool)
    parts = split_by_site(data, specification)
    X = data.X[:, mask]

    def largest(environments: list[int]) -> float:
        def loss(theta: NDArray) -> float:
            total = 0.0
            for e in environments:
                (events, watched), eta = parts[e], X[data.rows(e)] @ theta
                total += events.sum(axis=1) @ eta - events.sum(axis=0) @ np.log(
                    np.exp(eta) @ watched
                )
            return -total

        return -float(minimize(loss, np.zeros(3), options={"gtol": 1e-7}).fun)

    model = specification.bind(data).at_level(Level.effects)
    own = [largest([e]) for e in range(4)]
    assert model.log_ratio(mask) == pytest.approx(largest([0, 1, 2, 3]) - sum(own), abs=1e-5)
    for e, (log_ratio, _) in enumerate(model.against_the_rest(mask[None])):
        rest = largest([other for other in range(4) if other != e])
        assert log_ratio[0] == pytest.approx(largest([0, 1, 2, 3]) - rest - own[e], abs=1e-3)


def test_the_law_of_the_others_counts_their_baselines() -> None:
    """Many small environments: a parameter for each of the others is one of many rows, not of
    few."""
    data = counted(counts=(14,) * 12, alpha=0.7)
    for family in (NegativeBinomial(), GammaLog()):
        given = replace(data, y=data.y + 0.5) if family == GammaLog() else data
        for _, null in (
            AtEffects(family).bind(given).against_the_rest(np.array([[True, False, False, False]]))
        ):
            assert null.variance[0] > 0.0
            assert -2.0 * null.expected[0] / null.degrees[0] < 1.35


# ---------------------------------------------------------------- families by others


def test_families_by_others_agree_with_compiled_ones() -> None:
    data = table("classes", counts=(70, 60, 80))
    compiled, other = (AtEffects(family).bind(data) for family in (Logistic(0.0), PlainLogistic()))
    np.testing.assert_allclose(
        other.log_ratio_many(MASKS), compiled.log_ratio_many(MASKS), atol=1e-6
    )
    np.testing.assert_allclose(other.gain_many(MASKS), compiled.gain_many(MASKS), atol=1e-6)
    np.testing.assert_array_equal(other.null_many(MASKS).degrees, compiled.null_many(MASKS).degrees)
    known, found = (model.fit(["x0", "x1"]) for model in (compiled, other))
    np.testing.assert_allclose(found.coefficients, known.coefficients, atol=1e-6)
    assert found.intercept == pytest.approx(known.intercept, abs=1e-6)
    np.testing.assert_allclose(found.local_intercepts, known.local_intercepts, atol=1e-5)
    (values, errors), (expected, _) = (
        other.baselines(["x0", "x1"]),
        compiled.baselines(["x0", "x1"]),
    )
    np.testing.assert_allclose(values, expected, atol=1e-6)
    assert np.isnan(errors).all()


# ---------------------------------------------------------------- data that are easily wrong


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize(
    "specification",
    [Logistic(0.0), Logistic(), Poisson(0.0), Poisson(), NegativeBinomial()],
    ids=repr,
)
def test_hard_data(specification: Any, case: str) -> None:
    X, y, environment = HARD[case](*plain_table(not isinstance(specification, Logistic)))
    model = AtEffects(specification).bind(regression_data(X, y, environment))
    masks = all_masks(model.n_features)
    masks = masks[masks.sum(axis=1) <= model.largest_size]
    masks = masks[model.supported(masks)]
    assert len(masks) > 1
    values = model.log_ratio_many(masks)
    gain = model.gain_many(masks)
    null = model.null_many(masks)
    assert np.isfinite(values).all()
    assert values.max() <= 0.0
    assert np.isfinite(gain).all()
    assert (gain > -1e-6).all()
    assert (null.degrees >= 0.0).all()
    walked = model.subset_walk(np.arange(model.n_features), NOTHING).dense(
        NOTHING, np.ones(11, dtype=bool)
    )
    found = walked.log_ratio[masks @ (1 << np.arange(model.n_features))]
    hardly_told = case == "one event" and isinstance(specification, NegativeBinomial)
    np.testing.assert_allclose(found, values, atol=6e-2 if hardly_told else model.walk_error)
    for subset in (masks[0], masks[-1]):
        fit, (levels, errors) = model.fit(subset), model.baselines(subset)
        assert np.isfinite([*fit.coefficients, fit.intercept]).all()
        assert not (model.standard_errors(subset).values <= 0.0).any()
        assert np.isfinite(levels).all()
        assert (errors > 0.0).all()


def test_what_separates_within_environments() -> None:
    """Lines that are parallel, one for each environment, though none for all rows"""
    X, _, environment = plain_table(False)
    level = np.array([-30.0, 0.0, 30.0])[environment]
    data = regression_data(X, (X[:, 0] + X[:, 1] > 0.0).astype(float), environment)
    moved = replace(data, X=X + level[:, None] * (np.arange(5) == 0))
    full = Logistic().bind(moved)
    masks = all_masks(5)
    expected = masks[:, 0] & masks[:, 1]
    assert not any(separates(full, mask) for mask in masks[[3, 7, 15]])
    np.testing.assert_array_equal(
        [separates(full.at_level(Level.effects), mask) for mask in masks], expected
    )
    (alarm,) = full.at_level(Level.effects).remarks(masks[[0, 3]]).alarms
    assert alarm.startswith("{x0, x1} separates")


# ---------------------------------------------------------------- how often what is invariant is
# rejected

SIZES: dict[str, tuple[Any, str]] = {
    "logistic": (Logistic(), "classes"),
    "poisson": (Poisson(), "counts"),
    "negative binomial": (NegativeBinomial(), "scattered"),
    "survival": (PiecewiseExponential(), "times"),
    "gamma by others": (GammaLog(), "positive"),
}


@pytest.mark.parametrize("name", SIZES)
def test_equal_slopes_are_not_rejected_because_levels_differ(name: str) -> None:
    family, kind = SIZES[name]
    truth = MASKS[3]
    n_sets = 60
    rejected = 0
    of_full = 0
    ratios = []
    for seed in range(n_sets):
        full = family.bind(table(kind, seed, (50,) * 5, spread=0.5))
        model = full.at_level(Level.effects)
        null = model.null_many(truth)
        ratios.append(model.log_ratio_many(truth)[0] / null.expected[0])
        rejected += int(model.invariance_test(truth, Tolerance.strict()).joint[0] < 0.05)
        of_full += int(full.invariance_test(truth, Tolerance.strict()).joint[0] < 0.05)
    assert rejected <= binom.ppf(0.999, n_sets, 0.08)
    assert of_full >= 0.2 * n_sets
    assert 0.8 < np.mean(ratios) < 1.25


@pytest.mark.parametrize("name", ["logistic", "survival"])
def test_many_small_environments_do_not_reject_equal_slopes(name: str) -> None:
    """Five slopes in twenty rows: −2 log Λ is a quarter larger than its degrees of freedom."""
    family = SIZES[name][0]
    n_sets = 80
    rejected = 0
    ratios = []
    site = np.repeat(range(20), 20)
    truth = np.ones((1, 5), dtype=bool)
    for seed in range(n_sets):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 5)) + 0.7 * rng.normal(size=(20, 5))[site]
        eta = X @ [0.6, -0.5, 0.4, 0.3, -0.6] + 0.5 * rng.normal(size=20)[site]
        y = (rng.random(400) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
        event = None
        if name == "survival":
            y = rng.exponential(np.exp(-eta))
            event = (rng.random(400) < 0.8).astype(float)
        model = AtEffects(family).bind(MultiEnvironmentData.from_arrays(X, y, site, event=event))
        ratios.append(model.log_ratio_many(truth)[0] / model.null_many(truth).expected[0])
        rejected += int(model.invariance_test(truth, Tolerance.strict()).joint[0] < 0.05)
    assert rejected <= binom.ppf(0.999, n_sets, 0.05)
    assert 0.9 < np.mean(ratios) < 1.1


@pytest.mark.parametrize("name", ["poisson", "logistic"])
def test_a_bound_rejects_nothing_that_is_compatible(name: str) -> None:
    """Of an environment against the rest −2 log Λ of counts is expected below its degrees of
    freedom."""
    model = AtEffects(SIZES[name][0]).bind(table(SIZES[name][1], 3, (12,) * 6, spread=0.5))
    for tolerance in (Tolerance(), *(Tolerance.strict(level) for level in (0.05, 0.5, 0.9))):
        expected = model.invariance_test(MASKS, tolerance).joint >= tolerance.level
        np.testing.assert_array_equal(model.compatible(MASKS, tolerance), expected)


def test_slopes_of_counts_are_compared_apart_from_dispersions() -> None:
    """By generalised least squares of the slopes of statsmodels, one environment after the
    other."""
    data = counted(counts=(60, 80, 70), alpha=0.7)
    mask = np.array([True, True, False, False])
    model = NegativeBinomial(0.0).bind(data).at_level(Level.effects)
    assert isinstance(model, RegressionModel)
    slopes = []
    precisions = []
    for rows in rows_of_each(data):
        design = sm.add_constant(data.X[np.ix_(rows, mask)])
        fit = negative_binomial(data.y[rows], design, None)
        slopes.append(fit.params[1:3])
        precisions.append(np.linalg.inv(fit.cov_params()[1:3, 1:3]))
    mean = np.linalg.solve(
        sum(precisions), sum(P @ b for P, b in zip(precisions, slopes, strict=True))
    )
    expected = sum((b - mean) @ P @ (b - mean) for P, b in zip(precisions, slopes, strict=True))
    q, of_invariant, degrees = model.spread_of_slopes(mask)
    assert q == pytest.approx(expected, rel=1e-4)
    assert degrees == 4.0
    assert of_invariant == pytest.approx(4.0 * np.mean([60 / 55, 80 / 75, 70 / 65]))


@BOTH
@pytest.mark.parametrize("size", [0, 2])
def test_baselines_are_tested_by_the_likelihood_ratio(counts: bool, size: int) -> None:
    """Of plain maxima, in small environments too, of which one has a single value of the
    outcome."""
    X, y, environment = plain_table(counts, n=20, n_environments=4)
    y[environment == np.unique(environment)[1]] = 0.0
    data = regression_data(X, y, environment)
    mask = np.arange(5) < size
    full, free = (
        glm(counts, y, np.column_stack([levels, X[:, mask]])).llf
        for levels in (np.ones((len(y), 1)), sites_of(data))
    )
    found = baseline_of((Poisson() if counts else Logistic()).bind(data), mask, "y", None)
    assert found is not None
    assert found.p_value == pytest.approx(chi2.sf(2.0 * (free - full), 3), rel=1e-5)


@pytest.mark.parametrize("name", SIZES)
def test_slopes_that_differ_are_seen(name: str) -> None:
    family, kind = SIZES[name]
    data = table(kind, 0, (150,) * 4)
    X = data.X.copy()
    X[:, 0] *= np.array([1.0, -1.0, 1.0, 1.0])[data.environment_index]
    test = AtEffects(family).bind(replace(data, X=X)).invariance_test(MASKS[3], Tolerance())
    assert test.joint[0] < 0.01


def likelihood_tail(model: RegressionModel, mask: NDArray) -> float:
    return float(chi2.sf(-2.0 * model.log_ratio(mask), model.null_many(mask).degrees[0]))


@pytest.mark.parametrize("n_environments", [20, 60])
def test_many_environments(n_environments: int) -> None:
    """Levels are no columns: fits with many of them are those of few slopes."""
    rng = np.random.default_rng(0)
    site = np.repeat(range(n_environments), 25)
    X = rng.normal(size=(len(site), 3)) + rng.normal(size=(n_environments, 3))[site]
    eta = X[:, 0] + 1.5 * rng.normal(size=n_environments)[site]
    data = MultiEnvironmentData.from_arrays(
        X, (rng.random(len(site)) < 1.0 / (1.0 + np.exp(-eta))) * 1.0, site
    )
    model = AtEffects(Logistic()).bind(data)
    mask = np.array([True, True, False])
    assert likelihood_tail(model, mask) > 1e-3
    assert 0.7 < model.fit(mask).coefficients[0] < 1.3
    assert model.invariance_test(mask, Tolerance.strict()).joint[0] > 1e-3
