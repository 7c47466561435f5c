"""Edges of a sweep: p-values of invariant causal prediction, and the rule over outcomes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, InclusionPrior, Moments, MultiEnvironmentData, Tolerance, edges, sweep
from invariance.exceptions import DataError, DataWarning, SettingError
from invariance.sweeps.edges import edges_sections
from invariance.sweeps.fitting import RESULT_COLUMNS
from replication.knockouts import DELETED_LEVEL, Knockouts, knockouts


def chain(seed: int = 0) -> pd.DataFrame:
    """a → b → c; environments move a and d, and nothing disturbs c."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(360, 5))
    values[120:240, 0] += 3.0
    values[240:, 3] -= 3.0
    values[:, 1] += 0.9 * values[:, 0]
    values[:, 2] += 0.9 * values[:, 1]
    return pd.DataFrame(values, columns=list("abcde")).assign(site=np.repeat(["u", "v", "w"], 120))


def largest_without(rows: pd.DataFrame, outcome: str, names: str) -> dict[str, float]:
    """{feature: largest p-value of a subset of the names without it}"""
    model = BIP().fit(Moments.from_data(MultiEnvironmentData.from_table(rows, outcome, "site")))
    tested = {
        subset: model.posterior_.evidence(subset).p_invariant
        for size in range(len(names) + 1)
        for subset in combinations(names, size)
    }
    features = rows.columns.drop([outcome, "site"])
    return {name: max(p for subset, p in tested.items() if name not in subset) for name in features}


@pytest.mark.parametrize("most", [12, 1])
def test_the_p_value_is_the_largest_of_a_subset_without_the_feature(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("invariance.sweeps.edges.MOST_TESTED", most)
    found = sweep(chain(), outcomes=["b"], environments="site").set_index("feature")
    leading = "".join(found.index[:most])
    expected = pd.Series(largest_without(chain(), "b", leading))
    np.testing.assert_allclose(
        found["p_edge"], np.minimum(1.05 * expected, 1.0)[found.index], rtol=1e-6
    )
    assert (expected.drop("a") > 0.2).all()
    assert expected["a"] < 1e-6


def test_no_p_value_where_nothing_is_invariant_and_none_below_one_for_what_is_not_tried() -> None:
    rows = chain().assign(
        a=lambda table: table["a"] + table["site"].map({"u": 0.0, "v": 9.0, "w": -9.0})
    )
    for model in (BIP(baseline="shared"), BIP()):
        assert sweep(rows, model, outcomes=["a"], environments="site")["p_edge"].isna().all()
    model = BIP(prior=InclusionPrior({"a": 0.0}))
    without = sweep(rows, model, outcomes=["b"], environments="site").set_index("feature")
    assert not without["p_edge"].lt(0.2)["a"]


def test_an_effect_that_nothing_disturbs_is_no_edge() -> None:
    found = sweep(chain(), outcomes=["b", "c"], environments="site").set_index(
        ["outcome", "feature"]
    )
    assert found["inclusion"][("b", "c")] > 0.99
    listed = edges(found.reset_index())
    assert set(zip(listed["outcome"], listed["feature"], strict=True)) == {
        ("b", "a")
    }  # c follows {a} alike


def of_p_values(**outcomes: Any) -> pd.DataFrame:
    """A sweep with these p-values of features x0, x1, …"""
    rows = [
        {
            "outcome": outcome,
            "feature": f"x{j}",
            "p_edge": p,
            "inclusion": 1.0,
            "selected": True,
            "verdict": "invariant",
        }
        for outcome, values in outcomes.items()
        for j, p in enumerate(values)
    ]
    return pd.DataFrame(rows).reindex(columns=list(RESULT_COLUMNS))


@pytest.mark.parametrize(
    ("fdr", "listed"),
    [
        (0.1, 3),  # limits of 2 outcomes: .1/3, .2/3
        (0.08, 0),  # .0267, .0533
        (0.15, 4),  # .05, .1
    ],
)
def test_outcomes_count_once_however_many_edges_they_have(fdr: float, listed: int) -> None:
    table = of_p_values(a=[0.03, 0.04, 0.09], b=[0.06, 0.5, 0.9])
    assert len(edges(table, fdr)) == listed


def test_outcomes_without_p_values_count_and_those_that_failed_do_not() -> None:
    assert len(edges(of_p_values(a=[0.09]), 0.1)) == 1
    assert len(edges(of_p_values(a=[0.09], b=[np.nan]), 0.1)) == 0
    table = of_p_values(a=[0.09], b=[0.5])
    table.loc[1, "feature"] = None
    assert len(edges(table, 0.1)) == 1
    head, control = edges_sections(
        of_p_values(a=[0.01], b=[np.nan]), edges(of_p_values(a=[0.01])), 0.1
    )
    assert head.title.startswith("1 edge into 1 of 2 outcomes. 1 have no compatible subset")
    assert "10%" in control.sentences[0]
    assert "2 outcomes" in control.sentences[0]


def test_edges_in_both_directions_are_left_out() -> None:
    table = of_p_values(x1=[0.5, 0.5, 0.5], x0=[0.5, 1e-9, 1e-8]).assign(
        p_edge=[1e-9, 0.5, 0.5, 0.5, 1e-9, 1e-8]
    )
    with pytest.warns(DataWarning, match="2 of 3 edges"):
        found = edges(table)
    assert found[["outcome", "feature"]].to_numpy().tolist() == [["x0", "x2"]]


@pytest.mark.parametrize("fdr", [0, 1, 2, None, "0.1", float("nan")])
def test_rates_that_are_none(fdr: Any) -> None:
    with pytest.raises(SettingError, match="fdr="):
        edges(of_p_values(a=[0.1]), fdr)


def test_other_tables_are_refused() -> None:
    with pytest.raises(DataError, match="no table of a sweep"):
        edges(pd.DataFrame({"outcome": ["a"]}))


def deletions(strength: float, genes: int, seed: int) -> tuple[pd.DataFrame, Knockouts]:
    """Wild types, and ten samples without each gene"""
    rng = np.random.default_rng(seed)
    simulated = knockouts(genes, 1, 1, parents=2.0, pairs=0, seed=rng)
    whom = np.arange(genes)
    levels = strength * rng.uniform(*DELETED_LEVEL, (10, genes))
    draw = simulated.network.expression
    parts = [
        draw(60, whom[:0], levels[0, :0], rng),
        *(draw(0, whom, level, rng) for level in levels),
    ]
    names = simulated.data.genes
    table = pd.DataFrame(np.vstack(parts), columns=list(names))
    table["kind"] = np.repeat(["wild type", "deletion"], [60, 10 * genes])
    return table.assign(deleted=[None] * 60 + [*names] * 10), simulated


@pytest.mark.slow
def test_false_edges_are_rare_where_their_conditions_hold() -> None:
    """Without tolerance; `benchmarks/edges.py` has other worlds."""
    shares = []
    n_found = 0
    for seed in range(30):
        table, simulated = deletions(0.3, 6, seed)
        model = BIP(tolerance=Tolerance.strict())
        listed = edges(
            sweep(table, model, environments="kind", perturbed="deleted", progress=False), 0.2
        )
        pairs = list(zip(listed["outcome"], listed["feature"], strict=True))
        false = {outcome for outcome, feature in pairs if feature not in simulated.truth(outcome)}
        shares.append(len(false) / max(listed["outcome"].nunique(), 1))
        n_found += len(pairs)
    assert np.mean(shares) < 0.2
    assert n_found > 60
