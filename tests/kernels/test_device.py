"""The torch twins against the compiled kernels and plain Python; the fused ones where there is a
CUDA device."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance import LinearGaussian, Moments, MultiEnvironmentData
from invariance.kernels.mean_field import Objective, make_step
from invariance.kernels.mean_field import draw_pairs as draw_on_host
from twins import simulated

torch = pytest.importorskip("torch")

from invariance.inference.variational_device import SharedScatter
from invariance.kernels.device import torch_kernels
from invariance.kernels.device.ascent import Leaders, Objectives, State, ascend, log_ratios
from invariance.kernels.device.torch_kernels import listed, uniforms

CPU = torch.device("cpu")
HAS_CUDA = torch.cuda.is_available()


def model_of(p: int, counts: tuple[int, ...], seed: int = 0, prediction: float = 0.0):
    return LinearGaussian(prediction=prediction).bind(
        Moments.from_data(simulated(p, counts, seed=seed))
    )


def problem_of(*models):
    moments = models[0].moments
    none = np.zeros((0, len(moments.group_counts), len(moments.columns)))
    return SharedScatter(moments, CPU).problem(
        [(model.scoring_by_moments(), none) for model in models]
    )


def on_device(problem, model, masks) -> np.ndarray:
    chosen = torch.zeros(
        (len(masks), problem.scatter.shape[1]), dtype=torch.bool, device=problem.device
    )
    chosen[:, torch.as_tensor(model.moments.feature_columns)] = torch.as_tensor(masks)
    room = max(int(masks.sum(axis=1).max()), 1)
    return log_ratios(problem, listed(chosen, len(masks), room)).cpu().numpy()


def random_masks(p: int, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.random((n, p)) < rng.random((n, 1))


@settings(max_examples=15)
@given(st.integers(1, 40), st.integers(0, 1000), st.sampled_from([0.0, 0.1]))
def test_scores_are_those_of_the_processor(p: int, seed: int, prediction: float) -> None:
    model = model_of(p, (60, 75, 90), seed, prediction)
    masks = random_masks(p, 30, seed)
    found = on_device(problem_of(model), model, masks)
    np.testing.assert_allclose(found, model.log_ratio_many(masks), rtol=0, atol=1e-8)


def with_removed(n_removed: int):
    """A model without the first rows of its second environment, and what takes them out of the
    moments of all."""
    from invariance.sweeps.data import SweepData

    data = simulated(10, (40, 50), seed=4)
    rows = tuple(np.flatnonzero(data.environment_index == 1)[:n_removed].tolist())
    moments = Moments.from_data(data)
    source = SweepData(moments, data, {moments.outcome_name: rows})
    return moments, source, LinearGaussian().bind(source.moments_for(moments.outcome_name)[0])


@pytest.mark.parametrize("n_removed", [1, 3])
def test_rows_leave_by_products(n_removed: int) -> None:
    moments, source, model = with_removed(n_removed)
    removed = source.removal(moments.outcome_name)[0]
    assert removed.shape == (n_removed, 3, 11)
    shared = SharedScatter(moments, CPU)
    assert shared.suits(model.moments)
    masks = random_masks(10, 40, 1)
    found = on_device(shared.problem([(model.scoring_by_moments(), removed)]), model, masks)
    np.testing.assert_allclose(found, model.log_ratio_many(masks), rtol=0, atol=1e-8)


def test_columns_that_are_constant_somewhere_and_copies() -> None:
    data = simulated(6, (40, 50), seed=2)
    X = data.X.copy()
    X[data.environment_index == 0, 1] = 7.0
    X[:, 4] = 2.0 * X[:, 3]
    model = LinearGaussian().bind(
        Moments.from_data(MultiEnvironmentData.from_arrays(X, data.y, data.environment_index))
    )
    masks = random_masks(6, 60, 0)
    both = masks[:, 3] & masks[:, 4]
    found = on_device(problem_of(model), model, masks)
    assert both.any()
    assert np.isnan(found[both]).all()
    np.testing.assert_allclose(found[~both], model.log_ratio_many(masks[~both]), rtol=0, atol=1e-8)


def test_larger_subsets_than_there_is_room_for_have_no_value() -> None:
    model = model_of(6, (40, 50))
    chosen = torch.ones((1, 7), dtype=torch.bool)
    chosen[0, model.moments.outcome] = False
    assert torch.isnan(log_ratios(problem_of(model), listed(chosen, 1, 5))).all()
    assert not torch.isnan(log_ratios(problem_of(model), listed(chosen, 1, 6))).any()


def splitmix64(seed: int, place: int) -> float:
    """Number `place`, from 0 on, of the generator by Steele, Lea & Flood (2014), in whole
    numbers."""
    word = (1 << 64) - 1
    z = (seed + (place + 1) * 0x9E3779B97F4A7C15) & word
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & word
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
    return ((z ^ (z >> 31)) >> 11) / (1 << 53)


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 1 << 40))
def test_random_numbers_are_those_of_splitmix64(seed: int, first: int) -> None:
    found = uniforms(torch.tensor([seed]), first, 5)[0].tolist()
    assert found == [splitmix64(seed, first + i) for i in range(5)]


def objectives_of(terms_odds, by_size, n_rows, infeasible) -> Objectives:
    return Objectives(*map(torch.as_tensor, (terms_odds, by_size, n_rows)), infeasible)


@pytest.mark.parametrize("infeasible", [np.nan, -1.0])
def test_steps_are_those_of_the_processor(infeasible: float) -> None:
    """Two outcomes, one feature forced in and one out, sizes limited: 25 steps with the same
    draws."""
    moments = model_of(10, (40, 50), seed=3).moments
    models = [LinearGaussian().bind(moments.with_outcome(name)) for name in moments.columns[:2]]
    d = 11
    pairs = 5
    steps = 25
    most = 4
    forced = 4
    excluded = 7
    rng = np.random.default_rng(1)
    logits = rng.normal(-0.5, 1.0, (2, d))
    odds = np.zeros((2, d))
    by_size = np.full((2, most + 3), -np.inf)
    by_size[:, 1 : most + 2] = rng.normal(size=(2, most + 1))
    free = []
    for b, model in enumerate(models):
        logits[b, [model.moments.outcome, excluded]] = -np.inf
        logits[b, forced] = np.inf
        free.append(np.flatnonzero(np.isfinite(logits[b])))
        odds[b, free[b]] = rng.normal(size=len(free[b]))
    seeds = np.array([11, 12])
    n_rows = np.array([90.0, 90.0])
    rates = np.linspace(2.0, 9.0, steps)
    analytic = rng.random((steps, 2)) < 0.5
    state = State(
        torch.tensor(logits),
        torch.zeros(2, dtype=torch.float64),
        torch.zeros(2, dtype=torch.bool),
        torch.tensor(seeds),
    )
    problem = problem_of(*models)
    objectives = objectives_of(odds, by_size, n_rows, infeasible)
    found = ascend(problem, objectives, state, 6, rates.tolist(), torch.as_tensor(analytic), pairs)
    assert not state.undecidable.any()
    seen = []
    for b, model in enumerate(models):
        own = logits[b, free[b]].copy()
        f = len(free[b])
        objective = Objective(
            odds[b, free[b]], np.append(by_size[b, 1:], np.full(f, -np.inf)), most, 90.0, infeasible
        )
        lowest = np.zeros(1)
        work = np.empty(f)
        for t in range(steps):
            u = uniforms(torch.tensor(seeds[b : b + 1]), (6 + t) * pairs * d, pairs * d)
            u = u.numpy().reshape(pairs, d)[:, free[b]]
            inclusion = np.empty(f)
            draws = np.empty((2 * pairs, f), dtype=bool)
            np.testing.assert_allclose(found.logits[t, b][free[b]].numpy(), own, rtol=0, atol=1e-9)
            draw_on_host(own, u, inclusion, draws)
            columns = np.zeros((2 * pairs, d), dtype=bool)
            columns[:, free[b]] = draws
            columns[:, forced] = True
            values = model.log_ratio_many(columns[:, model.moments.feature_columns])
            values[draws.sum(axis=1) > most] = np.nan
            seen.append(np.isnan(values))
            step = make_step(
                own, inclusion, draws, values, rates[t], analytic[t, b], objective, lowest, work
            )
            recorded = [float(part[t, b]) for part in (found.elbo, found.error, found.feasible)]
            np.testing.assert_allclose(recorded, step, rtol=0, atol=1e-8)
        np.testing.assert_allclose(state.logits[b][free[b]].numpy(), own, rtol=0, atol=1e-9)
    assert 0.0 < np.mean(seen) < 1.0


def test_draws_that_cannot_be_scored_are_told() -> None:
    data = simulated(4, (40, 50), seed=2)
    X = np.column_stack([data.X, data.X[:, 0]])
    plain = LinearGaussian().bind(Moments.from_data(data))
    copies = LinearGaussian().bind(
        Moments.from_data(MultiEnvironmentData.from_arrays(X, data.y, data.environment_index))
    )
    for model, expected in ((plain, False), (copies, True)):
        d = len(model.moments.columns)
        logits = torch.full((1, d), 2.0, dtype=torch.float64)
        logits[0, model.moments.outcome] = -torch.inf
        state = State(
            logits,
            torch.zeros(1, dtype=torch.float64),
            torch.zeros(1, dtype=torch.bool),
            torch.tensor([3]),
        )
        objectives = objectives_of(np.zeros((1, d)), np.zeros((1, d + 1)), np.array([90.0]), np.nan)
        ascend(
            problem_of(model), objectives, state, 0, [1.0], torch.ones((1, 1), dtype=torch.bool), 20
        )
        assert bool(state.undecidable[0]) is expected


def test_leaders_are_the_best_iterates_and_of_equals_the_earlier() -> None:
    rng = np.random.default_rng(0)
    promise = rng.integers(0, 6, (20, 3)).astype(float)
    logits = rng.normal(size=(20, 3, 2))
    leaders = Leaders.none(3, 4, 2, CPU)
    for first in range(0, 20, 5):
        part = slice(first, first + 5)
        leaders = leaders.joined(
            torch.as_tensor(promise[part]), first, torch.as_tensor(logits[part])
        )
    for b in range(3):
        order = sorted(range(20), key=lambda t: (-promise[t, b], t))[:4]
        assert leaders.iteration[b].tolist() == order
        assert leaders.promise[b].tolist() == promise[order, b].tolist()
        np.testing.assert_array_equal(leaders.logits[b].numpy(), logits[order, b])


@pytest.mark.skipif(not HAS_CUDA, reason="needs a CUDA device")
@pytest.mark.parametrize("n_removed", [0, 1, 2])
def test_fused_kernels_give_what_plain_operations_give(n_removed: int) -> None:
    from invariance.kernels.device import triton_kernels

    device = torch.device("cuda")
    moments, source, model = with_removed(max(n_removed, 1))
    removed = source.removal(moments.outcome_name)[0]
    if n_removed == 0:
        model = LinearGaussian().bind(moments)
        removed = removed[:0]
    problem = SharedScatter(moments, device).problem([(model.scoring_by_moments(), removed)])
    rng = np.random.default_rng(0)
    inclusion = torch.as_tensor(rng.random((1, 11)), device=device)
    inclusion[0, moments.outcome] = 0.0
    direction = torch.ones_like(inclusion)
    seeds = torch.tensor([-3], device=device)
    plain, fused = (
        kernels.draw_pairs(inclusion, direction, seeds, 2, 40, 5)
        for kernels in (torch_kernels, triton_kernels)
    )
    assert torch.equal(plain.signs, fused.signs)
    assert torch.equal(plain.subsets.size, fused.subsets.size)
    torch.testing.assert_close(plain.slopes, fused.slopes, rtol=0, atol=1e-12)
    one = torch_kernels.log_shares(problem, plain.subsets)
    two = triton_kernels.log_shares(problem, fused.subsets)
    torch.testing.assert_close(one, two, rtol=0, atol=1e-10, equal_nan=True)
    assert torch.isfinite(one).any()
    assert torch.isnan(one).any()
