"""The predictive posterior over all subsets: the compiled screen and the search among what it lets pass."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chi2, ncf

from invariance import Enumeration, InclusionPrior, LinearGaussian, MultiEnvironmentData, UniformPrior
from invariance.decisions import predictive as compatible_walk
from invariance.decisions.predictive import PredictiveModel, predictive_posterior
from invariance.inference.base import RunOptions, Target
from invariance.models.invariance_test import Tolerance
from invariance.models.walks import mean_limits, within_limits
from invariance.moments import Moments
from invariance.posterior.posterior import Posterior
from predictive_twin import DATA, collinear, constant_inside, grouped, plain, twin_value, twin_values
from twins import all_masks

TOLERANT, STRICT = Tolerance(), Tolerance.strict()

on_data = pytest.mark.parametrize("make", DATA.values(), ids=DATA)


def found(data, prior=None, tolerance: Tolerance = TOLERANT, n_jobs: int | None = None) -> Posterior | None:
    model = LinearGaussian().bind(data)
    bound = (prior or UniformPrior()).bind(model.feature_names)
    return predictive_posterior(Target(model, bound), tolerance, Enumeration(), RunOptions(n_jobs=n_jobs))


def codes(masks: np.ndarray) -> np.ndarray:
    return masks @ (1 << np.arange(masks.shape[1]))


def assert_is(posterior: Posterior | None, values: np.ndarray, prior=None) -> None:
    """The posterior is that of values (2**p,) under the prior."""
    assert posterior is not None
    masks = all_masks(posterior.masks.shape[1])
    log_prior = (prior or UniformPrior()).bind(posterior.feature_names).log_prob(masks)
    joint = values + log_prior
    probability = np.exp(joint - logsumexp(joint))
    kept = posterior.log_probabilities > -np.inf
    np.testing.assert_allclose(
        np.exp(posterior.log_probabilities[kept]), probability[codes(posterior.masks[kept])], rtol=1e-6
    )
    np.testing.assert_allclose(posterior.inclusion, probability @ masks, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(posterior.log_evidence, logsumexp(joint), rtol=1e-8)
    assert posterior.diagnostics["subsets_compatible"] == (joint > -np.inf).sum()
    assert posterior.diagnostics["compatible_counted"] is True


# -------------------------------------------------------------------- against the twin


@on_data
@pytest.mark.parametrize("tolerance", [TOLERANT, STRICT], ids=["tolerant", "strict"])
def test_all_subsets_are_those_of_the_twin(make, tolerance: Tolerance) -> None:
    data = make()
    values = twin_values(data, tolerance)
    some = np.isfinite(values)
    assert some.any()
    assert data.n_environments == 1 or not some.all()
    assert_is(found(data, tolerance=tolerance), values)


@pytest.mark.parametrize("make", [plain, constant_inside, grouped], ids=["plain", "constant inside", "grouped"])
def test_moments_alone_know_no_tails(make) -> None:
    data = make()
    values = twin_values(data, STRICT, tails=False)
    assert (np.isfinite(values) != np.isfinite(twin_values(data, STRICT))).any()
    assert_is(found(Moments.from_data(data), tolerance=STRICT), values)


@on_data
def test_priors_force_weigh_and_limit(make) -> None:
    data = make()
    names = data.feature_names
    values = twin_values(data, TOLERANT)
    for prior in (
        InclusionPrior({names[0]: 1.0, names[2]: 0.05}),
        InclusionPrior({names[-1]: 0.0, names[1]: 0.9}),
        UniformPrior(max_size=2),
        InclusionPrior({names[1]: 0.9}, max_size=3),
    ):
        assert_is(found(data, prior), values, prior)


def test_lists_of_small_subsets_of_many_features() -> None:
    data = plain(p=14)
    values = np.full(1 << 14, -np.inf)
    small = all_masks(14).sum(axis=1) <= 2
    values[small] = [twin_value(data, mask, TOLERANT) for mask in all_masks(14)[small]]
    prior = UniformPrior(max_size=2)
    model = LinearGaussian().bind(data)
    assert (1 << 14) > model.dense_advantage * small.sum() > 0
    assert_is(found(data, prior), values, prior)


def test_decisions_are_those_of_the_evidence() -> None:
    """To the last bit, also with a level that is a subset's own p-value."""
    data = plain()
    masks = all_masks(6)
    joint = LinearGaussian().bind(data).invariance_test(masks, TOLERANT).joint
    for row in np.flatnonzero((joint > 0.01) & (joint < 0.9))[::5]:
        level = float(joint[row])
        posterior = found(data, tolerance=replace(TOLERANT, level=level))
        assert posterior is not None
        kept = posterior.masks[posterior.log_probabilities > -np.inf]
        assert set(codes(kept)) == set(np.flatnonzero(joint >= level))


# -------------------------------------------------------------------- what must not matter


@pytest.mark.parametrize("make", [plain, grouped, collinear], ids=["plain", "grouped", "collinear"])
def test_threads_change_no_bit(make) -> None:
    data = make()
    one, more = found(data), found(data, n_jobs=3)
    assert one is not None
    assert more is not None
    for name in ("masks", "log_probabilities", "inclusion", "log_evidence"):
        np.testing.assert_array_equal(getattr(one, name), getattr(more, name))


def probabilities(data: MultiEnvironmentData) -> dict[frozenset[str], float]:
    posterior = found(data)
    if posterior is None:
        return {}
    return {
        frozenset(name for name, chosen in zip(posterior.feature_names, mask, strict=True) if chosen): float(
            np.exp(value)
        )
        for mask, value in zip(posterior.masks, posterior.log_probabilities, strict=True)
        if value > -np.inf
    }


@given(st.integers(0, 1000))
@settings(max_examples=8, deadline=None)
def test_units_and_orders_of_rows_features_and_environments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = plain(p=5, counts=(25, 30, 20), seed=seed)
    expected = probabilities(data)
    rows, columns = rng.permutation(data.n_rows), rng.permutation(5)
    labels = rng.permutation(3)[data.environment_index]
    X = data.X * rng.uniform(0.1, 10.0, 5) * rng.choice([-1.0, 1.0], 5) + rng.normal(size=5)
    y = data.y * rng.uniform(0.1, 10.0) + rng.normal()
    names = np.array(data.feature_names)[columns]
    other = MultiEnvironmentData.from_arrays(
        X[rows][:, columns], y[rows], labels[rows], feature_names=[str(name) for name in names]
    )
    assert probabilities(other) == pytest.approx(expected, rel=1e-6)


def test_the_price_of_deciding_less_is_a_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    """What weighs nothing is left undecided once enough was decided; pieces of any size find the same."""
    data = plain(p=9, counts=(600, 500, 700))
    everything = found(data)
    monkeypatch.setattr(compatible_walk, "SOON", 0)
    monkeypatch.setattr(compatible_walk, "_FIRST_COLLECTED", 4)
    monkeypatch.setattr(compatible_walk, "_DECIDED_AT_ONCE", 3)
    leading = found(data)
    assert everything is not None
    assert leading is not None
    assert everything.diagnostics["compatible_counted"] is True
    assert leading.diagnostics["compatible_counted"] is False
    assert leading.diagnostics["subsets_compatible"] < everything.diagnostics["subsets_compatible"]
    np.testing.assert_allclose(leading.inclusion, everything.inclusion, rtol=1e-12)
    np.testing.assert_allclose(leading.log_evidence, everything.log_evidence, rtol=1e-12)
    heavy = everything.log_probabilities > everything.log_probabilities[0] - compatible_walk.WINDOW
    assert heavy.sum() > 4
    np.testing.assert_array_equal(leading.masks[: heavy.sum()], everything.masks[heavy])
    monkeypatch.setattr(compatible_walk, "SOON", 1 << 24)
    pieces = found(data)
    assert pieces is not None
    np.testing.assert_array_equal(pieces.masks, everything.masks)
    np.testing.assert_array_equal(pieces.log_probabilities, everything.log_probabilities)


def test_what_weighs_nothing_is_so_under_the_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """x1 predicts, and the prior hardly believes it: subsets without it are heavy only because of the prior."""
    monkeypatch.setattr(compatible_walk, "SOON", 0)
    monkeypatch.setattr(compatible_walk, "_DECIDED_AT_ONCE", 1)
    rng = np.random.default_rng(0)
    X, environment = rng.normal(size=(300, 6)), np.repeat([0, 1, 2], 100)
    y = X[:, 1] + X[:, 4] + rng.normal(size=300)
    data = MultiEnvironmentData.from_arrays(X, y, environment, groups={"g": ["x0", "x5"]})
    values = twin_values(data, TOLERANT)
    assert np.isfinite(values).mean() > 0.5
    prior = InclusionPrior({"x1": 1e-80})
    joint = values + prior.bind(data.feature_names).log_prob(all_masks(5))
    posterior = found(data, prior)
    assert posterior is not None
    np.testing.assert_allclose(posterior.log_evidence, logsumexp(joint), rtol=1e-8)
    assert posterior.inclusion[data.feature_names.index("x1")] < 0.01


class Weighed:
    """Blocks of four subsets whose weights are given."""

    n_features = 2

    def __init__(self, weights: list[float]) -> None:
        self.log_posterior = np.array(weights).reshape(-1, 4)
        self.n_blocks = len(self.log_posterior)

    def scored(self, block: int) -> SimpleNamespace:
        return SimpleNamespace(log_posterior=self.log_posterior[block], masks=lambda positions: all_masks(2)[positions])


@given(st.lists(st.sampled_from([-np.inf, 0.0, 1.0, 2.0, 3.0]), min_size=4, max_size=24), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_every_candidate_comes_once_and_the_heaviest_first(weights: list[float], most: int) -> None:
    blocks = Weighed(weights[: len(weights) // 4 * 4])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compatible_walk, "_FIRST_COLLECTED", most)
        pieces = list(compatible_walk._heaviest_first(blocks, None))
    places = np.concatenate([np.empty(0, int), *(4 * piece.block + piece.position for piece in pieces)])
    expected = np.argsort(-blocks.log_posterior.ravel(), kind="stable")
    np.testing.assert_array_equal(places, expected[: (blocks.log_posterior > -np.inf).sum()])
    for piece in pieces:
        np.testing.assert_array_equal(piece.weight, blocks.log_posterior[piece.block, piece.position])
        np.testing.assert_array_equal(codes(piece.draws), piece.position)


def test_other_models_are_walked_the_plain_way() -> None:
    model = LinearGaussian(second_moments="on demand").bind(plain())
    prior = UniformPrior().bind(model.feature_names)
    assert PredictiveModel(model, TOLERANT, prior=prior).subset_walk(prior.free, prior.forced) is None
    posterior = predictive_posterior(Target(model, prior), TOLERANT, Enumeration(), RunOptions())
    assert_is(posterior, twin_values(plain(), TOLERANT))


# -------------------------------------------------------------------- the parts


@pytest.mark.parametrize("make", [plain, constant_inside, grouped], ids=["plain", "constant inside", "grouped"])
@pytest.mark.parametrize("tolerance", [TOLERANT, STRICT], ids=["tolerant", "strict"])
def test_the_screen_rejects_much_and_nothing_that_is_compatible(make, tolerance: Tolerance) -> None:
    data = make()
    model = LinearGaussian().bind(data)
    free = np.arange(model.n_features)
    walk = model.screening_walk(free, free[:0], tolerance, lambda gain, columns: gain - columns)
    values = walk.dense(free[:0], np.ones(len(free) + 1, dtype=bool))
    masks = all_masks(model.n_features)
    compatible = model.invariance_test(masks, tolerance).joint >= tolerance.level
    passed = np.isfinite(values)
    assert passed[compatible].all()
    assert not passed[~compatible].all()
    weights = model.prediction_many(masks).gain - masks @ model.features.widths
    np.testing.assert_allclose(values[passed], weights[passed], rtol=1e-9, atol=1e-9)
    limits = mean_limits(Moments.from_data(data), tolerance)
    np.testing.assert_array_equal(passed, within_limits(model.residuals(masks), limits))


def test_limits_are_the_statistics_at_which_one_p_value_alone_rejects() -> None:
    data = plain()
    smallest = np.exp(-0.5 * chi2.isf(TOLERANT.level, 4))
    limits = mean_limits(Moments.from_data(data), TOLERANT)
    n, E, k = data.n_rows, 3, 2
    d, v = (E - 1) * (k + 1), n - E * (k + 1)
    assert ncf.sf(limits[k, 0], d, v, n * TOLERANT.delta) == pytest.approx(smallest, rel=1e-4)
    assert limits.shape == (7, 2)
    assert (limits[:, 1] == np.inf).all()
