"""What an approximation misses, and whether it says so."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import pytest

from invariance import (
    BIP,
    BetaBinomialPrior,
    Enumeration,
    InclusionPrior,
    LinearGaussian,
    Moments,
    UniformPrior,
    Variational,
)
from invariance.data import MultiEnvironmentData
from invariance.exceptions import ApproximationWarning
from invariance.inference.ascent import FreeSpace
from invariance.inference.base import RunOptions, Target
from invariance.inference.mean_field import MeanField, Mixture
from invariance.inference.modes import around, log_joint_changes, with_swaps
from invariance.inference.variational import missed_at_modes, missed_in_table
from twins import all_masks, simulated
from variational_fit import fit


def near_duplicates(p: int, seed: int) -> MultiEnvironmentData:
    """Two causes, each with a feature that is nearly the same, and a consequence."""
    rng = np.random.default_rng(seed)
    site = np.repeat([0, 1, 2], 40)
    X = rng.normal(size=(120, p)) * rng.uniform(0.5, 2.0, (3, p))[site] + rng.normal(size=(3, p))[site]
    y = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=120)
    X[:, 2:4] = X[:, :2] + 0.05 * rng.normal(size=(120, 2))
    X[:, 4] = y * rng.uniform(0.5, 1.5, 3)[site] + rng.normal(size=120)
    return MultiEnvironmentData.from_arrays(X, y, site)


@pytest.mark.parametrize(
    ("p", "engine"),
    [
        (6, Variational(iterations=300)),
        (18, Variational.simulation(iterations=300)),
        (18, Variational(components=2, iterations=300)),
    ],
    ids=["default", "simulation", "two components"],
)
def test_no_wrong_probability_in_silence(p: int, engine: Variational) -> None:
    """Inclusion after reweighting is right to 0.1, or there is a warning, which the notes of both posteriors keep."""
    prior, warned = UniformPrior(4), 0
    for seed in range(24 // p + 1):
        model = LinearGaussian().bind(near_duplicates(p, seed))
        exact = Enumeration().run(Target(model, prior.bind(p)), RunOptions())
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            posterior = fit(model, prior, engine, seed)
        doubts = [str(w.message) for w in raised if issubclass(w.category, ApproximationWarning)]
        off = np.abs(posterior.reweighted.inclusion - exact.inclusion).max()
        assert off < 0.1 or doubts
        assert set(doubts) <= set(posterior.notes)
        assert set(doubts) <= set(posterior.reweighted.notes)
        warned += bool(doubts)
    assert warned > 0


@pytest.mark.parametrize(("p", "seed"), [(6, 0), (18, 1)])
def test_a_good_approximation_is_not_doubted(p: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    site = np.repeat([0, 1, 2], 100)
    X = rng.normal(size=(300, p)) * rng.uniform(0.5, 2.0, (3, p))[site] + 2.0 * rng.normal(size=(3, p))[site]
    y = X[:, 0] - X[:, 1] + rng.normal(size=300)
    model, prior = LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, y, site)), BetaBinomialPrior(max_size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ApproximationWarning)
        posterior = fit(model, prior)
    exact = Enumeration().run(Target(model, prior.bind(p)), RunOptions())
    np.testing.assert_allclose(posterior.reweighted.inclusion, exact.inclusion, atol=0.05)


def test_the_remedies_work() -> None:
    data = near_duplicates(6, 1)
    with pytest.warns(ApproximationWarning, match="misses about") as raised:
        BIP(engine="vi", random_state=0).fit(data)
    message = next(w.message.args[0] for w in raised if "misses about" in str(w.message))
    settings = [dict(remedy.settings) for remedy in message.remedies]
    assert settings == [{"engine": "exact"}, {"engine": "vi(components=auto)"}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)
        exact, mixture = (BIP(random_state=0, **setting).fit(data).posterior_ for setting in settings)
    np.testing.assert_allclose(mixture.reweighted.inclusion, exact.inclusion, atol=0.1)


def missed_by_definition(model: LinearGaussian, prior, q) -> float:
    masks = all_masks(model.n_features)
    log_joint = model.log_ratio_many(masks) + prior.log_prob(masks)
    posterior = np.exp(log_joint - np.logaddexp.reduce(log_joint))
    return float(posterior[np.exp(q.log_prob(masks)) < posterior / 50].sum())


@pytest.mark.parametrize("prior", [UniformPrior(3), InclusionPrior({"x1": 0.9, "x5": 1.0, "x4": 0.0})], ids=str)
def test_missed_mass(prior) -> None:
    """Exactly from the table; by draws around the modes about the same; nothing for q as wide as the posterior."""
    model = LinearGaussian().bind(near_duplicates(6, 1))
    bound = prior.bind(6)
    space = FreeSpace(Target(model, bound))
    modes = with_swaps(space.target, space.table_modes(most=1))
    hard = np.where(bound.forced_in, np.inf, np.where(bound.forced_out, -np.inf, 0.0))
    one = MeanField(np.where(np.isfinite(hard), np.where(modes[0], 9.0, -9.0), hard), bound.max_size)
    wide = MeanField(hard, bound.max_size)
    expected = missed_by_definition(model, bound, one)
    missed = missed_in_table(space, one)
    assert missed.mass == pytest.approx(expected, abs=1e-12)
    assert missed.mass > 0.2
    assert missed.probability > 50 * missed.approximate
    exact = Enumeration().run(Target(model, bound), RunOptions())
    assert missed.probability == pytest.approx(exact.probability(missed.mask), rel=1e-6)
    searched = missed_at_modes(space.target, one, modes, 4000, np.random.default_rng(0))
    assert searched.mass == pytest.approx(expected, abs=0.05)
    np.testing.assert_array_equal(searched.mask, missed.mask)
    for q in (wide, Mixture((one, wide), np.array([0.3, 0.7]))):
        assert missed_in_table(space, q).mass == missed_by_definition(model, bound, q) < 0.05
        assert missed_at_modes(space.target, q, modes, 2000, np.random.default_rng(0)).mass < 0.05


def reached(model: LinearGaussian, prior, mode: np.ndarray, mask: np.ndarray) -> bool:
    """Whether the product around a mode gives a subset at least a fiftieth of its probability relative to the mode."""
    both = np.array([mode, mask])
    law, true = around(Target(model, prior), mode).log_prob(both), model.log_ratio_many(both) + prior.log_prob(both)
    return bool(np.diff(law - true)[0] >= -np.log(50))


def two_for_one() -> MultiEnvironmentData:
    """x0 is nearly x1 + x2."""
    rng = np.random.default_rng(5)
    site = np.repeat([0, 1, 2], 60)
    X = rng.normal(size=(180, 18)) * rng.uniform(0.5, 2.0, (3, 18))[site] + rng.normal(size=(3, 18))[site]
    X[:, 0] = X[:, 1] + X[:, 2] + 0.02 * rng.normal(size=180)
    y = X[:, 0] + X[:, 3] + 0.5 * rng.normal(size=180)
    return MultiEnvironmentData.from_arrays(X, y, site)


@pytest.mark.parametrize(
    ("data", "first", "others"),
    [(near_duplicates(20, 2), [0, 1], [[0, 3], [1, 2], [2, 3]]), (two_for_one(), [0, 3], [[1, 2, 3]])],
    ids=["duplicates", "two for one"],
)
def test_swaps_lead_to_where_the_others_are_in_reach(
    data: MultiEnvironmentData, first: list[int], others: list[list[int]]
) -> None:
    model, p = LinearGaussian().bind(data), data.n_features
    prior = UniformPrior(5).bind(p)
    mode = np.isin(np.arange(p), first)
    found = with_swaps(Target(model, prior), mode[None])
    value = model.log_ratio_many(found) + prior.log_prob(found)
    assert (np.diff(value) <= 0).all()
    assert value[0] - value[-1] < 8
    assert len(found) <= 24
    assert not any(reached(model, prior, better, mask) for better, mask in combinations(found, 2))
    for other in others:
        mask = np.isin(np.arange(p), other)
        assert not reached(model, prior, mode, mask)
        assert any((one == mask).all() or reached(model, prior, one, mask) for one in found)


@pytest.mark.parametrize(
    "prior", [UniformPrior(3), BetaBinomialPrior(1, 3, max_size=4), InclusionPrior({"x0": 0.8, "x2": 1.0, "x4": 0.0})]
)
def test_changes_by_single_flips(prior) -> None:
    model = LinearGaussian().bind(simulated(5, (20, 25), seed=9))
    bound = prior.bind(model.feature_names)
    for mask in all_masks(5):
        start = model.log_ratio_many(mask[None])[0] + bound.log_prob(mask)[0]
        if start > -np.inf:
            flipped = mask ^ np.eye(5, dtype=bool)
            expected = model.log_ratio_many(flipped) + bound.log_prob(flipped) - start
            np.testing.assert_allclose(log_joint_changes(Target(model, bound), mask), expected, rtol=1e-7, atol=1e-7)
    collinear = np.column_stack([model.data.X, model.data.X[:, :2].sum(axis=1)])
    data = MultiEnvironmentData.from_arrays(collinear, model.data.y, model.data.environment_index)
    without_rows = LinearGaussian().bind(LinearGaussian().bind(data).moments)
    everything = np.ones(6, dtype=bool)
    assert (log_joint_changes(Target(without_rows, UniformPrior().bind(6)), everything) == -np.inf).all()


def test_poor_approximation_is_announced() -> None:
    """After a single step q is nearly flat over 4,096 subsets while the posterior holds to a few of them."""
    model = LinearGaussian().bind(simulated(12, (60, 70), seed=47))
    with pytest.warns(ApproximationWarning, match="Pareto k̂"):
        posterior = fit(model, UniformPrior(), Variational(iterations=1, draws=400))
    assert posterior.diagnostics["pareto_k"] > 0.7
    assert posterior.notes[1:] == posterior.reweighted.notes[1:]


def test_mixture_is_at_least_as_good_as_its_best_component() -> None:
    model = LinearGaussian().bind(near_duplicates(5, 7))
    space = FreeSpace(Target(model, UniformPrior().bind(5)))
    modes = space.table_modes()
    assert model.log_ratio(modes[0]) == pytest.approx(model.log_ratio_many(all_masks(5)).max())
    assert all((model.flip_neighbours(mode) <= 1e-9).all() for mode in modes)
    exact = Enumeration().run(space.target, RunOptions())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)
        single, mixture = (fit(model, UniformPrior(), Variational(components=n)) for n in (1, "auto"))
    assert len(mixture.diagnostics["weights"]) > 1
    assert sum(mixture.diagnostics["weights"]) == pytest.approx(1.0)
    assert single.elbo - 1e-6 <= mixture.elbo <= exact.log_evidence + 4 * mixture.diagnostics["elbo_error"] + 1e-9
    far = np.abs(single.inclusion - exact.inclusion).max()
    assert np.abs(mixture.inclusion - exact.inclusion).max() <= far + 0.05


@pytest.mark.parametrize("components", [1, "auto"])
def test_probability_outside_the_support_is_announced(components: int | str) -> None:
    """Moments of two features that only rows could tell apart."""
    rng = np.random.default_rng(0)
    environment = np.repeat(range(4), 100)
    X = rng.normal(size=(400, 4)) + rng.normal(size=(4, 4))[environment]
    X[:, 1] = X[:, 0] + 1e-6 * rng.normal(size=400)
    y = X[:, 0] + 0.5 * rng.normal(size=400)
    model = LinearGaussian().bind(Moments.from_data(MultiEnvironmentData.from_arrays(X, y, environment)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = fit(model, UniformPrior(), Variational(components=components))
    both = posterior.sample(4000, random_state=0).to_numpy()[:, :2].all(axis=1).mean()
    assert posterior.diagnostics["undecided_mass"] == pytest.approx(both, abs=0.05)
    assert any("cannot be scored" in str(one.message) for one in caught) == (both >= 0.05)


@pytest.mark.parametrize("initial", [np.full(101, 0.03), None], ids=["given", "searched"])
def test_modes_that_nobody_looked_for_are_not_known(initial: np.ndarray | None) -> None:
    model = LinearGaussian().bind(simulated(101, (60, 60), seed=3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = fit(model, UniformPrior(max_size=6), Variational(initial=initial, iterations=50))
    assert (posterior.diagnostics["missed_mass"] is None) == (initial is not None)
    assert any("no search" in note for note in posterior.notes) == (initial is not None)
