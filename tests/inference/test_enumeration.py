from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.special import logsumexp

from invariance import BetaBinomialPrior, Enumeration, InclusionPrior, LinearGaussian, Tempering, UniformPrior
from invariance.data import MultiEnvironmentData
from invariance.exceptions import ApproximationWarning, EngineError
from invariance.inference.base import RunOptions, Target
from invariance.inference.registry import choose_engine
from invariance.models.walks import GaussianWalk
from invariance.moments import Moments
from reference_data import load_reference, reference_files
from twins import all_masks, datasets, simulated

PRIORS = [
    UniformPrior(),
    UniformPrior(max_size=2),
    InclusionPrior(0.2),
    InclusionPrior({"x0": 1.0, "x2": 0.0, "x1": 0.9}),
    InclusionPrior([0.1, 0.9, 1.0, 0.4], max_size=3),
    BetaBinomialPrior(1, 3),
    BetaBinomialPrior(2, 2, max_size=2),
]


def plain_posterior(model: LinearGaussian, bound) -> tuple[np.ndarray, np.ndarray, float]:
    masks = all_masks(model.n_features)
    log_joint = bound.log_prob(masks) + model.log_ratio_many(masks)
    return masks, log_joint - logsumexp(log_joint), float(logsumexp(log_joint))


def run(model: LinearGaussian, prior, engine: Enumeration | None = None, n_jobs: int | None = None):
    bound = prior.bind(model.feature_names, model.largest_size)
    return (engine or Enumeration()).run(Target(model, bound), RunOptions(n_jobs=n_jobs))


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_agrees_with_plain_enumeration(prior) -> None:
    model = LinearGaussian().bind(simulated(4, (20, 25, 15), seed=20))
    bound = prior.bind(model.feature_names, model.largest_size)
    masks, log_posterior, log_evidence = plain_posterior(model, bound)
    posterior = run(model, prior)
    weights = np.exp(log_posterior)
    np.testing.assert_allclose(posterior.inclusion, weights @ masks, atol=1e-12)
    np.testing.assert_allclose(posterior.pairwise, (masks * weights[:, None]).T @ masks, atol=1e-12)
    assert posterior.log_evidence == pytest.approx(log_evidence, abs=1e-9)
    finite = weights > 0
    assert posterior.entropy == pytest.approx(-(weights[finite] * log_posterior[finite]).sum(), abs=1e-9)
    assert posterior.n_subsets == bound.support_size()
    for mask, value in zip(masks, weights, strict=True):
        assert posterior.probability(mask) == pytest.approx(value, abs=1e-10)
    best = masks[np.argmax(log_posterior)]
    assert posterior.mode_mask.tolist() == best.tolist()


@settings(max_examples=20, deadline=None)
@given(datasets())
def test_evidence_and_mass(data) -> None:
    posterior = run(LinearGaussian().bind(data), UniformPrior())
    assert posterior.log_evidence <= 1e-12
    assert np.exp(posterior.log_probabilities).sum() == pytest.approx(1.0, abs=1e-9)
    assert (posterior.log_ratios <= 0).all()


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("max_size", [None, 3])
def test_blocks_memory_and_threads_do_not_change_the_result(
    monkeypatch: pytest.MonkeyPatch, streamed: bool, max_size: int | None
) -> None:
    model = LinearGaussian().bind(simulated(11, (40, 50, 60), seed=21))
    whole = run(model, UniformPrior(max_size))
    monkeypatch.setattr("invariance.kernels.subset_tree.LOW_FEATURES", 4)
    monkeypatch.setattr("invariance.inference.enumeration._LARGEST_LISTED_BLOCK", 16)
    engine = Enumeration(keep=50, in_memory=0 if streamed else 1 << 24)
    cut, threaded = (run(model, UniformPrior(max_size), engine, n_jobs) for n_jobs in (1, 3))
    for name in ("inclusion", "pairwise", "log_probabilities", "masks"):
        np.testing.assert_array_equal(getattr(threaded, name), getattr(cut, name))
    np.testing.assert_allclose(cut.inclusion, whole.inclusion, atol=1e-12)
    np.testing.assert_allclose(cut.log_probabilities, whole.log_probabilities[:50], rtol=1e-9)
    assert cut.entropy == pytest.approx(whole.entropy, abs=1e-9)
    np.testing.assert_array_equal(cut.masks, whole.masks[:50])
    if not streamed:
        assert cut.credible_subsets(0.999)["cumulative"].iloc[-1] >= 0.999 - 1e-12


def test_many_features_with_a_small_size_limit_are_walked_directly() -> None:
    model = LinearGaussian().bind(simulated(40, (60, 70), seed=22))
    posterior = run(model, UniformPrior(max_size=2))
    assert posterior.diagnostics["subsets_scored"] == 1 + 40 + 780
    masks = posterior.masks
    np.testing.assert_allclose(posterior.log_ratios, model.log_ratio_many(masks), rtol=1e-9)
    weights = np.exp(posterior.log_probabilities)
    np.testing.assert_allclose(posterior.inclusion, weights @ masks, atol=1e-12)
    np.testing.assert_allclose(posterior.pairwise, (masks * weights[:, None]).T @ masks, atol=1e-12)


@pytest.mark.parametrize("in_memory", [0, 1 << 24])
def test_draws_follow_the_posterior(in_memory: int) -> None:
    model = LinearGaussian().bind(simulated(5, (10, 12), seed=23))
    posterior = run(model, InclusionPrior({"x1": 1.0}), Enumeration(in_memory=in_memory, keep=3))
    draws = posterior.sample(4000, random_state=1).to_numpy()
    standard_error = np.sqrt(posterior.inclusion * (1 - posterior.inclusion) / 4000) + 1e-9
    assert (np.abs(draws.mean(axis=0) - posterior.inclusion) < 4.5 * standard_error).all()
    assert draws[:, 1].all()
    again = pickle.loads(pickle.dumps(posterior))
    np.testing.assert_array_equal(again.sample(10, random_state=2), posterior.sample(10, random_state=2))


def test_collinear_subsets_are_reported() -> None:
    data = simulated(4, (20, 25), seed=24)
    X = np.column_stack([data.X, data.X[:, 0] + data.X[:, 1]])
    data = MultiEnvironmentData.from_arrays(X, data.y, data.environment_index, feature_names=list("abcde"))
    posterior = run(LinearGaussian().bind(Moments.from_data(data)), UniformPrior())
    assert posterior.diagnostics["subsets_undecidable"] == 4
    assert posterior.notes == (
        "4 of 32 subsets are outside the support: 'a', 'b', 'e' are too collinear in environments 0, 1, more than "
        "second moments can resolve: pass the data, or read their rows in a second pass.",
    )
    assert posterior.probability(["a", "b", "e"]) == 0.0
    by_rows = run(LinearGaussian().bind(data), UniformPrior())
    assert by_rows.notes == ()
    assert by_rows.probability(["a", "b", "e"]) == pytest.approx(by_rows.probability(["a", "b"]), rel=1e-8)


def test_disagreement_with_the_rows_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """If second moments were wrong about leading subsets, everything follows the rows."""
    model = LinearGaussian().bind(simulated(4, (20, 25), seed=25))
    truth = run(model, UniformPrior())
    correct = model.rescore(all_masks(4))
    wrong_subset = truth.masks[2]
    scored = GaussianWalk.dense

    def spoiled(self: GaussianWalk, *arguments: Any) -> np.ndarray:
        result = scored(self, *arguments)
        result[int((wrong_subset << np.arange(4)).sum())] -= 0.5
        return result

    monkeypatch.setattr(GaussianWalk, "dense", spoiled)
    with pytest.warns(ApproximationWarning, match="1 of the 16 leading subsets were re-scored from the rows"):
        repaired = run(model, UniformPrior())
    assert "second moments were off by up to" in repaired.notes[0]
    np.testing.assert_allclose(repaired.inclusion, truth.inclusion, atol=1e-9)
    np.testing.assert_allclose(repaired.pairwise, truth.pairwise, atol=1e-9)
    assert repaired.entropy == pytest.approx(truth.entropy, abs=1e-9)
    assert repaired.log_evidence == pytest.approx(truth.log_evidence, abs=1e-9)
    assert repaired.probability(wrong_subset) == pytest.approx(
        np.exp(correct[(wrong_subset << np.arange(4)).sum()] - logsumexp(correct)), rel=1e-8
    )


def test_refuses_hours() -> None:
    model = LinearGaussian().bind(simulated(60, (100, 120), seed=26))
    with pytest.raises(EngineError, match=r"subsets would take about .* (days|years)"):
        run(model, UniformPrior())
    bound = UniformPrior().bind(model.feature_names, model.largest_size)
    assert isinstance(choose_engine("auto", Target(model, bound)), Tempering)
    assert isinstance(choose_engine("tempering", Target(model, bound)), Tempering)
    small = UniformPrior(max_size=2).bind(model.feature_names, model.largest_size)
    assert isinstance(choose_engine("auto", Target(model, small)), Enumeration)
    with pytest.raises(ValueError, match="engine='exakt' is not known: use 'auto', 'exact'"):
        choose_engine("exakt", Target(model, small))


def test_forcing_collinear_features_in_is_an_error() -> None:
    data = simulated(3, (20, 25), seed=27)
    X = np.column_stack([data.X, data.X[:, 0]])
    model = LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, data.y, data.environment_index))
    with pytest.raises(EngineError, match=r"'x0', 'x3' are too collinear .* All subsets hold 'x0', 'x3': force"):
        run(LinearGaussian().bind(model.moments), InclusionPrior({"x0": 1, "x3": 1}))
    both, one = (run(model, InclusionPrior({"x0": 1, "x3": value})) for value in (1, 0))
    np.testing.assert_allclose(both.inclusion[:3], one.inclusion[:3], atol=1e-9)


@pytest.mark.parametrize("name", reference_files())
def test_reference_posteriors(name: str) -> None:
    reference = load_reference(name)
    posterior = run(LinearGaussian().bind(reference.data), UniformPrior())
    stored = reference.arrays["log_posterior"]
    masks = all_masks(10)
    expected = np.exp(stored - logsumexp(stored)) @ masks
    np.testing.assert_allclose(posterior.inclusion, expected, atol=1e-8)
    exact = reference.results["bip_exact"]
    assert np.flatnonzero(posterior.mode_mask).tolist() == exact["mode"]
    np.testing.assert_allclose(posterior.inclusion, exact["marginals"], atol=1e-8)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_ends_it_cleanly(n_jobs: int) -> None:
    script = textwrap.dedent(f"""
        import numpy as np, os, signal, threading
        from invariance import Enumeration, LinearGaussian, MultiEnvironmentData, UniformPrior
        from invariance.inference.base import RunOptions
        from invariance.inference.base import Target
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 34)); y = X[:, 0] + rng.normal(size=200)
        model = LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, y, np.repeat([0, 1], 100)))
        threading.Timer(2.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            Enumeration(time_limit=None).run(Target(model, UniformPrior().bind(34)), RunOptions(n_jobs={n_jobs}))
        except KeyboardInterrupt:
            small = UniformPrior(max_size=2).bind(34)
            again = Enumeration().run(Target(model, small), RunOptions(n_jobs={n_jobs}))
            print("interrupted", threading.active_count(), again.diagnostics["subsets_scored"])
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "interrupted 1 596", done.stderr
