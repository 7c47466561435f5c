"""Counts beside a Poisson law."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from count_twins import counted
from invariance import Poisson
from invariance.models.counts import overdispersion


@pytest.mark.parametrize("exposed", [False, True])
def test_it_is_pearsons_statistic_with_own_intercepts(exposed: bool) -> None:
    data = counted(exposed=exposed)
    design = np.column_stack([np.repeat(np.eye(3), data.counts, axis=0), data.X[:, [0, 2]]])
    exposure = data.exposure if exposed else None
    fit = sm.GLM(data.y, design, family=sm.families.Poisson(), exposure=exposure).fit(tol=1e-12)
    found = overdispersion(Poisson(0.0).bind(data), ["x0", "x2"])
    assert found == pytest.approx(fit.pearson_chi2 / fit.df_resid, rel=1e-6)


def test_rows_of_environments_may_be_mixed() -> None:
    data = counted()
    mixed = np.random.default_rng(0).permutation(data.n_rows)
    again = type(data).from_arrays(data.X[mixed], data.y[mixed], data.environment_index[mixed])
    expected = overdispersion(Poisson().bind(data), ["x1"])
    assert overdispersion(Poisson().bind(again), ["x1"]) == pytest.approx(expected, rel=1e-9)


def test_it_is_about_one_for_poisson_counts_only() -> None:
    for alpha, least, most in ((0.0, 0.9, 1.1), (1.0, 2.0, np.inf)):
        model = Poisson().bind(counted(alpha=alpha, counts=(400, 400)))
        assert least < overdispersion(model, ["x0", "x1"]) < most
        notes = model.remarks(np.array([[True, True, False, False]])).notes
        advised = [remedy.settings for note in notes for remedy in getattr(note, "remedies", ())]
        assert advised == ([(("family", "negative_binomial"),)] if alpha else [])


def test_an_environment_without_events() -> None:
    data = counted()
    data.y[data.rows(1)] = 0.0
    assert 0.0 < overdispersion(Poisson().bind(data), ["x0"]) < np.inf
