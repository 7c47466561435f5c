"""All subsets in one compiled call against plain NumPy: sums, leading subsets, those that may be
compatible."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import logsumexp

from invariance import (
    BetaBinomialPrior,
    InclusionPrior,
    LinearGaussian,
    MultiEnvironmentData,
    Tolerance,
    UniformPrior,
)
from invariance.inference import base, enumeration
from invariance.inference.base import Target
from invariance.inference.enumeration import DenseBlocks, EnumerationPass, target_blocks
from invariance.kernels import subset_tree
from invariance.kernels.all_subsets import fold_pairs, lead
from invariance.models.base import NO_GAIN
from invariance.models.gaussian_fits import Limits
from invariance.moments import Moments
from quadratic_toy import with_sum
from twins import all_masks, simulated


class Twin(NamedTuple):
    """What a pass over all subsets (2**f, f), of all features (2**f, p), should note"""

    log_posterior: np.ndarray
    masks: np.ndarray
    log_evidence: float
    pairs: np.ndarray
    entropy: float
    undecidable: np.ndarray


def twin(target: Target, free: np.ndarray) -> Twin:
    draws = all_masks(len(free))
    masks = target.masks(draws, free)
    log_ratio = target.model.log_ratio_many(masks)
    log_prior = target.prior.log_prob(masks)
    values = log_ratio + log_prior
    weights = np.exp(values - logsumexp(values))
    entropy = -float(weights @ np.log(np.where(weights > 0.0, weights, 1.0)))
    pairs = (draws * weights[:, None]).T @ draws
    unknown = np.flatnonzero((log_ratio == -np.inf) & (log_prior > -np.inf))
    return Twin(values, masks, float(logsumexp(values)), pairs, entropy, unknown)


def walked(
    blocks: DenseBlocks, keep: int, least: np.ndarray = NO_GAIN
) -> tuple[enumeration._Sums, list, EnumerationPass]:
    run = EnumerationPass.over(blocks, keep, least, True)
    sums = None
    picked = []
    for task in range(blocks.n_tasks):
        part, found = blocks.part(task, run)
        sums = part if sums is None else sums.joined(part, keep)
        run.lowest[0] = sums.lowest(keep)
        picked.append(found)
    return sums, picked, run


GROUPS = {"pair": ["x1", "x4"]}
CORRELATED = simulated(7, (40, 50, 60), seed=3)
CONSTANT = MultiEnvironmentData.from_arrays(
    np.where((CORRELATED.environment_index == 1)[:, None] & (np.arange(7) == 2), 0.5, CORRELATED.X),
    CORRELATED.y,
    CORRELATED.environment_index,
)
GROUPED = MultiEnvironmentData.from_arrays(
    CORRELATED.X, CORRELATED.y, CORRELATED.environment_index, groups=GROUPS
)
# x1, x4 and x6 are the same, so that subsets are equally probable.
COPIES = MultiEnvironmentData.from_arrays(
    CORRELATED.X[:, [0, 1, 2, 3, 1, 5, 1]], CORRELATED.y, CORRELATED.environment_index
)
DEPENDENT = with_sum(simulated(6, (40, 50, 60), seed=4))
CASES = {
    "uniform": (CORRELATED, UniformPrior()),
    "sizes": (CORRELATED, UniformPrior(max_size=4)),
    "beta-binomial": (CORRELATED, BetaBinomialPrior(1.0, 3.0)),
    "forced": (CORRELATED, InclusionPrior({"x5": 1.0, "x2": 0.0, "x6": 0.1})),
    "constant somewhere": (CONSTANT, UniformPrior()),
    "groups": (GROUPED, InclusionPrior({"pair": 0.2})),
    "dependent, with rows": (DEPENDENT, UniformPrior()),
    "dependent copies": (Moments.from_data(COPIES), UniformPrior(max_size=6)),
    "dependent, moments alone": (Moments.from_data(DEPENDENT), UniformPrior(max_size=6)),
}


@pytest.mark.parametrize("low", [0, 2, 4, 14])
@pytest.mark.parametrize("case", CASES)
def test_sums_and_leading_subsets(monkeypatch: pytest.MonkeyPatch, case: str, low: int) -> None:
    monkeypatch.setattr(subset_tree, "MOST_LOW", low)
    monkeypatch.setattr(enumeration, "_FEWEST_TASKS", 3)
    data, prior = CASES[case]
    model = LinearGaussian().bind(data)
    target = Target(model, prior.bind(model.feature_names, model.largest_size))
    blocks = target_blocks(target)
    assert isinstance(blocks, DenseBlocks)
    expected = twin(target, blocks.walk.free)
    sums, _, run = walked(blocks, 10)
    close = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(run.whole, expected.log_posterior, **close)
    np.testing.assert_allclose(sums.log_total, expected.log_evidence, **close)
    np.testing.assert_allclose(sums.pairs / sums.total, expected.pairs, **close)
    np.testing.assert_allclose(
        sums.log_total - sums.weighted / sums.total, expected.entropy, **close
    )
    masses = logsumexp(run.whole.reshape(blocks.n_blocks, -1), axis=1)
    np.testing.assert_allclose(run.log_masses, masses, **close)
    order = np.argsort(-run.whole, kind="stable")[:10]
    np.testing.assert_array_equal(sums.positions, order)
    np.testing.assert_array_equal(sums.log_posterior, run.whole[order])
    np.testing.assert_allclose(sums.log_ratio, model.log_ratio_many(expected.masks[order]), **close)
    assert sums.n_undecidable == len(expected.undecidable)
    smallest = np.sort(all_masks(blocks.n_features).sum(axis=1)[expected.undecidable])[
        : enumeration.EXAMPLES
    ]
    np.testing.assert_array_equal(np.sort(sums.undecidable.sum(axis=1)), smallest)


def test_examples_of_undecidable_subsets_are_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (enumeration, base):
        monkeypatch.setattr(module, "EXAMPLES", 4)
    monkeypatch.setattr(subset_tree, "MOST_LOW", 2)
    monkeypatch.setattr(enumeration, "_FEWEST_TASKS", 1)
    data, prior = CASES["dependent, moments alone"]
    model = LinearGaussian().bind(data)
    target = Target(model, prior.bind(model.feature_names, model.largest_size))
    blocks = target_blocks(target)
    sums, _, _ = walked(blocks, 1)
    expected = twin(target, blocks.walk.free)
    assert len(expected.undecidable) > 4
    smallest = np.sort(expected.masks[expected.undecidable].sum(axis=1))[:4]
    np.testing.assert_array_equal(sums.undecidable.sum(axis=1), smallest)


@pytest.mark.parametrize("tasks", [1, 3, 64])
@pytest.mark.parametrize("smallest", [-np.inf, 5.0])
@pytest.mark.parametrize("case", [case for case in CASES if "dependent" not in case])
def test_subsets_that_may_be_compatible(
    monkeypatch: pytest.MonkeyPatch, case: str, smallest: float, tasks: int
) -> None:
    """All of them, also where a call has no room for more: those of the twin with a gain of
    interest that the screen, which keeps all compatible ones, lets pass."""
    monkeypatch.setattr(subset_tree, "MOST_LOW", 2)
    monkeypatch.setattr(enumeration, "_FEWEST_TASKS", tasks)
    data, prior = CASES[case]
    model = LinearGaussian().bind(data)
    tolerance = Tolerance(rho=0.3, tau=1.0)
    target = Target(model, prior.bind(model.feature_names, model.largest_size), tolerance)
    blocks = target_blocks(target, tolerance)
    assert isinstance(blocks, DenseBlocks)
    least = smallest + 0.5 * np.arange(model.free_columns.sum() + 1)
    _, picked, _ = walked(blocks, 1, least)
    found = enumeration.Picked.joined(picked)
    masks = twin(target, blocks.walk.free).masks
    gain = model.gain_many(masks)
    columns = masks @ model.free_columns
    log_prior = target.prior.log_prob(masks)
    places = found.draws @ (1 << np.arange(blocks.n_features))
    wanted = (log_prior > -np.inf) & (gain >= least[columns])
    screened = wanted & Limits.of(model, tolerance).allow(model.residuals(masks))
    np.testing.assert_array_equal(places, np.flatnonzero(screened))
    assert set(np.flatnonzero(wanted & model.compatible(masks, tolerance))) <= set(places)
    assert 4 < len(places) < wanted.sum()
    np.testing.assert_allclose(found.gain, gain[places], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found.columns, columns[places])
    np.testing.assert_allclose(found.log_prior, log_prior[places], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        found.log_ratio, model.log_ratio_many(masks[places]), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("keep", [1, 2, 7, 40, 200])
def test_of_equally_probable_subsets_the_first_lead(keep: int) -> None:
    values = np.random.default_rng(keep).integers(0, 9, 120).astype(float)
    kept = np.empty(keep)
    ratios = np.empty(keep)
    positions = np.empty(keep, np.int64)
    n = 0
    for position, value in enumerate(values):
        if n < keep or value > kept[0]:
            n = lead(kept, ratios, positions, n, value, -value, position)
    assert n == min(keep, len(values))
    np.testing.assert_array_equal(
        np.sort(positions[:n]), np.sort(np.argsort(-values, kind="stable")[:n])
    )
    np.testing.assert_array_equal(kept[:n], values[positions[:n]])
    np.testing.assert_array_equal(ratios[:n], -kept[:n])


def test_no_subset_need_lead() -> None:
    model = LinearGaussian().bind(CORRELATED)
    blocks = target_blocks(
        Target(model, UniformPrior().bind(model.feature_names, model.largest_size))
    )
    sums, _ = blocks.part(0, EnumerationPass.over(blocks, 0))
    assert len(sums.positions) == 0
    assert sums.log_total > -np.inf


@pytest.mark.parametrize("b", [0, 1, 2, 5])
def test_weights_are_folded(b: int) -> None:
    weights = np.random.default_rng(b).random(1 << b)
    pairs = np.zeros((b, b))
    held = all_masks(b)
    expected = (held * weights[:, None]).T @ held
    fold_pairs(weights.copy(), b, pairs)
    np.testing.assert_allclose(pairs, np.tril(expected), rtol=1e-12)
