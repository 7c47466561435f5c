"""What a run of the sampler says about itself: evidence, its error, entropy, visits, and whether the best was seen."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp

from benchmarks._hidden_sums import hidden_sums
from invariance import BetaBinomialPrior, LinearGaussian, UniformPrior
from invariance.exceptions import ApproximationWarning
from invariance.inference.base import RunOptions, Target
from invariance.inference.enumeration import Enumeration
from invariance.inference.tempering import engine as tempering
from invariance.inference.tempering import posterior as posterior_of
from invariance.inference.tempering.engine import Tempering
from invariance.inference.tempering.posterior import TemperingPosterior, Visited, bridges, by_revisits
from twins import simulated

LOG_EVIDENCE = -7.0


def long_tailed(n_heavy: int, n_light: int, light: float) -> np.ndarray:
    """Log probabilities of subsets: heavy ones of unequal weight, and many light ones with `light` of the mass."""
    heavy = np.arange(1.0, n_heavy + 1.0)
    return np.log(np.concatenate([(1.0 - light) * heavy / heavy.sum(), np.full(n_light, light / n_light)]))


def visited(log_probabilities: np.ndarray, n: int, rng: np.random.Generator) -> Visited:
    """As if eight segments had each drawn n subsets independently."""
    probabilities = np.exp(log_probabilities)
    visits = rng.multinomial(n, probabilities / probabilities.sum(), size=8)
    seen = visits.sum(axis=0) > 0
    codes = np.flatnonzero(seen)[:, None] >> np.arange(12) & 1
    log_joint = log_probabilities[seen] + LOG_EVIDENCE
    return Visited(codes.astype(bool), log_joint, log_joint, visits[:, seen])


LAWS = {
    "nearly all mass visited": (long_tailed(50, 2000, 0.05), 500),
    "much of it": (long_tailed(20, 2000, 0.5), 300),
    "little of it": (long_tailed(2, 3000, 0.95), 300),
    "all of it": (long_tailed(6, 1, 0.01), 400),
}


@pytest.mark.parametrize("name", LAWS)
def test_entropy_and_evidence_have_no_bias(name: str) -> None:
    log_probabilities, n = LAWS[name]
    entropy = -float(np.exp(log_probabilities) @ log_probabilities)
    rng = np.random.default_rng(8)
    estimates, evidences = [], []
    for _ in range(60):
        one = visited(log_probabilities, n, rng)
        found = by_revisits(one.log_joint, one.visits)
        assert found is not None
        evidences.append(found.log_evidence)
        estimates.append(one.entropy(LOG_EVIDENCE))
    assert np.mean(evidences) == pytest.approx(LOG_EVIDENCE, abs=0.02)
    assert np.mean(estimates) == pytest.approx(entropy, abs=0.03)
    assert max(abs(np.array(estimates) - entropy)) < 0.35


@pytest.mark.parametrize("name", ["nearly all mass visited", "much of it", "little of it"])
def test_the_error_of_the_evidence_is_that_over_repetitions(name: str) -> None:
    log_probabilities, n = LAWS[name]
    rng = np.random.default_rng(9)
    runs = [visited(log_probabilities, n, rng) for _ in range(300)]
    found = [by_revisits(one.log_joint, one.visits) for one in runs]
    deviations = np.array([one.log_evidence - LOG_EVIDENCE for one in found])
    reported = np.array([one.error for one in found])
    assert 0.85 < np.sqrt(np.mean(deviations**2) / np.mean(reported**2)) < 1.18


def test_hardly_any_revisits_say_nothing() -> None:
    one = visited(long_tailed(1, 100_000, 0.999), 100, np.random.default_rng(1))
    assert by_revisits(one.log_joint, one.visits) is None


def test_bridges_between_temperatures() -> None:
    """log Z(1)/Z(0.2) of a law on 40 points, from independent draws at three temperatures."""
    rng = np.random.default_rng(2)
    log_ratios, betas = rng.normal(-5.0, 3.0, 40), np.array([0.2, 0.5, 1.0])
    trace = np.empty((20_000, 3))
    for i, beta in enumerate(betas):
        weights = np.exp(beta * log_ratios - logsumexp(beta * log_ratios))
        trace[:, i] = rng.choice(log_ratios, size=20_000, p=weights)
    assert bridges(betas, trace) == pytest.approx(logsumexp(log_ratios) - logsumexp(0.2 * log_ratios), abs=0.03)


def sampled(model: LinearGaussian, engine: Tempering, prior: UniformPrior, seed: int = 0) -> TemperingPosterior:
    bound = prior.bind(model.feature_names, model.largest_size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return engine.run(Target(model, bound), RunOptions(rng=np.random.default_rng(seed), progress=False))


def test_stepping_stones_lead_to_the_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posterior_of, "by_revisits", lambda log_joint, visits: None)
    model, prior = LinearGaussian().bind(simulated(9, (40, 50, 45), seed=6)), UniformPrior(max_size=6)
    exact = Enumeration().run(Target(model, prior.bind(model.feature_names)), RunOptions(progress=False))
    found = [sampled(model, Tempering(steps=300), prior, seed) for seed in range(3)]
    for one in found:
        assert one.diagnostics["log_evidence_method"] == "stepping stones"
        assert one.log_evidence == pytest.approx(exact.log_evidence, abs=0.25)
        assert 0.001 < one.diagnostics["log_evidence_error"] < 0.2


def test_shares_of_subsets_that_nobody_visited() -> None:
    masks = np.eye(3, dtype=bool)
    one = Visited(masks[:2], np.zeros(2), np.array([-2.0, -1.0]), np.array([[3, 0], [0, 1]]))
    assert one.shares_of(masks[[2, 1, 0]]) == [0.0, 0.25, 0.75]


def test_a_best_subset_that_no_chain_visits_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chains are put back to the empty subset after the searches and have no time to return."""

    def forget(self: Tempering, crew: tempering.Crew) -> tempering.Proposals:
        proposals = warm_up(self, crew)
        n = len(proposals.betas)
        for replica in crew.replicas:
            replica.place(np.repeat(crew.target.start[None], n, 0), np.full(n, crew.target.start_log_ratio))
        return proposals

    warm_up = Tempering._warm_up
    monkeypatch.setattr(Tempering, "_warm_up", forget)
    monkeypatch.setattr(tempering, "differences", lambda modes: np.zeros((0, modes.shape[1]), bool))
    model = LinearGaussian().bind(hidden_sums("weights", np.random.default_rng([7, 17])))
    prior = BetaBinomialPrior(max_size=10).bind(model.feature_names)
    engine = Tempering(chains=2, steps=1, block_size=1)
    with pytest.warns(ApproximationWarning, match=r"the best subset \(probability .*\) was never sampled") as caught:
        posterior = engine.run(Target(model, prior), RunOptions(rng=np.random.default_rng(0), progress=False))
    assert "chains=8, steps=20000" in str(caught[0].message)
    assert posterior.diagnostics["visit_shares"][0] == 0.0
    assert not posterior.diagnostics["converged"]
