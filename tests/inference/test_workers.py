"""Results are the same to the last bit for any number of workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from invariance import BIP, Enumeration, Logistic, Posterior, Tempering, UniformPrior
from invariance.inference import enumeration
from invariance.kernels import subset_tree
from regression_cases import plain_table, regression_data
from twins import simulated

pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.InvarianceWarning")
NUMBERS = simulated(11, (60, 70, 80), seed=8)
CLASSES = regression_data(*plain_table(False, n=60, p=11))


def of_numbers(**settings: Any) -> Callable[[int], Posterior]:
    def run(n_jobs: int) -> Posterior:
        model = BIP(n_jobs=n_jobs, progress=False, random_state=0, **settings)
        model.fit(NUMBERS.X, NUMBERS.y, environments=NUMBERS.environment_index)
        return model.decision_.posterior

    return run


def of_classes(n_jobs: int) -> Posterior:
    return BIP(Logistic(), n_jobs=n_jobs, progress=False).fit(CLASSES).decision_.posterior


RUNS = {
    "default": of_numbers(),
    "mode": of_numbers(select="mode"),
    "streamed": of_numbers(select="mode", engine=Enumeration(in_memory=0, keep=100)),
    "listed": of_numbers(prior=UniformPrior(max_size=2), select="mode"),
    "tempering": of_numbers(engine=Tempering(chains=3, steps=50, searches=1)),
    "logistic": of_classes,
}


@pytest.mark.parametrize("name", RUNS)
def test_workers_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(subset_tree, "MOST_LOW", 4)
    monkeypatch.setattr(enumeration, "_FEWEST_TASKS", 16)
    monkeypatch.setattr(enumeration, "_LARGEST_LISTED_BLOCK", 16)
    one, *others = (RUNS[name](n_jobs) for n_jobs in (1, 2, 3))
    for other in others:
        for field in (
            "inclusion",
            "pairwise",
            "masks",
            "log_ratios",
            "log_probabilities",
            "log_evidence",
            "entropy",
        ):
            np.testing.assert_array_equal(getattr(other, field), getattr(one, field), err_msg=field)
    assert len(one.masks) > 1
