"""The flat simulation, and environments that are kept apart or jittered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance.simulation import StructuralModel, flat, p10


def features_by_kind(model: StructuralModel) -> dict[str, np.ndarray]:
    p = model.n_features
    causes = model.truth
    descendants = model.coefficients[0, :p, p] != 0
    siblings = ~causes & ~descendants & model.coefficients[0, :p, :p].any(axis=1)
    return {
        "causes": causes,
        "descendants": descendants,
        "siblings": siblings,
        "irrelevant": ~(causes | descendants | siblings),
    }


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(9, 14))
def test_flat_has_causes_descendants_and_siblings(seed: int, n_environments: int, p: int) -> None:
    model = flat(n_environments, np.random.default_rng(seed), p=p)
    kinds = features_by_kind(model)
    assert kinds["causes"].sum() in (2, 3, 4)
    assert kinds["descendants"].sum() in (2, 3)
    assert kinds["siblings"].sum() == 2
    base, deviations = np.abs(model.coefficients[0]), np.sqrt(model.variances[0])
    to_outcome = base[p, :p]
    assert (to_outcome[kinds["causes"]] >= 0.5).all()
    assert to_outcome.max() <= 1.5
    assert not to_outcome[~kinds["causes"]].any()
    assert 0.5 <= deviations[p] <= 1.2
    among = base[:p, :p][np.ix_(kinds["causes"], kinds["causes"])]
    assert np.count_nonzero(among) == len(among) * (len(among) - 1) // 2
    assert among[among > 0].min() >= 0.25
    assert among.max() <= 0.75
    assert (deviations[:p][kinds["causes"] | kinds["irrelevant"]] == 1.0).all()
    assert (np.abs(deviations[:p][kinds["siblings"]] - 0.55) <= 0.25).all()
    assert (np.abs(deviations[:p][kinds["descendants"]] - 0.85) <= 0.35).all()

    touched = model.intervened.any(axis=0)
    assert not touched[kinds["causes"]].any()
    assert model.intervened[1:, kinds["irrelevant"]].all()
    factors = np.sqrt(model.variances / model.variances[0])
    assert (factors >= 0.5).all()
    assert (factors <= 2.0).all()
    subsets_of_causes = np.array([model.truth, np.zeros_like(model.truth)])
    np.testing.assert_allclose(model.mu(subsets_of_causes), 0.0, atol=1e-9)


def test_a_hit_scales_all_coefficients_of_a_feature_alike() -> None:
    model = flat(5, np.random.default_rng(4))
    siblings = features_by_kind(model)["siblings"]
    ratios = model.coefficients[1:, :-1][:, siblings][..., :-1][..., model.truth]
    ratios = ratios / model.coefficients[0, :-1][siblings][:, :-1][:, model.truth]
    np.testing.assert_allclose(ratios, np.broadcast_to(ratios[..., :1], ratios.shape))
    assert ratios.min() >= -1.0
    assert ratios.max() <= 1.5
    assert len(np.unique(ratios.round(9))) > 2


@pytest.mark.parametrize("preset", [flat, p10])
def test_seen_and_fresh_environments_are_those_of_one_sample(preset: object) -> None:
    model = preset(7, np.random.default_rng(0))  # type: ignore[operator]
    counts = [5, 6, 7, 8, 9, 10, 11]
    together = model.sample(counts, np.random.default_rng(1))
    seen, fresh = model.sample_apart(counts, 2, np.random.default_rng(1))
    np.testing.assert_array_equal(np.vstack([seen.X, fresh.X]), together.X)
    np.testing.assert_array_equal(np.append(seen.y, fresh.y), together.y)
    assert seen.environments + fresh.environments == together.environments
    assert fresh.counts.tolist() == [10, 11]
    np.testing.assert_array_equal(fresh.truth, seen.truth)


def test_jitter_moves_the_outcomes_coefficients_in_each_environment() -> None:
    model = flat(40, np.random.default_rng(0))
    data = model.sample(1000, np.random.default_rng(1), jitter=0.1)
    ratios = []
    for e in range(model.n_environments):
        X, y = data.X[data.rows(e)][:, model.truth], data.y[data.rows(e)]
        slopes = np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), y, rcond=None)[0][:-1]
        ratios.append(slopes / model.coefficients[0, -1, :-1][model.truth])
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.03)
    assert np.std(ratios) == pytest.approx(0.1, abs=0.025)
