"""Evidence where second moments hardly tell columns apart, and in units far from one."""

from __future__ import annotations

import numpy as np
import pytest

from decision_twins import all_masks
from invariance import LinearGaussian, Moments, MultiEnvironmentData, Tolerance
from invariance.posterior.posterior import Judge


def sites(seed: int = 0, n: int = 60, p: int = 3) -> MultiEnvironmentData:
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(4), n)
    X = rng.normal(size=(len(site), p)) + rng.normal(size=(4, p))[site]
    y = X[:, 0] - X[:, 1] + rng.normal(size=len(site)) * np.array([0.5, 1.0, 1.0, 2.0])[site]
    return MultiEnvironmentData.from_arrays(X, y, site)


@pytest.mark.parametrize("apart", [1e-5, 1e-7, 1e-8])
def test_columns_that_nearly_coincide_are_judged_by_what_they_span(apart: float) -> None:
    data = sites()
    near = data.X.copy()
    near[:, 1] = near[:, 0] + apart * data.X[:, 1]
    same_span = MultiEnvironmentData.from_arrays(near, data.y, data.environment_index)
    mask = np.array([[True, True, False]])
    plain, hard = (Judge(LinearGaussian().bind(given)).evidence(mask).columns() for given in (data, same_span))
    for name, values in plain.items():
        np.testing.assert_allclose(hard[name], values, rtol=1e-4, err_msg=name)


def test_without_rows_what_second_moments_cannot_tell_is_not_told() -> None:
    data = sites()
    near = np.column_stack([data.X, data.X[:, 0] + 1e-7 * data.X[:, 2]])
    moments = Moments.from_data(MultiEnvironmentData.from_arrays(near, data.y, data.environment_index))
    model = LinearGaussian().bind(moments)
    mask = np.array([[True, False, False, True]])
    assert np.isnan(model.left_out_r2_many(mask)).all()
    assert np.isinf(model.random_effects_risk_many(mask)).all()
    assert np.isfinite(model.left_out_r2_many(~mask)).all()


def test_a_p_value_that_is_not_known_does_not_count_as_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Judge(LinearGaussian().bind(sites()))
    unknown = judge.model.invariance_test(all_masks(3), Tolerance())._replace(joint=np.full(8, np.nan))
    monkeypatch.setattr(type(judge.model), "invariance_test", lambda *_: unknown)
    assert judge.rejected(all_masks(3)).all()
    assert not judge.compatible(all_masks(3)).any()
