"""The table of T by environment says whose p-value stands beside it."""

from __future__ import annotations

import pytest
from scipy.stats import chi2, combine_pvalues

from decision_cases import made
from invariance import BIP, LinearGaussian

OF_PARTS = "The p-value is that of the parts together, by Fisher's rule, not that of T."


def words(text: object) -> str:
    return " ".join(str(text).split())


def test_of_the_parts() -> None:
    found = BIP().fit(made()).diagnose()
    assert OF_PARTS in words(found)
    for test in found.tests:
        parts = [part.p_value for part in test.deviation.parts.values() if part.p_value is not None]
        assert test.deviation.p_value == pytest.approx(combine_pvalues(parts, method="fisher").pvalue)


def test_of_t_itself() -> None:
    found = BIP(LinearGaussian(invariance="mean")).fit(made()).diagnose()
    assert OF_PARTS not in words(found)
    for test in found.tests:
        degrees = 2.0 * (test.deviation.expected_deviance / test.deviation.deviance_sd) ** 2
        tail = chi2.sf(test.deviation.deviance * degrees / test.deviation.expected_deviance, degrees)
        assert test.deviation.p_value == pytest.approx(tail)
