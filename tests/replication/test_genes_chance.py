"""The gene study against chance: the exact law of random predictions, and when a result is called null."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from gene_samples import regulated

from replication.genes import (
    Genes,
    by_method,
    central_range,
    chance_law,
    combined,
    precision_table,
    summary,
    upper_tail,
)

FITS = ((3, 6, 4), (2, 5, 1), (4, 6, 2))  # (drawn, candidates, effects)


def fits_of(*fits: tuple[int, int, int], replicate: int = 0, correct: int = 0) -> pd.DataFrame:
    """All right predictions are in the first fit: only their sum counts."""
    return pd.DataFrame(
        [
            {
                **{"replicate": replicate, "predicted": drawn, "checkable": drawn},
                **{"correct": 0 if i else correct, "candidates": candidates, "effects": effects},
            }
            for i, (drawn, candidates, effects) in enumerate(fits)
        ]
    )


def by_listing(fits: tuple[tuple[int, int, int], ...]) -> np.ndarray:
    """The law of right predictions by listing every choice of every fit."""
    totals = np.zeros(1, dtype=int)
    for drawn, candidates, effects in fits:
        right = [sum(gene < effects for gene in chosen) for chosen in combinations(range(candidates), drawn)]
        totals = np.add.outer(totals, right).ravel()
    return np.bincount(totals) / len(totals)


def test_the_law_of_chance_is_that_of_all_choices() -> None:
    law = chance_law(fits_of(*FITS))
    expected = by_listing(FITS)
    np.testing.assert_allclose(law[: len(expected)], expected, atol=1e-12)
    assert law[len(expected) :].sum() == pytest.approx(0.0, abs=1e-12)
    assert upper_tail(law, 4) == pytest.approx(expected[4:].sum())
    assert upper_tail(law, 0) == 1.0
    assert chance_law(fits_of((0, 5, 2))).tolist() == [1.0]


def test_the_range_is_the_central_one() -> None:
    law = chance_law(fits_of(*FITS * 10))
    low, high = central_range(law)
    assert law[low : high + 1].sum() >= 0.95
    assert law[:low].sum() < 0.025 <= law[: low + 1].sum()
    assert law[high + 1 :].sum() <= 0.025 < law[high:].sum()


def test_many_fits_have_the_law_of_their_sum() -> None:
    law = chance_law(fits_of(*FITS * 100))
    k = np.arange(len(law))
    assert law.sum() == pytest.approx(1.0)
    assert law @ k == pytest.approx(100 * (3 * 4 / 6 + 2 / 5 + 4 * 2 / 6))
    variances = [n * e / c * (1 - e / c) * (c - n) / (c - 1) for n, c, e in FITS]
    assert law @ k**2 - (law @ k) ** 2 == pytest.approx(100 * sum(variances))


def test_seeds_are_not_counted_as_independent() -> None:
    assert combined([0.01, 0.03]) == pytest.approx(0.04)
    assert combined([0.9, 0.8]) == 1.0
    assert combined([0.02]) == 0.02
    assert combined([np.nan, 0.02]) == 0.02
    assert np.isnan(combined([np.nan]))
    one = fits_of(*FITS * 5, correct=25)
    twice = pd.concat([one, one.assign(replicate=1)])
    assert summary(twice)["p_value"] == pytest.approx(2 * summary(one)["p_value"])
    assert summary(one)["p_value"] == pytest.approx(upper_tail(chance_law(one), 25))
    assert summary(twice)["chance_high"] == summary(one)["chance_high"] == central_range(chance_law(one))[1] / 45


def test_methods_are_adjusted_for_settings_and_for_each_other() -> None:
    table = pd.DataFrame(
        {
            "method": ["a", "a", "a", "b", "c", "d"],
            "p_value": [0.5, 0.004, np.nan, 0.02, 0.001, np.nan],
        }
    )
    # c: 4 · .001; a: 3 settings · .004 · 3; b: 2 · .02, and not below that of a; d has predicted nothing.
    assert by_method(table) == pytest.approx({"c": 0.004, "a": 0.036, "b": 0.04, "d": 1.0})
    swapped = table.assign(p_value=[0.5, 0.005, 0.9, 0.0151, 0.001, 1.0])
    assert by_method(swapped)["b"] == by_method(swapped)["a"] == pytest.approx(0.045)


# ---------------------------------------------------------------- in words


@pytest.fixture
def study(on) -> Genes:
    return on(regulated(n_genes=12), methods=("Lasso", "Marginal"))


def results_of(lasso: int, marginal: int, note: str = "") -> pd.DataFrame:
    """So many of nine predictions are right in each of ten fits."""
    about = {"panel": 0, "target": "g2", "note": note, "warned": "", "genes": "", "ranking": "", "seconds": 1.0}
    counts = {"predicted": 9, "checkable": 9, "candidates": 20, "effects": 4}
    settings = (("Lasso", "5 folds", lasso), ("Marginal", "p<0.05", marginal))
    return pd.DataFrame(
        [
            {**about, **counts, "fold": fold, "replicate": seed, "method": name, "setting": setting, "correct": correct}
            for name, setting, correct in settings
            for seed in range(2)
            for fold in range(5)
        ]
    )


def test_a_null_result_is_called_one(study: Genes) -> None:
    results = results_of(2, 2)
    said = " ".join(study.reading(results))
    alone = summary(results[results["method"] == "Lasso"])["p_value"]
    assert "A null result: no method is shown to find genes" in said
    assert f"methods, is {min(2 * alone, 1):.2g}, of Lasso ({alone:.2g} before, with 5 folds)." in said


def test_one_method_above_chance_is_enough_and_is_named(study: Genes) -> None:
    results = results_of(2, 4, "failed: at once")
    said = " ".join(study.reading(results))
    line = study.table(results).iloc[1]
    assert line["method_p_value"] == pytest.approx(2 * line["p_value"])
    assert "null" not in said
    assert f"Marginal is right more often than chance, p = {line['method_p_value']:.2g} after" in said
    assert "with p<0.05: precision 0.444 where random predictions have 0.200, recall 1.000." in said
    assert "Lasso is right" not in said
    assert "Lasso gave no result in 10 of 10 fits, first: at once" in said
    shown = precision_table(study, results)
    assert shown["p"].tolist() == [f"{p:.2g}" for p in study.table(results)["p_value"]]


def test_a_small_p_value_of_one_of_several_methods_is_not_enough(study: Genes) -> None:
    results = results_of(2, 2)
    results.loc[(results["method"] == "Lasso") & (results["fold"] > 0), "correct"] = 3
    line = study.table(results).iloc[0]
    assert line["p_value"] < 0.05 < line["method_p_value"]
    assert "A null result" in " ".join(study.reading(results))
