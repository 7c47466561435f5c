"""Counts beside a Poisson law."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from count_twins import counted
from invariance import NegativeBinomial, Poisson
from invariance.models.poisson import overdispersion, overdispersion_words


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
    causes = ["x0", "x1"]
    alike = overdispersion(Poisson().bind(counted(alpha=0.0, counts=(400, 400))), causes)
    more = overdispersion(Poisson().bind(counted(alpha=1.0, counts=(400, 400))), causes)
    assert 0.9 < alike < 1.1
    assert more > 2.0
    assert overdispersion_words(alike) == ""
    assert overdispersion_words(more).endswith("use family='negative_binomial'.")
    assert overdispersion_words(np.nan) == ""


def test_other_models_have_none() -> None:
    assert np.isnan(overdispersion(NegativeBinomial().bind(counted()), ["x0"]))


def test_an_environment_without_events() -> None:
    data = counted()
    data.y[data.rows(1)] = 0.0
    assert 0.0 < overdispersion(Poisson().bind(data), ["x0"]) < np.inf
