from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logsumexp

from invariance import BIP, BetaBinomialPrior, Enumeration, InclusionPrior, LinearGaussian, UniformPrior, Variational
from invariance.data import MultiEnvironmentData
from invariance.exceptions import ApproximationWarning
from invariance.inference.base import RunOptions, Target
from invariance.inference.variational.ascent import FreeSpace
from invariance.inference.variational.diagnostics import pareto_smoothed, reweight
from invariance.inference.variational.mean_field import MeanField, Mixture, fit_mixture
from invariance.inference.variational.posterior import VariationalPosterior
from invariance.kernels.mean_field import Trace, ascend, draw_pairs
from invariance.simulation import p10
from reference_data import load_reference, reference_files
from twins import all_masks, coupled_draws, datasets, simulated, u2g_estimates
from variational_fit import fit

pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.ApproximationWarning")


def product_probabilities(logits: np.ndarray) -> np.ndarray:
    """q of all 2**p subsets."""
    q, masks = expit(logits), all_masks(len(logits))
    return np.where(masks, q, 1 - q).prod(axis=1)


@pytest.mark.parametrize(
    "logits",
    [np.zeros(6), np.linspace(-3, 3, 6), np.array([4.0, -4.0, 0.1, 1.0, -0.5, 2.0])],
    ids=["flat", "line", "mixed"],
)
def test_u2g_is_unbiased(logits: np.ndarray) -> None:
    """20,000 estimates average to the enumerated gradient within 4 standard errors in every coordinate."""
    p = len(logits)
    masks = all_masks(p)
    values = np.random.default_rng(1).normal(size=len(masks)) * 5
    code = 1 << np.arange(p)

    def function(draws: np.ndarray) -> np.ndarray:
        return values[draws @ code]

    q = expit(logits)
    weights = product_probabilities(logits)
    exact = ((masks - q) * (weights * values)[:, None]).sum(axis=0)
    estimates = u2g_estimates(function, logits, np.random.default_rng(2).random((20_000, p)))
    error = estimates.std(axis=0) / np.sqrt(len(estimates))
    assert (np.abs(estimates.mean(axis=0) - exact) < 4 * error + 1e-12).all()


def test_each_of_the_coupled_draws_has_the_right_margins() -> None:
    logits = np.array([-2.0, 0.0, 1.5])
    uniforms = np.random.default_rng(0).random((40_000, 3))
    first, second = coupled_draws(logits, uniforms)
    inclusion, draws = np.empty(3), np.empty((80_000, 3), dtype=bool)
    draw_pairs(logits, uniforms, inclusion, draws)
    np.testing.assert_allclose(inclusion, expit(logits), rtol=1e-12)
    np.testing.assert_array_equal(draws[0::2], first)
    np.testing.assert_array_equal(draws[1::2], second)
    error = np.sqrt(expit(logits) * (1 - expit(logits)) / 40_000)
    for draws in (first, second):
        assert (np.abs(draws.mean(axis=0) - expit(logits)) < 4.5 * error).all()


@pytest.mark.parametrize("analytic", [True, False])
@pytest.mark.parametrize(
    "prior", [UniformPrior(), InclusionPrior([0.2, 0.7, 0.5, 0.9]), BetaBinomialPrior(1, 3)], ids=str
)
def test_compiled_steps_are_the_plain_algorithm(prior, analytic: bool) -> None:
    """The ascent kernel against U2G in NumPy on the same uniforms: ELBO gradients, all priors, both KL terms."""
    model = LinearGaussian().bind(simulated(4, (20, 25), seed=40))
    bound = prior.bind(model.feature_names)
    space = FreeSpace(Target(model, bound))
    rng = np.random.default_rng(5)
    uniforms, rates = rng.random((3, 7, 4)), np.array([2.0, 5.0, 1.0])
    logits = np.array([0.3, -0.5, 0.0, 1.0])

    plain = logits.copy()
    for t in range(3):
        q = expit(plain)

        def objective(draws: np.ndarray, at: np.ndarray = plain) -> np.ndarray:
            size_prior = bound.log_size_weight[draws.sum(axis=1)]
            values = model.log_ratio_many(draws) + size_prior
            if not analytic:
                values = values + draws @ (bound.log_odds - at)
            return values

        step = u2g_estimates(objective, plain, uniforms[t]).mean(axis=0)
        if analytic:
            step = step + q * (1 - q) * (bound.log_odds - plain)
        plain = plain + rates[t] * step / 45.0

    trace = Trace(*np.empty((3, 3)), np.empty((3, 4)))
    scorer = space.scorer(64, searching=True)
    ascend(logits, uniforms, rates, np.full(3, analytic), space.objective(np.nan), np.zeros(1), scorer, trace)
    np.testing.assert_allclose(logits, plain, rtol=1e-9)
    assert (trace.feasible == 1.0).all()


def test_many_features_score_as_the_conditional_does() -> None:
    """Beyond the look-up range draws are scored one by one and remembered; a tiny memory changes nothing."""
    model = LinearGaussian().bind(simulated(18, (40, 50), seed=41))
    runs = [
        fit(model, UniformPrior(5), Variational(iterations=200, memory=memory, draws=200)) for memory in (2, 1 << 12)
    ]
    np.testing.assert_array_equal(runs[0].inclusion, runs[1].inclusion)
    assert runs[0].elbo == runs[1].elbo


@pytest.mark.parametrize("p", [3, 7])
def test_analytic_kl_equals_the_enumerated_one(p: int) -> None:
    logits = np.random.default_rng(p).normal(size=p) * 2
    weights = product_probabilities(logits)
    enumerated = float(weights @ (np.log(weights) + p * np.log(2)))
    assert p * np.log(2) - MeanField(logits, p).entropy == pytest.approx(enumerated, rel=1e-12)


@settings(max_examples=15, deadline=None)
@given(datasets(max_features=6), st.integers(0, 100), st.sampled_from([None, 2]))
def test_elbo_is_below_the_evidence(data, seed: int, max_size: int | None) -> None:
    model = LinearGaussian().bind(data)
    prior = UniformPrior(max_size)
    posterior = fit(model, prior, Variational(iterations=60, draws=50), seed)
    exact = Enumeration().run(Target(model, prior.bind(model.feature_names, model.largest_size)), RunOptions())
    assert posterior.elbo <= exact.log_evidence + 1e-9
    assert posterior.diagnostics["elbo_error"] == 0.0


def test_sampled_elbo_agrees_with_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model = LinearGaussian().bind(simulated(5, (15, 20), seed=42))
    exact = fit(model, UniformPrior(3))
    monkeypatch.setattr("invariance.inference.variational.ascent._LOOK_UP", 0)
    sampled = fit(model, UniformPrior(3), Variational(fresh=20_000))
    assert sampled.diagnostics["elbo_error"] > 0
    assert sampled.elbo == pytest.approx(exact.elbo, abs=0.5)
    evidence = Enumeration().run(Target(model, UniformPrior(3).bind(5)), RunOptions()).log_evidence
    assert sampled.elbo <= evidence + 4 * sampled.diagnostics["elbo_error"]


def test_mean_field_distribution() -> None:
    q = MeanField(np.array([2.0, -1.0, np.inf, -np.inf, 0.3]), 2)
    masks = all_masks(5)
    probabilities = np.exp(q.log_prob(masks))
    assert probabilities.sum() == pytest.approx(1.0)
    inside = masks.sum(axis=1) <= 2
    assert (probabilities[~inside] == 0).all()
    unrestricted = np.exp(MeanField(q.logits, 5).log_prob(masks))
    assert np.exp(q.log_support_mass) == pytest.approx(unrestricted[inside].sum())
    np.testing.assert_allclose(probabilities[inside], unrestricted[inside] / unrestricted[inside].sum())
    draws = q.sample(2000, np.random.default_rng(0))
    assert draws.sum(axis=1).max() <= 2
    assert draws[:, 2].all()
    best = q.leading(3)
    order = np.argsort(-np.where(inside, probabilities, 0.0), kind="stable")
    np.testing.assert_array_equal(best, masks[order[:3]])
    np.testing.assert_array_equal(q.mode, masks[order[0]])


def test_same_seed_same_answer_for_any_number_of_threads() -> None:
    model = LinearGaussian().bind(simulated(14, (40, 50), seed=44))
    one, two, other = (fit(model, UniformPrior(), seed=seed, n_jobs=jobs) for seed, jobs in ((1, 1), (1, 2), (2, 1)))
    np.testing.assert_array_equal(one.inclusion, two.inclusion)
    assert one.diagnostics["trace"] == two.diagnostics["trace"]
    assert not np.array_equal(one.inclusion, other.inclusion)


def test_hard_inclusions_and_exclusions() -> None:
    model = LinearGaussian().bind(simulated(6, (30, 35), seed=45))
    posterior = fit(model, InclusionPrior({"x0": 1.0, "x3": 0.0}))
    assert posterior.inclusion[0] == 1.0
    assert posterior.inclusion[3] == 0.0
    assert posterior.masks[:, 0].all()
    assert not posterior.sample(100, random_state=0)["x3"].any()


def test_posterior_of_a_run() -> None:
    data = p10(10, np.random.default_rng(3)).sample(200, np.random.default_rng(4))
    model = BIP(engine="vi", random_state=0).fit(data)
    posterior = model.posterior_
    assert isinstance(posterior, VariationalPosterior)
    exact = BIP().fit(data).posterior_
    assert posterior.mode == exact.mode
    np.testing.assert_allclose(posterior.reweighted.inclusion, exact.inclusion, atol=1e-3)
    assert posterior.reweighted.log_evidence == pytest.approx(exact.log_evidence, abs=0.2)
    q = posterior.inclusion
    expected = np.where(posterior.mode_mask, q, 1 - q).prod()
    assert posterior.probability(posterior.mode) == pytest.approx(expected, rel=1e-9)
    trace = posterior.trace
    assert len(trace) == 6000
    assert set(trace["start"]) == {"uninformative", "informative", "searched"}
    assert (trace["error"] >= 0).all()
    assert posterior.diagnostics["seconds"] > 0
    again = VariationalPosterior.from_json(posterior.to_json())
    np.testing.assert_array_equal(again.reweighted.inclusion, posterior.reweighted.inclusion)
    pd_trace = again.trace
    assert pd_trace["elbo"].tolist() == trace["elbo"].tolist()


def test_early_stopping() -> None:
    model = LinearGaussian().bind(simulated(5, (30, 35), seed=46))
    posterior = fit(model, UniformPrior(), Variational(patience=100, starts=("uninformative",)))
    assert posterior.diagnostics["iterations"] < 2000


def test_poor_approximation_is_announced() -> None:
    """After a single step q is nearly flat over 16,384 subsets while the posterior holds to a few of them."""
    model = LinearGaussian().bind(simulated(14, (60, 70), seed=47))
    with pytest.warns(ApproximationWarning, match="the approximation is poor: Pareto k̂ is"):
        posterior = fit(model, UniformPrior(), Variational(iterations=1, draws=400))
    assert posterior.diagnostics["pareto_k"] > 0.7
    assert "draws are effective" in posterior.notes[-1]
    assert posterior.notes[1:] == posterior.reweighted.notes[1:]


def test_pareto_k_of_known_tails() -> None:
    """Weights with a Pareto tail of index 1/k give k back; equal weights have no tail."""
    rng = np.random.default_rng(0)
    for k in (0.3, 0.5, 0.9):
        estimates = [pareto_smoothed(-k * np.log(rng.random(20_000)))[0] for _ in range(20)]
        assert np.mean(estimates) == pytest.approx(k, abs=0.06)
    assert pareto_smoothed(np.zeros(1000))[0] == -np.inf


def test_reweighting_recovers_the_posterior() -> None:
    model = LinearGaussian().bind(simulated(5, (15, 18), seed=48))
    prior = UniformPrior().bind(5)
    exact = Enumeration().run(Target(model, prior), RunOptions())
    q = MeanField(np.zeros(5), 5)
    masks = q.sample(20_000, np.random.default_rng(0))
    result = reweight(masks, model.log_ratio_many(masks), prior.log_prob(masks), q.log_prob(masks), keep=32)
    np.testing.assert_allclose(result.inclusion, exact.inclusion, atol=0.03)
    assert result.log_evidence == pytest.approx(exact.log_evidence, abs=0.05)
    assert logsumexp(result.log_probabilities) == pytest.approx(0.0, abs=1e-9)


def two_modes() -> LinearGaussian:
    """E=2 and a feature that stands in for a cause: several distant subsets are about equally invariant."""
    rng = np.random.default_rng(7)
    site = np.repeat([0, 1], 60)
    cause = rng.normal(size=120) + site
    twin = cause + 0.05 * rng.normal(size=120)
    y = cause + 0.3 * rng.normal(size=120)
    X = np.column_stack([cause, twin, y * (1 + site) + rng.normal(size=120), rng.normal(size=(120, 2))])
    return LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, y, site))


def test_mixture_is_at_least_as_good_as_its_best_component() -> None:
    model = two_modes()
    prior = UniformPrior().bind(5)
    single = fit(model, UniformPrior())
    mixture = fit(model, UniformPrior(), Variational(components="auto"))
    exact = Enumeration().run(Target(model, prior), RunOptions())
    assert len(mixture.diagnostics["weights"]) > 1
    assert sum(mixture.diagnostics["weights"]) == pytest.approx(1.0)
    assert single.elbo - 1e-6 <= mixture.elbo <= exact.log_evidence + 4 * mixture.diagnostics["elbo_error"] + 1e-9
    far = np.abs(single.inclusion - exact.inclusion).max()
    assert np.abs(mixture.inclusion - exact.inclusion).max() <= far + 0.05
    draws = mixture.sample(4000, random_state=0).to_numpy()
    np.testing.assert_allclose(draws.mean(axis=0), mixture.inclusion, atol=0.05)


def test_mixture_weights_on_known_components() -> None:
    """A posterior that is itself a mixture: the weights come back and the bound is tight."""
    parts = (MeanField(np.array([6.0, -6.0, 0.0]), 3), MeanField(np.array([-6.0, 6.0, 1.0]), 3))
    target = Mixture(parts, np.array([0.3, 0.7]))
    fitted, elbo = fit_mixture(parts, target.log_prob, 4000, np.random.default_rng(0))
    np.testing.assert_allclose(fitted.weights, [0.3, 0.7], atol=0.03)
    assert elbo.value == pytest.approx(0.0, abs=1e-3)
    for part in parts:
        assert elbo.value > fit_mixture((part,), target.log_prob, 4000, np.random.default_rng(0))[1].value
    masks = all_masks(3)
    assert np.exp(target.log_prob(masks)).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(np.exp(target.log_prob(masks)) @ masks, target.inclusion, rtol=1e-9)
    weights = np.exp(target.log_prob(masks))
    assert target.entropy == pytest.approx(-(weights * np.log(weights)).sum(), abs=0.05)
    np.testing.assert_array_equal(target.leading(2)[0], masks[np.argmax(weights)])


def test_modes_of_a_table() -> None:
    model = two_modes()
    space = FreeSpace(Target(model, UniformPrior().bind(5)))
    modes = space.table_modes()
    values = model.log_ratio_many(all_masks(5))
    assert model.log_ratio(modes[0]) == pytest.approx(values.max())
    for mode in modes:
        assert (model.flip_neighbours(mode) <= 1e-9).all()


def test_collinear_features_do_not_stop_the_search() -> None:
    data = simulated(6, (40, 50), seed=49)
    X = np.column_stack([data.X, data.X[:, 0] + data.X[:, 1]])
    data = MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)
    posterior = BIP(engine="vi", random_state=0).fit(data).posterior_
    assert np.isfinite(posterior.elbo)
    assert np.isfinite(posterior.log_ratios[0])


@pytest.mark.parametrize("name", [name for name in reference_files() if "E2" not in name.split("_")])
def test_reference_modes(name: str) -> None:
    """The mode that another implementation of the algorithm found; its ELBO is a noisy maximum, above the evidence."""
    reference = load_reference(name)
    posterior = BIP(engine=Variational.simulation(), random_state=0).fit(reference.data).posterior_
    assert np.flatnonzero(posterior.mode_mask).tolist() == reference.results["bip_vi"]["mode"]
    assert posterior.elbo <= reference.results["bip_exact"]["log_evidence"] + 1e-6


@pytest.mark.slow
def test_agrees_with_the_exact_mode() -> None:
    """p=10 preset, E from 5 on: over 100 data sets the modes agree in at least 97."""
    agreed = 0
    for replicate in range(100):
        rng = np.random.default_rng([10, replicate])
        n_environments = (5, 10, 20)[replicate % 3]
        data = p10(n_environments, rng).sample(200, rng)
        exact, vi = (BIP(engine=name, random_state=0).fit(data).posterior_.mode for name in ("exact", "vi"))
        agreed += exact == vi
    assert agreed >= 97
