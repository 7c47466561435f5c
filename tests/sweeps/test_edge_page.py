"""The pairs of one column of a sweep, beside verdicts from elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from invariance import edges, edges_of
from invariance.exceptions import DataError
from invariance.sweeps.edge_page import MAX_SHOWN
from invariance.sweeps.fitting import RESULT_COLUMNS


def swept() -> pd.DataFrame:
    """b follows a and c, and d follows b; e could not be fitted."""
    rows = [
        ("b", "c", 0.7, 0.004),
        ("b", "a", 0.9, 1e-6),
        ("b", "d", 0.2, 0.8),
        ("d", "b", 0.95, 1e-5),
        ("f", "b", 0.1, np.nan),
        ("f", "a", 0.3, 0.5),
    ]
    table = pd.DataFrame(rows, columns=["outcome", "feature", "inclusion", "p_edge"])
    table = table.assign(selected=table["inclusion"] > 0.5, verdict="invariant")
    failed = pd.DataFrame({"outcome": ["e"], "verdict": ["constant"], "selected": [False]})
    return pd.concat([table, failed], ignore_index=True).reindex(columns=list(RESULT_COLUMNS))


CHECKS = pd.DataFrame(
    [("b", "a", "moved", 1.25), ("d", "b", "no effect", np.nan), ("x", "y", "moved", 2.0)],
    columns=["outcome", "feature", "held out", "induction"],
)


def test_features_come_first_and_then_outcomes() -> None:
    page = edges_of(swept(), "b", checks=CHECKS)
    pairs = list(zip(page.table["outcome"], page.table["feature"], strict=True))
    assert pairs == [("b", "a"), ("b", "c"), ("b", "d"), ("d", "b"), ("f", "b")]
    listed = edges(swept())
    assert set(zip(listed["outcome"], listed["feature"], strict=True)) >= {("b", "a"), ("d", "b")}
    assert page.table["edge"].tolist() == [
        pair in set(listed[["outcome", "feature"]].itertuples(index=False, name=None))
        for pair in pairs
    ]
    assert page.table["edge"].dtype == bool
    assert page.table["held out"].fillna("").tolist() == ["moved", "", "", "no effect", ""]
    assert page.table["induction"].tolist()[0] == 1.25
    text = str(page)
    assert "Features of b: 3 pairs, 2 of them edges" in text
    assert "Outcomes with the feature b: 2 pairs, 1 of them edges" in text
    assert "no effect" in text
    assert "nan" not in text


def test_a_column_that_is_no_feature_has_one_table() -> None:
    page = edges_of(swept(), "f")
    assert page.table["feature"].tolist() == ["a", "b"]
    assert "Outcomes with" not in str(page)


def test_fdr_decides_as_in_edges() -> None:
    strict = edges_of(swept(), "b", fdr=1e-4).table
    assert strict.loc[strict["edge"], "feature"].tolist() == ["a", "b"]


def test_long_lists_are_cut_and_counted() -> None:
    n = MAX_SHOWN + 3
    table = pd.DataFrame(
        {"outcome": "y", "feature": [f"g{j}" for j in range(n)], "inclusion": np.linspace(1, 0, n)}
    )
    table = table.assign(p_edge=0.5, selected=False, verdict="invariant").reindex(
        columns=list(RESULT_COLUMNS)
    )
    page = edges_of(table, "y")
    assert len(page.table) == n
    assert "… 3 more" in str(page)
    assert len(page.plot().get_yticks()) == MAX_SHOWN


def test_what_is_refused() -> None:
    with pytest.raises(DataError, match="could not fit 'e': constant"):
        edges_of(swept(), "e")
    with pytest.raises(DataError, match="'q' is in no pair"):
        edges_of(swept(), "q")
    with pytest.raises(DataError, match="'outcome' and 'feature'"):
        edges_of(swept(), "b", checks=CHECKS.drop(columns="feature"))
    with pytest.raises(DataError, match="first 'a' → 'b'"):
        edges_of(swept(), "b", checks=pd.concat([CHECKS, CHECKS[:1]]))
    with pytest.raises(DataError, match="own: 'p_edge'"):
        edges_of(swept(), "b", checks=CHECKS.assign(p_edge=0.1))


def test_the_picture_has_a_bar_a_pair_and_marks_edges(tmp_path: Path) -> None:
    page = edges_of(swept(), "b", checks=CHECKS)
    ax = page.plot()
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(
        page.table["inclusion"].tolist()
    )
    colors = [bar.get_facecolor() for bar in ax.patches]
    assert [color == colors[0] for color in colors] == page.table["edge"].tolist()
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [
        "a → b",
        "c → b",
        "d → b",
        "b → d",
        "b → f",
    ]
    (beside,) = ax.child_axes
    texts = [tick.get_text() for tick in beside.get_yticklabels()]
    assert texts[0] == "p: 1e-06; held out: moved; induction: 1.2"
    assert texts[-1] == ""
    assert page.save_plot(tmp_path / "page").read_bytes().startswith(b"\x89PNG")
