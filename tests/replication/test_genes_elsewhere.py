"""Leading edges of the gene study on interventions that no fit has seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance.exceptions import DataError
from replication import genes_elsewhere
from replication.genes_elsewhere import (
    Interventions,
    checked,
    load_induction,
    load_knockouts,
    over_chance,
    ranked_edges,
)
from replication.knockouts import Deletions

NAN = np.nan
GENES = np.array(["a", "b", "c", "d"])


def write_induction(folder: Path, **changed: Any) -> None:
    """a is induced twice, b once; c was not measured after a, and only once after b."""
    arrays = {
        "log2_shrunken_10_to_45_min": np.array(
            [[0, 1.0, NAN, 0], [0, 3.0, NAN, -1.0], [0, 0, 0, 0.5]], dtype=np.float32
        ),
        "induced": np.array(["a", "a", "b"]),
        "genes": GENES,
    }
    np.savez(folder / genes_elsewhere.INDUCTION, **(arrays | changed))


def write_knockouts(folder: Path, **changed: Any) -> None:
    arrays = {
        "effect": np.array([[0, -1.0, 2.0, NAN], [0.5, 0, 0.1, 0.2]], dtype=np.float16),
        "p_value": np.array([[0.5, 0.01, 0.04, 0.001], [0.2, 1.0, NAN, 0.06]], dtype=np.float16),
        "deleted": np.array(["a", "c"]),
        "genes": GENES,
    }
    np.savez(folder / genes_elsewhere.KNOCKOUTS, **(arrays | changed))


def test_what_other_laboratories_measured(tmp_path: Path) -> None:
    write_induction(tmp_path)
    found = load_induction(tmp_path)
    assert (found.regulators, found.genes, found.sign) == (("a", "b"), tuple(GENES), 1)
    assert found.known.tolist() == [[True, True, False, True], [True] * 4]
    assert found.moved.tolist() == [[False, True, False, True], [False, False, False, True]]
    np.testing.assert_allclose(found.effect, [[0, 2.0, 0, -0.5], [0, 0, 0, 0.5]])
    write_knockouts(tmp_path)
    found = load_knockouts(tmp_path)
    assert (found.regulators, found.sign) == (("a", "c"), -1)
    assert found.known.tolist() == [[True, True, True, False], [True, True, False, True]]
    assert found.moved.tolist() == [[False, True, True, False], [False] * 4]
    assert [one.name for one in genes_elsewhere.laboratories_beside(str(tmp_path))] == [
        "induction (Hackett et al. 2020)",
        "knock-outs (Hu et al. 2007)",
    ]
    assert len(genes_elsewhere.laboratories_beside(str(tmp_path / "deletions.npz"))) == 2
    assert genes_elsewhere.laboratories_beside(str(tmp_path / "elsewhere" / "deletions.npz")) == ()
    assert genes_elsewhere.laboratories_beside(None) == ()


def test_damaged_files(tmp_path: Path) -> None:
    write_knockouts(tmp_path, deleted=np.array(["a", "a"]))
    with pytest.raises(DataError, match="a regulator twice"):
        load_knockouts(tmp_path)
    np.savez(tmp_path / genes_elsewhere.INDUCTION, genes=GENES)
    with pytest.raises(DataError, match="log2_shrunken"):
        load_induction(tmp_path)


RESULTS = pd.DataFrame(
    [
        ("Lasso", "x", 0, 0, "a=0.6 b=0.2"),
        ("Lasso", "x", 1, 0, "a=0.4"),
        ("Lasso", "y", 0, 0, "b=0.9"),
        ("Lasso", "y", 1, 0, ""),
        ("Other", "y", 0, 0, "z=5"),
    ],
    columns=["method", "target", "fold", "replicate", "ranking"],
).assign(panel=0)


def test_edges_are_ranked_by_means_over_fits() -> None:
    found = ranked_edges(RESULTS, "Lasso").set_index(["regulator", "target"])["score"]
    assert found.to_dict() == pytest.approx({("a", "x"): 0.5, ("b", "x"): 0.1, ("b", "y"): 0.45})
    # Only the fit of fold 1 has held out a, only that of fold 0 b.
    held_out = {(0, 1, "a"): True, (0, 0, "b"): True, (0, 0, "a"): False}
    found = ranked_edges(RESULTS, "Lasso", held_out).set_index(["regulator", "target"])["score"]
    assert found.to_dict() == pytest.approx({("a", "x"): 0.4, ("b", "x"): 0.2, ("b", "y"): 0.9})


def test_chance_is_that_of_the_same_regulator() -> None:
    what = Interventions(
        "",
        ("r", "s"),
        ("r", "t1", "t2", "t3", "t4"),
        np.array([[9, 1.0, -1.0, 0, 0], [9, 0, 0, 0, 2.0]]),
        np.array([[True] * 5, [True, True, True, True, False]]),
        np.array([[True, True, True, False, False], [True, False, False, False, False]]),
        1,
    )
    edges = pd.DataFrame(
        [("s", "t1", 1.0), ("r", "t2", 3.0), ("s", "t4", 4.0), ("q", "t1", 5.0), ("r", "t1", 0.0)],
        columns=["regulator", "target", "score"],
    )
    found = checked(edges, what, ["t1", "t2", "t3", "t4", "r", "not measured"])
    # s → t4 was not measured, q not intervened on, and a score of 0 is no edge. r is no target of
    # its own.
    assert found[["regulator", "target", "moved"]].to_numpy().tolist() == [
        ["r", "t2", True],
        ["s", "t1", False],
    ]
    assert found["chance"].tolist() == pytest.approx([0.5, 0.25])
    assert found["effect"].tolist() == [-1.0, 0.0]
    line = over_chance(found)
    assert (line["edges"], line["regulators"], line["precision"]) == (2, 2, 0.5)
    assert line["ratio"] == pytest.approx(1.0 / 0.75)


def test_intervals_resample_regulators() -> None:
    """One regulator with many edges is one regulator: repeating its edges makes the interval no
    shorter."""
    rng = np.random.default_rng(0)
    few = pd.DataFrame(
        {"regulator": np.repeat(np.arange(30), 3), "moved": rng.random(90) < 0.4, "chance": 0.2}
    )
    many = pd.concat([few] * 10)
    one = over_chance(few)
    ten = over_chance(many)
    assert (one["low"], one["high"], one["ratio"]) == pytest.approx(
        (ten["low"], ten["high"], ten["ratio"])
    )
    assert one["low"] < one["ratio"] < one["high"]
    assert one["ratio"] == pytest.approx(few["moved"].mean() / 0.2)
    spread = over_chance(few.assign(regulator=np.arange(90)))
    assert spread["high"] - spread["low"] < 1.5 * (one["high"] - one["low"])


def test_without_edges_or_effects_there_is_no_ratio() -> None:
    nothing = pd.DataFrame({"regulator": ["a", "b"], "moved": [False, False], "chance": [0.0, 0.0]})
    line = over_chance(nothing)
    assert (line["precision"], line["chance"]) == (0.0, 0.0)
    assert np.isnan([line["ratio"], line["low"], line["high"]]).all()
    assert genes_elsewhere.in_words(pd.DataFrame([], columns=genes_elsewhere.COLUMNS)) == []


def test_signs_of_associations() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, 3))
    values[:, 1] = values[:, 0] + 0.1 * values[:, 1]
    values[:, 2] = -values[:, 0] + 0.1 * values[:, 2]
    # The samples that lack a gene would turn the sign.
    values[0] = [-90.0, 90.0, -90.0]
    values[1] = [90.0, -90.0, 90.0]
    samples = Deletions(
        values, ("r", "up", "down"), tuple(map(str, range(60))), ("r", "r", *[None] * 58)
    )
    edges = pd.DataFrame({"regulator": ["r", "r"], "target": ["up", "down"]})
    assert genes_elsewhere.association(samples, edges).tolist() == [1, -1]


@pytest.mark.parametrize(("low", "null"), [(0.9, True), (1.1, False)])
def test_a_null_is_called_one(low: float, null: bool) -> None:
    line = {
        "checked on": "knock-outs",
        "method": "Lasso",
        "top": 50,
        "edges": 50,
        "regulators": 9,
        "precision": 0.3,
    }
    line |= {"chance": 0.2, "ratio": 1.5, "low": low, "high": 2.0, "signs": 15, "signs_agree": 0.8}
    other = line | {"method": "Marginal", "low": 0.5}
    table = pd.DataFrame([line, other])
    (said,) = genes_elsewhere.in_words(table)
    assert ("null result" in said) == null
    assert ("Lasso 1.50 (1.10 to 2.00, 50 edges)" in said) != null
    assert ("(1 of 2 intervals are above 1)" in said) != null
    assert ("Not shown to be above it: Marginal" in said) != null
    assert genes_elsewhere.in_columns(table)["over chance (95%)"][0] == f"1.50 ({low:.2f} to 2.00)"
