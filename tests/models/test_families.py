"""What holds of every family: signs, units, orders, merging, one environment, threads, walks,
groups, refusals."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from invariance import (
    Additive,
    BayesianLinearGaussian,
    LinearGaussian,
    Logistic,
    Moments,
    MultiEnvironmentData,
    NegativeBinomial,
    PiecewiseExponential,
    Poisson,
    Tolerance,
)
from invariance.exceptions import DataError, DataWarning, SettingError
from invariance.models.base import SubsetWalk
from invariance.models.regression import READ
from regression_cases import AtEffects
from twins import all_masks, walked_log_ratios

P = 4
MASKS = all_masks(P)
NOTHING = np.empty(0, np.int64)
# {name: (family, what the outcome is)}
FAMILIES: dict[str, tuple[Any, str]] = {
    "gaussian": (LinearGaussian(), "number"),
    "rewarded": (LinearGaussian(prediction=0.1), "number"),
    "mean": (LinearGaussian(invariance="mean"), "number"),
    "bayesian": (BayesianLinearGaussian(), "number"),
    "additive": (Additive(knots=4), "number"),
    "additive, all": (Additive(knots=4, comparison="all"), "number"),
    "logistic": (Logistic(), "classes"),
    "plain logistic": (Logistic(pseudo_rows=0.0), "classes"),
    "poisson": (Poisson(), "count"),
    "plain poisson": (Poisson(pseudo_rows=0.0), "count"),
    "negative binomial": (NegativeBinomial(), "count"),
    "plain negative binomial": (NegativeBinomial(pseudo_rows=0.0), "count"),
    "survival": (PiecewiseExponential(), "time"),
    "logistic, effects": (AtEffects(Logistic()), "classes"),
    "plain poisson, effects": (AtEffects(Poisson(pseudo_rows=0.0)), "count"),
    "negative binomial, effects": (AtEffects(NegativeBinomial()), "count"),
    "survival, effects": (AtEffects(PiecewiseExponential()), "time"),
}
every = pytest.mark.parametrize("name", FAMILIES)


def table(kind: str, seed: int = 0, counts: tuple[int, ...] = (50, 60, 70)) -> MultiEnvironmentData:
    """The outcome follows x0 and x1 alike everywhere."""
    rng = np.random.default_rng(seed)
    site = np.repeat(range(len(counts)), counts)
    X = rng.normal(size=(len(site), P)) + 0.5 * rng.normal(size=(len(counts), P))[site]
    predictor = 0.8 * X[:, 0] - 0.5 * X[:, 1]
    event = None
    match kind:
        case "number":
            y = predictor + rng.normal(size=len(site))
        case "classes":
            y = (rng.random(len(site)) < 1.0 / (1.0 + np.exp(-predictor))).astype(float)
        case "count":
            y = rng.poisson(rng.gamma(2.0, 0.5, len(site)) * np.exp(0.5 + 0.5 * predictor)).astype(
                float
            )
        case _:
            y = rng.exponential(np.exp(-predictor))
            event = (rng.random(len(site)) < 0.8).astype(float)
    labels = site if len(counts) > 1 else None
    return MultiEnvironmentData.from_arrays(X, y, labels, event=event)


def bound(name: str, data: MultiEnvironmentData | None = None, n_jobs: int | None = None) -> Any:
    family, kind = FAMILIES[name]
    return family.bind(table(kind) if data is None else data, n_jobs)


@every
@pytest.mark.parametrize("seed", range(3))
def test_signs_units_and_orders(name: str, seed: int) -> None:
    """At most 0, but for Bayes factors and rewards; unchanged by affine maps and permutations."""
    kind = FAMILIES[name][1]
    rng = np.random.default_rng(seed)
    data = table(kind, seed)
    values = bound(name, data).log_ratio_many(MASKS)
    assert np.isfinite(values).all()
    assert (values <= 0.0).all() or name in ("bayesian", "rewarded")
    rows = rng.permutation(data.n_rows)
    features = rng.permutation(P)
    labels = rng.permutation(data.n_environments)
    X = data.X * (np.exp(rng.normal(0.0, 2.0, P)) * rng.choice([-1.0, 1.0], P)) + rng.normal(
        0.0, 3.0, P
    )
    y = {"number": 7.0 - 0.01 * data.y, "time": 1e3 * data.y}.get(kind, data.y)
    event = None if data.event is None else data.event[rows]
    other = MultiEnvironmentData.from_arrays(
        X[rows][:, features], y[rows], labels[data.environment_index[rows]], event=event
    )
    again = bound(name, other).log_ratio_many(MASKS[:, features])
    np.testing.assert_allclose(again, values, rtol=1e-5, atol=1e-5)


MONOTONE = (
    "gaussian",
    "additive",
    "additive, all",
    "plain logistic",
    "plain poisson",
    "plain negative binomial",
)


@pytest.mark.parametrize("name", MONOTONE)
def test_merging_environments_raises_log_ratios(name: str) -> None:
    data = table(FAMILIES[name][1], seed=4, counts=(40, 40, 60, 60))
    merged = MultiEnvironmentData.from_arrays(data.X, data.y, np.minimum(data.environment_index, 2))
    split, joined = (bound(name, given).log_ratio_many(MASKS) for given in (data, merged))
    assert (split <= joined + 1e-9).all()


@every
def test_one_environment_says_nothing(name: str) -> None:
    model = bound(name, table(FAMILIES[name][1], counts=(120,)))
    plain = model.untilted
    np.testing.assert_allclose(plain.log_ratio_many(MASKS), 0.0, atol=1e-10)
    null = plain.null_many(MASKS)
    assert (null.variance == 0.0).all()
    assert (null.expected == -np.inf).all()
    assert (plain.invariance_test(MASKS, Tolerance()).joint == 1.0).all()
    assert np.isnan(plain.left_out_r2_many(MASKS)).all()


@every
def test_threads_and_copies_change_no_bit(name: str) -> None:
    model = bound(name, n_jobs=1)
    expected = model.log_ratio_many(MASKS)
    for other in (bound(name, n_jobs=3), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.log_ratio_many(MASKS), expected)
        np.testing.assert_array_equal(other.gain_many(MASKS), model.gain_many(MASKS))


@every
@pytest.mark.parametrize(
    "tolerance", [Tolerance(), Tolerance().weak, Tolerance.strict(), Tolerance(level=0.7)], ids=str
)
def test_bounds_tell_what_p_values_say(name: str, tolerance: Tolerance) -> None:
    """Of data whose environments are alike, of such that are not, and with a feature that varies in
    two of them."""
    for change, seed in product(("none", "slopes", "constant"), range(2)):
        data = table(FAMILIES[name][1])
        X = data.X + np.random.default_rng(seed).normal(scale=0.3, size=data.X.shape)
        rng = data.environment_index
        X[:, 1] += (change == "slopes") * rng * data.y
        X[rng > 1, 2] = 0.0 if change == "constant" else X[rng > 1, 2]
        model = bound(name, replace(data, X=X))
        expected = model.invariance_test(MASKS, tolerance).joint >= tolerance.level
        np.testing.assert_array_equal(model.compatible(MASKS, tolerance), expected)


@pytest.mark.parametrize(("family", "link"), [(Logistic(), "classes"), (Poisson(), "count")])
def test_an_environment_unlike_the_others_is_seen(family: Any, link: str) -> None:
    """Together ten environments are alike, one of them is not: bounds must not pass it."""
    rng = np.random.default_rng(2)
    tolerance = Tolerance(level=1e-4)
    site = np.repeat(range(10), 200)
    X = rng.normal(size=(2000, 2))
    told = 0
    for slope in np.linspace(0.9, 1.9, 6):
        predictor = np.where(site == 3, slope, 0.6) * X[:, 0]
        y = (
            rng.random(2000) < 1.0 / (1.0 + np.exp(-predictor))
            if link == "classes"
            else rng.poisson(np.exp(predictor))
        )
        model = family.bind(MultiEnvironmentData.from_arrays(X, y.astype(float), site))
        test = model.invariance_test(all_masks(2), tolerance)
        masks = all_masks(2)
        for level in np.geomspace(1e-12, 0.5, 40):
            at = replace(tolerance, level=level, weak_level=level)
            test = model.invariance_test(masks, at)
            together = model._all_together(masks, at)[0]
            np.testing.assert_array_equal(model.compatible(masks, at), test.joint >= level)
            told += int(((together >= level) & (test.joint < level)).sum())
    assert told > 0


@every
def test_walks_are_near_what_is_reported(name: str) -> None:
    """By blocks and by lists, with a feature that is always in, and with sizes that do not
    count."""
    model = bound(name)
    free = np.array([3, 0, 1])
    forced = np.array([2])
    masks = np.zeros((8, P), dtype=bool)
    masks[:, free] = all_masks(3)
    masks[:, forced] = True
    expected = model.log_ratio_many(masks)
    tolerance = max(model.walk_error, 1e-8)
    for walk in (model.subset_walk(free, forced), SubsetWalk(model, free, forced)):
        np.testing.assert_allclose(
            walk.dense(NOTHING, np.ones(4, dtype=bool)).log_ratio, expected, atol=tolerance
        )
        members = np.empty((7, 2), np.int32)
        listed = walk.listed(NOTHING, 2, np.array([True, True, True, True]), members).log_ratio
        codes = [sum(1 << j for j in row if j >= 0) for row in members.tolist()]
        assert sorted(codes) == [0, 1, 2, 3, 4, 5, 6]
        np.testing.assert_allclose(listed, expected[codes], atol=tolerance)


@pytest.mark.parametrize("name", [name for name in FAMILIES if not name.startswith("additive")])
def test_a_group_is_its_columns(name: str) -> None:
    data = table(FAMILIES[name][1])
    groups = {"g": ["x1", "x2"]}
    grouped = MultiEnvironmentData.from_arrays(
        data.X, data.y, data.environment_index, groups=groups, event=data.event
    )
    model = bound(name, grouped)
    single = bound(name, data)
    masks = all_masks(3)
    expected = single.log_ratio_many(masks[:, [0, 1, 1, 2]])
    np.testing.assert_allclose(model.log_ratio_many(masks), expected, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(
        model.fit(["g"]).coefficients, single.fit(["x1", "x2"]).coefficients, rtol=1e-6
    )
    walked = (
        model.subset_walk(np.arange(3), NOTHING).dense(NOTHING, np.ones(4, dtype=bool)).log_ratio
    )
    np.testing.assert_allclose(walked, expected, atol=max(model.walk_error, 1e-7))


@pytest.mark.parametrize("name", [name for name in FAMILIES if not name.startswith("additive")])
def test_a_dummy_that_others_of_its_feature_give_adds_nothing(name: str) -> None:
    """Three dummies of three levels, of which environment 2 lacks one, are as good as two."""
    data = table(FAMILIES[name][1])
    rng = np.random.default_rng(0)
    level = np.where(data.environment_index == 2, rng.integers(1, 3, 180), rng.integers(0, 3, 180))
    X = np.column_stack([np.eye(3)[level], data.X[:, 0]])
    about = (data.y, data.environment_index)
    three, two = (
        MultiEnvironmentData.from_arrays(
            X[:, kept],
            *about,
            feature_names=[f"x{j}" for j in kept],
            groups={"g": columns},
            event=data.event,
        )
        for kept, columns in (([0, 1, 2, 3], ["x0", "x1", "x2"]), ([0, 1, 3], ["x0", "x1"]))
    )
    model = bound(name, three)
    expected = bound(name, two)
    masks = all_masks(2)
    np.testing.assert_allclose(
        model.log_ratio_many(masks), expected.log_ratio_many(masks), rtol=1e-7, atol=1e-7
    )
    fit = model.fit(["g", "x3"])
    np.testing.assert_allclose(
        fit.coefficients[[0, 1, 3]], expected.fit(["g", "x3"]).coefficients, rtol=1e-6
    )
    assert fit.coefficients[2] == 0.0


# {name: most features that five rows of an environment can fit}
FEW = dict.fromkeys(["gaussian", "mean", "additive", "logistic", "poisson", "logistic, effects"], 3)
FEW |= {"negative binomial": 2}


@pytest.mark.parametrize("name", FEW)
def test_too_few_rows_of_an_environment(name: str) -> None:
    data = table(FAMILIES[name][1], counts=(5, 60))
    most = FEW[name]
    for given in (data, Moments.from_data(data)) if name in ("gaussian", "mean") else (data,):
        model = bound(name, given)
        large = MASKS.sum(axis=1) > most
        assert model.largest_size == most
        np.testing.assert_array_equal(model.log_ratio_many(MASKS) == -np.inf, large)
        assert (
            (model.rescore(MASKS[large]) == -np.inf).all()
            if given is data
            else model.rescore(MASKS) is None
        )
        (reason,) = model.outside_support(MASKS)
        assert f"5 rows of environment '0' are too few to fit more than {most} columns" in reason
        with pytest.raises(
            DataError, match=f"environment '0' has 5 rows, .* max_size={most} at most"
        ):
            walked_log_ratios(model, most + 1)
        if FAMILIES[name][1] != "number":
            with pytest.raises(DataError, match="cannot be fitted"):
                model.fit(MASKS[-1])


@pytest.mark.parametrize("name", ["gaussian", "mean", "bayesian", "additive"])
def test_a_copy_of_the_outcome_is_outside_the_support(name: str) -> None:
    data = table("number")
    model = bound(name, replace(data, X=np.column_stack([data.X[:, :3], 3.0 * data.y - 2.0])))
    for values in (model.log_ratio_many(MASKS), model.gain_many(MASKS)):
        np.testing.assert_array_equal(values == -np.inf, MASKS[:, 3])
    (reason,) = model.outside_support(MASKS)
    assert reason.startswith("'x3' determines the outcome")
    assert model.nearly_outcome().tolist() == [False, False, False, True]


LAWS = {
    "mean": (LinearGaussian("mean"), (25, 25), 4, (1.0, 3.0)),
    "bayesian": (BayesianLinearGaussian(), (15,) * 5, 4, (1.0,) * 5),
    "bayesian, strong prior": (BayesianLinearGaussian(10.0), (50, 50, 200), 3, (1.0,) * 3),
    "additive": (Additive(knots=4), (25, 25, 25), 2, (1.0,) * 3),
}


@pytest.mark.parametrize(("family", "counts", "k", "noise"), LAWS.values(), ids=LAWS)
def test_the_law_of_invariant_subsets(
    family: Any, counts: tuple[int, ...], k: int, noise: tuple[float, ...]
) -> None:
    """Mean and variance of log Λ, and tails that are uniform, where environments have few rows."""
    rng = np.random.default_rng(0)
    site = np.repeat(range(len(counts)), counts)
    mask = np.ones((1, k), dtype=bool)
    X = rng.normal(size=(len(site), k)) * rng.uniform(0.3, 3.0, (len(counts), k))[site]
    X += 2.0 * rng.normal(size=(len(counts), k))[site]
    scores = []
    tails = []
    for _ in range(120):
        y = 5.0 * X.sum(axis=1) + np.array(noise)[site] * rng.normal(size=len(site))
        model = family.bind(MultiEnvironmentData.from_arrays(X, y, site))
        value = model.log_ratio_many(mask)
        null = model.null_many(mask)
        scores.append(((value - null.expected) / np.sqrt(null.variance))[0])
        tails.append(model.invariance_tails(mask, value)[0])
    assert np.mean(scores) == pytest.approx(0.0, abs=0.2)
    assert np.std(scores) == pytest.approx(1.0, abs=0.2)
    assert kstest(tails, "uniform").pvalue > 1e-3


@every
def test_fits_of_all_rows_alone_are_those_beside_local_ones(name: str) -> None:
    model = bound(name)
    both = model.fit(["x0", "x1"])
    alone = model.fit(["x0", "x1"], local=False)
    np.testing.assert_allclose(alone.coefficients, both.coefficients, rtol=1e-9)
    assert alone.intercept == pytest.approx(both.intercept, rel=1e-9)
    assert both.local_coefficients.shape == (3, len(both.columns))
    assert alone.local_coefficients.shape == (0, len(both.columns))


# ---------------------------------------------------------------- regressions


@pytest.mark.parametrize("name", ["survival", "plain logistic", "poisson", "logistic, effects"])
def test_newton_does_not_stop_too_early(name: str) -> None:
    """Of many small tables, walks are near what is reported, and that is near what coefficients are
    read from."""
    for seed in range(15):
        model = bound(name, table(FAMILIES[name][1], seed, (12, 12, 14)))
        reported = model.scores(MASKS).log_ratio
        np.testing.assert_allclose(walked_log_ratios(model, P), reported, atol=1e-3)
        np.testing.assert_allclose(reported, model.scores(MASKS, READ).log_ratio, atol=1e-8)


@pytest.mark.parametrize(
    "name", ["logistic", "plain poisson", "plain negative binomial", "logistic, effects"]
)
@pytest.mark.parametrize(("factor", "offset"), [(1e5, 0.0), (1e-5, 0.0), (1.0, 1e6)])
def test_own_fits_do_not_depend_on_units_of_an_environment(
    name: str, factor: float, offset: float
) -> None:
    data = table(FAMILIES[name][1], counts=(120, 120, 120))
    moved = data.X.copy()
    own = data.rows(1)
    moved[own, 0] = factor * moved[own, 0] + offset
    before = bound(name, data)
    after = bound(name, replace(data, X=moved))
    plain = before.figures(MASKS[-1])
    other = after.figures(MASKS[-1])
    assert other.degrees[0] == plain.degrees[0]
    assert (other.pooled - other.log_ratio)[0] == pytest.approx(
        (plain.pooled - plain.log_ratio)[0], abs=1e-7
    )
    known = before.fit(MASKS[-1])
    found = after.fit(MASKS[-1])
    predictor = data.X[own] @ known.local_coefficients[1] + known.local_intercepts[1]
    again = moved[own] @ found.local_coefficients[1] + found.local_intercepts[1]
    np.testing.assert_allclose(again, predictor, atol=1e-4)
    known.local_coefficients[1, 0] /= factor
    np.testing.assert_allclose(found.local_coefficients, known.local_coefficients, rtol=1e-5)


@pytest.mark.parametrize("apart", [1e-3, 1e-5])
@pytest.mark.parametrize(
    "name",
    [
        *("gaussian", "mean", "logistic", "poisson", "negative binomial", "survival"),
        *("logistic, effects", "survival, effects"),
    ],
)
def test_columns_that_are_nearly_combinations(name: str, apart: float) -> None:
    """The rows decide what second moments cannot: the same space, the same values."""
    data = table(FAMILIES[name][1], counts=(120, 120, 120))
    near = data.X.copy()
    near[:, 1] = near[:, 0] + apart * near[:, 1]
    far, close = (bound(name, replace(data, X=X)) for X in (data.X, near))
    for ask in ("log_ratio_many", "gain_many"):
        np.testing.assert_allclose(
            getattr(close, ask)(MASKS[3]), getattr(far, ask)(MASKS[3]), rtol=1e-6
        )
    assert close.null_many(MASKS[3]).degrees == far.null_many(MASKS[3]).degrees
    expected, found = (model.fit(MASKS[3]).predict(model.data.X[:, :2]) for model in (far, close))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    if name in ("gaussian", "mean") and apart < 1e-4:
        alone = bound(name, Moments.from_data(close.data))
        assert alone.log_ratio_many(MASKS[3])[0] == -np.inf
        assert alone.outside_support(MASKS[3])[0].startswith("'x0', 'x1' are")


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        (
            LinearGaussian,
            {"invariance": ["median"], "prediction": [-0.1, np.inf, "much"]},
        ),
        (BayesianLinearGaussian, {"prior_rows": [0.0, -1.0, np.nan, np.inf, "1", table("number")]}),
        (Additive, {"knots": [2, 4.0, True, "many"], "comparison": ["full", table("number")]}),
        (Logistic, {"pseudo_rows": [-1.0, np.nan, np.inf, True, "1"]}),
        (Poisson, {"pseudo_rows": [-1.0]}),
        (NegativeBinomial, {"pseudo_rows": [-1.0]}),
        (
            PiecewiseExponential,
            {"intervals": ["eight", 0, 2.5, True], "steps": [0, 1.5], "pseudo_rows": [-1.0]},
        ),
    ],
    ids=lambda given: given.__name__ if isinstance(given, type) else "",
)
def test_settings_that_are_refused(family: Any, settings: dict[str, list[Any]]) -> None:
    for name, wrong in settings.items():
        for value in wrong:
            with pytest.raises(SettingError, match=f"^{name}="):
                family(**{name: value})


TIMES = table("time")
COUNTS = table("count")


@pytest.mark.parametrize(
    ("family", "data", "named"),
    [
        (Logistic(), replace(COUNTS, y=np.arange(180.0) % 3), "'y' has 3"),
        (Poisson(), replace(COUNTS, y=COUNTS.y - 0.5), "180 rows, for example"),
        (
            NegativeBinomial(),
            replace(COUNTS, y=np.where(np.arange(180) == 3, -1.0, COUNTS.y)),
            "1 rows, .* -1",
        ),
        (Poisson(), replace(COUNTS, y=0.0 * COUNTS.y), "'y' is 0 in all"),
        (PiecewiseExponential(), replace(TIMES, event=None), "times 'y'"),
        (
            PiecewiseExponential(),
            replace(TIMES, y=np.where(np.arange(180) < 2, 0.0, TIMES.y)),
            "'y' is not in 2 rows",
        ),
        (PiecewiseExponential(), replace(TIMES, event=0.0 * TIMES.y), "'event' is 0 in all"),
        (
            LinearGaussian(),
            replace(COUNTS, y=np.where(COUNTS.environment_index == 1, 0.0, COUNTS.y)),
            "environment '1'",
        ),
        *(
            (family, Moments.from_data(table("number")), "needs the rows")
            for family in (Additive(), Logistic())
        ),
    ],
)
def test_data_that_are_refused(family: Any, data: Any, named: str) -> None:
    with pytest.raises(DataError, match=named):
        family.bind(data)


def test_remedies() -> None:
    """Pseudo-data where an environment has no events, which is told."""
    data = replace(TIMES, event=np.where(TIMES.environment_index == 0, 0.0, TIMES.event))
    with pytest.raises(DataError, match="environment '0'") as of_times:
        PiecewiseExponential(pseudo_rows=0.0).bind(data)
    assert of_times.value.args[0].remedies[0].settings == (("pseudo_rows", 1),)
    with pytest.warns(DataWarning, match="environment '0'"):
        PiecewiseExponential().bind(data)
