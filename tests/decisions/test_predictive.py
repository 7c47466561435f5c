"""The predictive posterior: over all subsets, by a screen of them, and by a search along a soft
gate."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from conformance_cases import MODELS, table
from decision_twins import evidence
from invariance import (
    BIP,
    BetaBinomialPrior,
    Enumeration,
    InclusionPrior,
    LinearGaussian,
    Logistic,
    MultiEnvironmentData,
    Tempering,
    UniformPrior,
    Variational,
)
from invariance.decisions import predictive
from invariance.decisions.predictive import (
    SHARE,
    CompiledNeighbours,
    PredictiveScore,
    SoftGate,
    flipped_log_prior,
    neighbours_of,
    plain_neighbours,
    predictive_posterior,
)
from invariance.exceptions import NotInvariantWarning
from invariance.inference.base import RunOptions, Target
from invariance.models.base import BoundModel
from invariance.models.gaussian_fits import Limits
from invariance.models.invariance_test import Tolerance
from invariance.moments import Moments
from invariance.posterior.posterior import Posterior
from regression_cases import plain_table, regression_data
from twins import all_masks, log_ratio

TOLERANT = Tolerance()
STRICT = Tolerance.strict()
UNIFORM = UniformPrior()
TEMPERING = Tempering()
EXACT = Enumeration()


def plain(
    p: int = 6, counts: tuple[int, ...] = (60, 50, 70), seed: int = 0, effect: float = 0.6
) -> MultiEnvironmentData:
    """y from x0 and x1 with heavy tails; the last feature follows from y, differently in each
    environment."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(np.arange(len(counts)), counts)
    X = (
        rng.normal(size=(len(environment), p)) * (1.0 + environment[:, None] / 3.0)
        + environment[:, None]
    )
    y = X[:, 0] - effect * X[:, 1] + rng.standard_t(5, len(X))
    X[:, -1] += (1.0 + 0.7 * environment) * y
    return MultiEnvironmentData.from_arrays(X, y, environment if len(counts) > 1 else None)


def changed(columns, groups: dict[str, list[str]] | None = None, **how) -> MultiEnvironmentData:
    """`plain` with other columns, given those there are and the environments."""
    data = plain(**how)
    X = columns(data.X.copy(), data.environment_index)
    return MultiEnvironmentData.from_arrays(X, data.y, data.environment_index, groups=groups or {})


def constant_inside() -> MultiEnvironmentData:
    def columns(X, environment):
        X[environment == 1, 2] = 0.5
        X[environment == 0, 3] = 1.0
        X[environment == 2, 3] = -1.0
        return X

    return changed(columns)


def grouped() -> MultiEnvironmentData:
    def columns(X, environment):
        codes = np.random.default_rng(3).integers(0, 4, len(X))
        codes[(environment == 1) & (codes == 0)] = 1
        return np.column_stack([X, codes[:, None] == np.arange(1, 4), X[:, 2] ** 2])

    return changed(columns, {"g": ["x6", "x7", "x8"], "h": ["x3", "x9"]})


def set_columns() -> MultiEnvironmentData:
    """Three columns that each environment has set for all of its rows: of rank two in the pool."""
    return changed(lambda X, e: np.column_stack([X, (e + 1.0)[:, None] ** np.arange(1, 4)]), p=4)


def collinear() -> MultiEnvironmentData:
    return changed(lambda X, e: np.column_stack([X, X[:, 0] + X[:, 2], X[:, 3]]), p=5)


DATA = {
    "plain": plain,
    "constant inside": constant_inside,
    "grouped": grouped,
    "settings": set_columns,
    "collinear": collinear,
    "one environment": lambda: plain(counts=(80,)),
    "small": lambda: plain(p=5, counts=(9, 12, 10, 14)),
    "many environments": lambda: plain(p=5, counts=(20,) * 8, effect=0.3),
}


def twin_values(
    data: MultiEnvironmentData,
    tolerance: Tolerance,
    masks: np.ndarray | None = None,
    tails: bool = True,
):
    """(S,) −½ cost of subsets (S, p), by default all; -inf where they are not compatible with
    invariance."""
    columns = data.features.expand(all_masks(data.n_features) if masks is None else masks)
    found = evidence(data, columns)
    n = data.n_rows
    if not tails:
        found.kurtosis[:] = 0.0
    with np.errstate(all="ignore"):
        p_values = np.ones(len(columns))
        if data.n_environments > 1:
            p_values = found.p_invariant(tolerance.rho, tolerance.tau, tolerance.lowest_level)
        _, freedom = found.freedom
        scored = (freedom >= 1).all(axis=0) & (found.local > 1e-9).all(axis=0)
    gain = 0.5 * n * np.log(np.sum((data.y - data.y.mean()) ** 2) / found.pooled)
    compatible = scored & (p_values >= tolerance.level)
    price = max(
        np.log(n) + 2.0 * np.log(data.n_features), SHARE * 2.0 * gain[compatible].max(initial=0.0)
    )
    return np.where(compatible, gain - 0.5 * price * columns.sum(axis=1), -np.inf)


on_three = pytest.mark.parametrize("make", [plain, constant_inside, grouped])


def target_of(model: BoundModel, prior=UNIFORM) -> Target:
    return Target(model, prior.bind(model.feature_names, model.largest_size))


def posterior_of(
    target: Target, engine=TEMPERING, tolerance=TOLERANT, seed=0, n_jobs=1, **known
) -> Posterior | None:
    options = RunOptions(n_jobs, np.random.default_rng(seed), progress=False)
    return predictive_posterior(replace(target, tolerance=tolerance), engine, options, **known)


def exact(data, prior=UNIFORM, tolerance: Tolerance = TOLERANT, n_jobs: int = 1) -> Posterior:
    found = posterior_of(
        target_of(LinearGaussian().bind(data), prior), EXACT, tolerance, n_jobs=n_jobs
    )
    assert found is not None
    return found


def codes(masks: np.ndarray) -> np.ndarray:
    return masks @ (1 << np.arange(masks.shape[1]))


def assert_is(posterior: Posterior, values: np.ndarray, prior=UNIFORM) -> None:
    """The posterior is that of values (2**p,) under the prior."""
    masks = all_masks(posterior.masks.shape[1])
    joint = values + prior.bind(posterior.feature_names).log_prob(masks)
    probability = np.exp(joint - logsumexp(joint))
    np.testing.assert_allclose(
        np.exp(posterior.log_probabilities), probability[codes(posterior.masks)], rtol=1e-6
    )
    np.testing.assert_allclose(posterior.inclusion, probability @ masks, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(posterior.log_evidence, logsumexp(joint), rtol=1e-8)
    assert posterior.diagnostics["subsets_compatible"] <= (joint > -np.inf).sum()


# ---------------------------------------------------------------- all subsets


@pytest.mark.parametrize("make", DATA.values(), ids=DATA)
@pytest.mark.parametrize("tolerance", [TOLERANT, STRICT], ids=["tolerant", "strict"])
def test_all_subsets_are_those_of_the_twin(make, tolerance: Tolerance) -> None:
    data = make()
    values = twin_values(data, tolerance)
    some = np.isfinite(values)
    assert some.any()
    assert data.n_environments == 1 or not some.all()
    assert_is(exact(data, tolerance=tolerance), values)


@pytest.mark.parametrize("make", DATA.values(), ids=DATA)
def test_priors_force_weigh_and_limit(make) -> None:
    data = make()
    names = data.feature_names
    values = twin_values(data, TOLERANT)
    for prior in (
        InclusionPrior({names[0]: 1.0, names[2]: 0.05}),
        InclusionPrior({names[-1]: 0.0, names[1]: 0.9}),
        InclusionPrior({names[1]: 0.9}, max_size=3),
    ):
        assert_is(exact(data, prior), values, prior)


@on_three
def test_moments_alone_know_no_tails(make) -> None:
    values = twin_values(make(), STRICT, tails=False)
    assert (np.isfinite(values) != np.isfinite(twin_values(make(), STRICT))).any()
    assert_is(exact(Moments.from_data(make()), tolerance=STRICT), values)


def test_lists_of_small_subsets_of_many_features() -> None:
    data = plain(p=14)
    prior = UniformPrior(max_size=2)
    small = all_masks(14).sum(axis=1) <= 2
    values = np.full(1 << 14, -np.inf)
    values[small] = twin_values(data, TOLERANT, all_masks(14)[small])
    assert (1 << 14) > LinearGaussian().bind(data).dense_advantage * small.sum() > 0
    assert_is(exact(data, prior), values, prior)


def test_one_environment_unlike_many_others_counts() -> None:
    """With one noncentrality for all, the slope of 1.5 among 19 of 1 would be tolerated."""
    rng = np.random.default_rng(2)
    site = np.repeat(np.arange(20), 200)
    X = rng.normal(size=(4000, 2)) + rng.normal(size=(20, 1))[site]
    y = np.where(site == 7, 1.5, 1.0) * X[:, 0] + rng.normal(size=4000)
    data = MultiEnvironmentData.from_arrays(X, y, site)
    model = BIP(progress=False)
    twin = evidence(data)
    with pytest.warns(NotInvariantWarning):
        model.fit(data)
    found = model.posterior_.evidence(["x0"])
    place = int(np.flatnonzero((twin.masks == [True, False]).all(axis=1))[0])
    assert found.p_mean == pytest.approx(twin.p_mean(0.1)[place], rel=1e-6)
    assert found.p_mean > 0.1
    assert found.p_each == pytest.approx(twin.p_each(0.1)[place], rel=1e-6)
    assert found.p_invariant == pytest.approx(20.0 * found.p_each, rel=1e-9)
    assert found.p_invariant < 0.02
    assert (model.decision_.verdict.grade, model.decision_.verdict.environment) == (
        "alike but for one",
        "7",
    )


@pytest.mark.parametrize("make", [plain, grouped, collinear])
def test_threads_change_no_bit(make) -> None:
    one = exact(make())
    more = exact(make(), n_jobs=3)
    for name in ("masks", "log_probabilities", "inclusion", "log_evidence"):
        np.testing.assert_array_equal(getattr(one, name), getattr(more, name))


def probabilities(data: MultiEnvironmentData) -> dict[frozenset[str], float]:
    subsets = exact(data).subsets(None)
    return dict(zip(map(frozenset, subsets["subset"]), subsets["probability"], strict=True))


@given(st.integers(0, 1000))
@settings(max_examples=5)
def test_units_and_orders_of_rows_features_and_environments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = plain(p=5, counts=(25, 30, 20), seed=seed)
    rows = rng.permutation(data.n_rows)
    columns = rng.permutation(5)
    labels = rng.permutation(3)[data.environment_index]
    X = data.X * rng.uniform(0.1, 10.0, 5) * rng.choice([-1.0, 1.0], 5) + rng.normal(size=5)
    y = data.y * rng.uniform(0.1, 10.0) + rng.normal()
    names = [data.feature_names[j] for j in columns]
    other = MultiEnvironmentData.from_arrays(
        X[rows][:, columns], y[rows], labels[rows], feature_names=names
    )
    assert probabilities(other) == pytest.approx(probabilities(data), rel=1e-6)


def test_what_weighs_nothing_is_left_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of any size, and few candidates in memory, find the same, and so do all, decided to
    the last."""
    data = plain(p=9, counts=(1600, 1500, 1700))
    monkeypatch.setattr(predictive, "_FEWEST_AT_ONCE", 4)
    usual = exact(data)
    assert usual.diagnostics["compatible_counted"] is False
    for name, value in (("_MOST_WAITING", 40), ("_MOST_AT_ONCE", 5), ("_MANY", 0)):
        monkeypatch.setattr(predictive, name, value)
    monkeypatch.setattr("invariance.kernels.subset_tree.MOST_LOW", 4)
    pieces = exact(data)
    n = min(len(pieces.masks), len(usual.masks))
    np.testing.assert_array_equal(pieces.masks[:n], usual.masks[:n])
    np.testing.assert_allclose(pieces.inclusion, usual.inclusion, rtol=0.0, atol=1e-7)
    monkeypatch.setattr(predictive, "_MOST_KEPT", 4)
    few = exact(data)
    np.testing.assert_allclose(few.inclusion, usual.inclusion, rtol=0.0, atol=1e-7)
    monkeypatch.setattr(predictive, "UNDECIDED", 1e-300)
    everything = exact(data)
    assert (
        everything.diagnostics["compatible_counted"] is False
    )  # of those that were dropped nobody knows
    assert usual.diagnostics["subsets_compatible"] < everything.diagnostics["subsets_compatible"]
    np.testing.assert_allclose(usual.inclusion, everything.inclusion, rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(usual.log_evidence, everything.log_evidence, rtol=0.0, atol=1e-7)
    np.testing.assert_array_equal(usual.masks, everything.masks[: len(usual.masks)])


def test_a_candidate_between_two_prices_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the lowest price one compatible subset is far heavier, at the highest another; between
    them a third may be."""
    for name, value in (("_MOST_WAITING", 6), ("_FEWEST_AT_ONCE", 2), ("SHARE", 0.1), ("_MANY", 0)):
        monkeypatch.setattr(predictive, name, value)
    monkeypatch.setattr("invariance.kernels.subset_tree.MOST_LOW", 2)
    site = np.repeat(range(3), (700, 800, 900))
    for seed in (32, 40, 54, 59, 69, 230):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(2400, 7))
        y = X @ (rng.uniform(0.0, 0.6, 7) * rng.choice([0, 1, 1], 7)) + rng.normal(size=2400)
        if rng.random() < 0.6:
            X[:, -1] = y * rng.uniform(0.5, 2.0, 3)[site] + rng.normal(size=2400)
        data = MultiEnvironmentData.from_arrays(X, y, site)
        model = LinearGaussian().bind(data)
        masks = all_masks(7)
        compatible = model.compatible(masks, TOLERANT)
        gain = model.gain_many(masks)
        score = PredictiveScore.with_price(model, TOLERANT, gain[compatible].max())
        assert score.price > PredictiveScore.with_price(model, TOLERANT).price
        weights = np.where(compatible, score.log_weights(masks), -np.inf)
        expected = np.exp(weights - logsumexp(weights)) @ masks
        np.testing.assert_allclose(exact(data).inclusion, expected, rtol=0.0, atol=1e-6)


def test_what_weighs_nothing_is_so_under_the_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """x1 predicts, and the prior hardly believes it: subsets without it are heavy only because of
    the prior."""
    monkeypatch.setattr(predictive, "_FEWEST_AT_ONCE", 1)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    environment = np.repeat([0, 1, 2], 100)
    y = X[:, 1] + X[:, 4] + rng.normal(size=300)
    data = MultiEnvironmentData.from_arrays(X, y, environment, groups={"g": ["x0", "x5"]})
    prior = InclusionPrior({"x1": 1e-80})
    joint = twin_values(data, TOLERANT) + prior.bind(data.feature_names).log_prob(all_masks(5))
    posterior = exact(data, prior)
    np.testing.assert_allclose(posterior.log_evidence, logsumexp(joint), rtol=1e-8)
    assert posterior.inclusion[data.feature_names.index("x1")] < 0.01


def test_models_that_cannot_screen_are_scored_one_by_one() -> None:
    logistic = Logistic().bind(regression_data(*plain_table(False, n=150, p=6)))
    target = target_of(logistic, InclusionPrior({"x2": 1.0}))
    masks = all_masks(6)
    joint = target.prior.log_prob(masks) + PredictiveScore.with_price(
        logistic, Tolerance.strict(0.05)
    ).log_ratio_many(masks)
    weights = np.exp(joint - joint.max())
    assert 0 < (weights > 0.0).sum() < 32
    found = posterior_of(target, EXACT, Tolerance.strict(0.05))
    np.testing.assert_allclose(found.inclusion, weights @ masks / weights.sum(), atol=1e-8)


@on_three
@pytest.mark.parametrize("tolerance", [TOLERANT, STRICT], ids=["tolerant", "strict"])
def test_the_screen_rejects_much_and_nothing_that_is_compatible(make, tolerance: Tolerance) -> None:
    model = LinearGaussian().bind(make())
    free = np.arange(model.n_features)
    masks = all_masks(model.n_features)
    walk = model.subset_walk(free, free[:0], tolerance)
    least = np.full(model.free_columns.sum() + 1, -np.inf)
    log_ratio, gain = walk.dense(free[:0], np.ones(len(free) + 1, dtype=bool), least)
    compatible = model.invariance_test(masks, tolerance).joint >= tolerance.level
    np.testing.assert_array_equal(model.compatible(masks, tolerance), compatible)
    passed = np.isfinite(gain)
    assert passed[compatible].all()
    assert not passed[~compatible].all()
    np.testing.assert_allclose(log_ratio, model.log_ratio_many(masks), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gain[passed], model.gain_many(masks)[passed], rtol=1e-9, atol=1e-9)
    allowed = Limits.of(model, tolerance).allow(model.residuals(masks))
    widths = model.moments.varying_widths
    full = ~masks[:, (widths < widths[-1]).any(axis=0)].any(axis=1)
    assert not (passed & ~allowed)[full].any()
    assert (passed | ~allowed).all()


# ---------------------------------------------------------------- a search


def many(p: int = 10) -> MultiEnvironmentData:
    """Three environments, which move all features but act on the outcome through x0 and x1 only;
    the last follows the outcome, differently in each. Feature x2 is constant in the first."""
    rng = np.random.default_rng(0)
    environment = np.repeat(range(3), (70, 80, 90))
    X = rng.normal(size=(240, p)) + rng.normal(size=(3, p))[environment]
    X[environment == 0, 2] = 1.5
    y = 1.2 * X[:, 0] - 0.8 * X[:, 1] + rng.normal(size=240)
    X[:, -1] = np.array([1.0, -0.4, 2.0])[environment] * y + 0.5 * rng.normal(size=240)
    return MultiEnvironmentData.from_arrays(X, y, environment)


def gate_of(model: BoundModel, price: float, width: float, kappa: float) -> SoftGate:
    return SoftGate(PredictiveScore(model, TOLERANT, price), width, kappa)


def test_flips_that_the_rows_cannot_decide() -> None:
    data = many(6)
    X = np.column_stack([data.X, data.X[:, 0] + data.X[:, 1]])
    model = LinearGaussian().bind(
        MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)
    )
    included = np.array([1, 1, 0, 0, 0, 0, 1], dtype=bool)
    assert (
        neighbours_of(target_of(model), gate_of(model, 5.0, 1.0, 5.0))(included) == -np.inf
    ).all()
    rng = np.random.default_rng(0)
    few = MultiEnvironmentData.from_arrays(
        rng.normal(size=(14, 6)), rng.normal(size=14), np.repeat([0, 1], 7)
    )
    model = LinearGaussian().bind(few)
    neighbours = neighbours_of(target_of(model), gate_of(model, 5.0, 1.0, 5.0))
    assert (neighbours(np.array([1, 1, 1, 1, 1, 0], dtype=bool)) > -np.inf).tolist() == [
        True
    ] * 5 + [False]


@pytest.mark.parametrize("kappa", [0.0, 80.0])
def test_compiled_neighbours_are_those_of_any_model(kappa: float) -> None:
    target = target_of(LinearGaussian().bind(many(7)))
    gate = gate_of(target.model, 9.0, 1.0, kappa)
    compiled = neighbours_of(target, gate)
    by_model = plain_neighbours(target.model, gate)
    assert isinstance(compiled, CompiledNeighbours)
    for mask in all_masks(7)[::5]:
        np.testing.assert_allclose(compiled(mask), by_model(mask), rtol=1e-8, atol=1e-7)


def test_what_the_soft_gate_asks() -> None:
    data = many(5)
    model = LinearGaussian().bind(data)
    n = data.n_rows
    mask = np.array([True, True, False, False, True])
    r2 = model.r2_many(mask[None])[0]
    excess = n * (min(0.02, 0.1**2 * r2 / (1.0 - r2)) + 0.1**2 / 2)
    null = model.null_many(mask[None])
    gain = model.gain_many(mask[None])
    allowed = -2 * null.expected[0] + excess + 2.0 * np.sqrt(4 * null.variance[0] + 4 * excess)
    deviance = -2 * log_ratio(data, mask)
    assert deviance > allowed
    expected = gain[0] - 0.5 * 9.0 * 3 - 0.5 * 7.0 * (deviance - allowed)
    without = np.array([True, True, False, False, False])
    assert neighbours_of(target_of(model), gate_of(model, 9.0, 2.0, 7.0))(without)[
        4
    ] == pytest.approx(expected)


def test_guessed_neighbours_are_near_the_plain_ones() -> None:
    model = Logistic().bind(regression_data(*plain_table(False, n=80)))
    gate = gate_of(model, 8.0, 0.0, 5.0)
    mask = np.array([True, False, False, False, False])
    guessed = neighbours_of(target_of(model), gate)(mask)
    by_model = plain_neighbours(model, gate)(mask)
    assert (guessed != by_model).any()
    np.testing.assert_allclose(guessed, by_model, atol=1.0 + 0.2 * np.ptp(by_model))
    assert guessed.argmax() == by_model.argmax()


@pytest.mark.parametrize(
    "prior",
    [
        UniformPrior(max_size=3),
        BetaBinomialPrior(1, 2),
        InclusionPrior({"x1": 1.0, "x3": 0.0, "x4": 0.9}, max_size=4),
    ],
)
@pytest.mark.parametrize("members", [[], [1], [0, 1, 4]])
def test_the_prior_of_flips(prior, members: list[int]) -> None:
    bound = prior.bind(tuple(f"x{j}" for j in range(6)), 6)
    mask = bound.forced_in.copy()
    mask[members] = True
    flipped = bound.log_prob(mask ^ np.eye(6, dtype=bool))
    np.testing.assert_allclose(
        flipped_log_prior(bound, mask) - bound.log_normalizer, flipped, atol=1e-12
    )


@pytest.mark.parametrize(
    ("model", "prior", "engine"),
    [
        (None, UNIFORM, TEMPERING),
        (None, BetaBinomialPrior(max_size=4), Variational()),
        (None, InclusionPrior({"x5": 1.0, "x3": 0.0, "x4": 0.9}), TEMPERING),
        (MODELS["without abilities"].bind(table(1, False)), UNIFORM, TEMPERING),
        (MODELS["unit noise"].bind(table(0, False)), UNIFORM, TEMPERING),
        (LinearGaussian().bind(table(True, binary=False)), UNIFORM, TEMPERING),
    ],
)
def test_it_is_the_exact_one_where_that_can_be_had(model, prior, engine) -> None:
    """Also of models without abilities and of features of several columns."""
    target = target_of(LinearGaussian().bind(many()) if model is None else model, prior)
    every = posterior_of(target, EXACT)
    found = posterior_of(target, engine)
    np.testing.assert_allclose(found.inclusion, every.inclusion, atol=1e-6)
    np.testing.assert_allclose(found.pairwise, every.pairwise, atol=1e-6)
    assert found.log_evidence == pytest.approx(every.log_evidence, abs=1e-6)
    assert found.entropy == pytest.approx(every.entropy, abs=1e-5)
    assert found.mode == every.mode
    np.testing.assert_allclose(found.log_ratios[:3], every.log_ratios[:3], atol=1e-7)
    assert asdict(found.evidence(found.mode)) == pytest.approx(
        asdict(every.evidence(every.mode)), nan_ok=True
    )


def test_threads_and_seeds() -> None:
    target = target_of(LinearGaussian().bind(many(12)), BetaBinomialPrior(max_size=6))
    one = posterior_of(target)
    two = posterior_of(target, n_jobs=2)
    other = posterior_of(target, seed=1)
    np.testing.assert_array_equal(one.masks, two.masks)
    np.testing.assert_array_equal(one.inclusion, two.inclusion)
    assert one.mode == other.mode == ("x0", "x1")
    assert one.diagnostics["subsets_visited"] != other.diagnostics["subsets_visited"]


@pytest.mark.parametrize("engine", [TEMPERING, EXACT], ids=["search", "exact"])
def test_what_the_result_answers(engine) -> None:
    target = target_of(LinearGaussian().bind(many()))
    posterior = posterior_of(target, engine)
    every = posterior_of(target, EXACT)
    np.testing.assert_allclose(
        posterior.sample(2000, random_state=0).mean(), posterior.inclusion, atol=0.05
    )
    assert posterior.probability(np.ones(10, dtype=bool)) == 0.0
    assert posterior.probability(("x0", "x1", "x5")) == pytest.approx(
        every.probability(("x0", "x1", "x5"))
    )
    short = replace(
        posterior, masks=posterior.masks[:1], log_ratios=[0.0], log_probabilities=[-3.0]
    )
    assert (
        short.credible_subsets(0.9)["subset"].tolist()
        == posterior.credible_subsets(0.9)["subset"].tolist()
    )
    assert (
        PredictiveScore.with_price(target.model, TOLERANT).log_ratio_many(posterior.masks) > -np.inf
    ).all()
    assert posterior.diagnostics["subsets_compatible"] == len(posterior.masks)
    if engine is TEMPERING:
        found = posterior.diagnostics
        assert found["subsets_visited"] <= found["subsets_tested"] <= 1024
        assert len(posterior.notes) == 1


def test_nothing_compatible() -> None:
    rng = np.random.default_rng(1)
    environment = np.repeat(range(3), 100)
    y = 5.0 * environment + np.array([1.0, 3.0, 9.0])[environment] * rng.normal(size=300)
    data = MultiEnvironmentData.from_arrays(rng.normal(size=(300, 8)), y, environment)
    target = target_of(LinearGaussian().bind(data))
    assert posterior_of(target) is None
    assert posterior_of(target, EXACT) is None


def test_known_subsets_are_tested_and_what_lies_around_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a search that goes nowhere, what is known and what lies around it is the answer."""
    monkeypatch.setattr(predictive, "_STEPS", 1)
    target = target_of(LinearGaussian().bind(many(40)), BetaBinomialPrior(max_size=8))
    known = np.zeros((1, 40), dtype=bool)
    known[0, [0, 1, 7, 9]] = True
    everything = posterior_of(target, known=known)
    assert everything.mode == ("x0", "x1")
    assert everything.diagnostics["complete"]
    assert everything.diagnostics["searches_that_found_the_best"] == 0
    assert len(everything.notes) == 2
    monkeypatch.setattr(predictive, "_MOST_AROUND", 5)
    some = posterior_of(target, known=known).diagnostics
    assert some["subsets_tested"] == some["subsets_visited"] + 5
    assert not some["complete"]
