"""How many sweeps are kept where subsets take long to score."""

from __future__ import annotations

import numpy as np
import pytest

from invariance import BetaBinomialPrior, LinearGaussian, Logistic, MultiEnvironmentData, Tempering
from invariance.inference.base import Target
from invariance.inference.tempering.generic import flip_order, n_flipped


def target(n_rows: int, p: int, family: Logistic | LinearGaussian) -> Target:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_rows, p)), (rng.random(n_rows) < 0.5).astype(float)
    model = family.bind(MultiEnvironmentData.from_arrays(X, y, np.arange(n_rows) % 5))
    return Target(model, BetaBinomialPrior(max_size=2).bind(model.feature_names))


def test_few_where_rows_are_many() -> None:
    few, many = (Tempering().most_sweeps(target(n, 80, Logistic())) for n in (5_000, 500))
    assert 200 < few < 1_000
    assert few < many <= 3_000
    assert Tempering().most_sweeps(target(200_000, 3, Logistic())) == 200
    assert Tempering(chains=2).most_sweeps(target(5_000, 80, Logistic())) == pytest.approx(2 * few, abs=2)


def test_as_many_as_asked_for_and_all_where_scores_are_cheap() -> None:
    assert Tempering().most_sweeps(target(5_000, 80, LinearGaussian())) == 3_000
    assert Tempering(steps=7).most_sweeps(target(5_000, 80, Logistic())) == 7


@pytest.mark.parametrize("f", [1, 64, 65, 200])
def test_number_of_flips(f: int) -> None:
    keys = np.random.default_rng(0).random((3, f))
    assert flip_order(keys, np.ones(f)).shape == (3, n_flipped(f))
