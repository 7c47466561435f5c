"""Structural models: what they sample, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st

from invariance.exceptions import SettingError
from invariance.simulation import CoefficientBound, StructuralModel, flat, p10
from replication.simulators import example_1, theory

seeds = st.integers(0, 2**32)
RNG = np.random.default_rng(0)


def small_model(seed: int = 3, n_environments: int = 3) -> StructuralModel:
    return theory(n_environments, 1.0, np.random.default_rng(seed))


def recursive_rows(model: StructuralModel, e: int, noise: np.ndarray) -> np.ndarray:
    """The structural equations, one column after the other, for standard normal noise (n, p+1)."""
    rows = np.zeros_like(noise)
    for i in model.ordering:
        rows[:, i] = (
            model.intercepts[e, i]
            + rows @ model.coefficients[e, i]
            + np.sqrt(model.variances[e, i]) * noise[:, i]
        )
    return rows


@pytest.mark.parametrize("n_environments", [1, 3])
def test_rows_follow_the_structural_equations(n_environments: int) -> None:
    model = p10(n_environments, np.random.default_rng(5))
    counts = np.arange(19, 19 + n_environments)
    data = model.sample(counts, np.random.default_rng(8))
    assert data.environments == ("e1", "e2", "e3")[:n_environments]
    assert data.counts.tolist() == counts.tolist()
    assert data.X.flags.c_contiguous
    assert data.truth.tolist() == model.truth.tolist()
    rng = np.random.default_rng(8)
    for e in range(n_environments):
        rows = recursive_rows(model, e, rng.standard_normal((11, counts[e])).T)
        np.testing.assert_allclose(
            np.column_stack([data.X, data.y])[data.rows(e)], rows, rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"ordering": np.array([0, 0, 2])}, "ordering"),
        ({"variances": np.zeros((2, 3))}, "variances"),
        ({"intervened": np.zeros((2, 3))}, "intervened"),
        ({"coefficients": np.ones((2, 3, 3))}, "coefficients"),
    ],
)
def test_inconsistent_models_are_refused(changes: dict[str, object], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        replace(example_1(2), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        *((lambda n=n: small_model().sample(n, RNG), "^n") for n in (0, 2.5, [3, 3], [3, 0, 3])),
        (lambda: flat(3, RNG).sample(10, RNG, jitter=np.nan), "jitter"),
        (lambda: flat(3, RNG, p=8), "p=8"),
        (lambda: p10(0, RNG), "n_environments=0"),
        (lambda: example_1(4), "n_environments=4"),
        (lambda: p10(2, RNG, strength=(0.0, 1.5)), "strength"),
        (lambda: p10(2, RNG, noise=(0.0, 0.1)), "noise"),
        (lambda: p10(2, RNG, p_active=(1.2,)), "p_active"),
        (lambda: p10(2, RNG, new_upper=CoefficientBound(0.001)), "new_upper"),
        (lambda: p10(2, RNG, true_features=(11, 12)), "true_features"),
    ],
)
def test_impossible_requests_are_refused(ask: Callable[[], object], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        ask()
