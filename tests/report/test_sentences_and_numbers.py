"""What a page says in words is what its numbers say, and these are what anyone computes from the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from decision_cases import made, role_of
from invariance import BIP, BIPClassifier
from report_reader import Page

SUBSETS = "Compatible subsets, the best predictor first"
pytestmark = [
    pytest.mark.usefixtures("without_pictures"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def values(read: Page, caption: str, title: str) -> dict[str, float]:
    return {label: float(str(value)) for label, (_, value) in read.column(caption, title).items()}


def test_figures_are_those_that_anyone_computes(page: Callable[[BIP], Page]) -> None:
    data = made()
    read = page(BIP().fit(data))
    design = np.column_stack([np.ones(data.n_rows), data.X[:, :2]])
    coefficients, (left,), *_ = np.linalg.lstsq(design, data.y, rcond=None)
    rows = pd.DataFrame({"y": data.y, "residual": data.y - design @ coefficients})
    each = rows.groupby([data.environments[e] for e in data.environment_index])
    assert values(read, "Environments", "SD") == pytest.approx(each["y"].std().to_dict(), rel=1e-5)
    residuals = {
        "Mean residual": each["residual"].mean(),
        "Standard error": each["residual"].sem(),
        "SD of residuals": each["residual"].std(),
        "5%": each["residual"].quantile(0.05),
    }
    for title, expected in residuals.items():
        assert values(read, "Residuals by environment", title) == pytest.approx(expected.to_dict(), rel=1e-4), title
    r2 = 1.0 - left / ((data.y - data.y.mean()) ** 2).sum()
    assert values(read, SUBSETS, "R²")["{a, b}"] == pytest.approx(r2, rel=1e-5)
    found = values(read, "Coefficients with 95% intervals by environment", "a")
    assert found["all together"] == pytest.approx(coefficients[1], rel=1e-5)
    assert f"{{a, b}}: p-value 0.763, R² {r2:.3f}" in read.text


def test_a_feature_that_cannot_be_judged_has_no_p_value(page: Callable[[BIP], Page]) -> None:
    data = made(n_environments=3)
    kept = np.flatnonzero((data.environment_index < 2) | (np.arange(data.n_rows) >= data.n_rows - 3))
    model = BIP().fit(replace(data, X=data.X[kept], y=data.y[kept], environment_index=data.environment_index[kept]))
    read = page(model)
    roles, p_values = (read.column("Every feature", title) for title in ("Role", "p_inv then"))
    unjudged = [name for name, (text, _) in roles.items() if text.startswith("cannot be judged")]
    assert unjudged
    assert [p_values[name] for name in unjudged] == [("–", None)] * len(unjudged)
    assert np.isnan(role_of(model.decision_, unjudged[0]).p_invariant)
    assert role_of(model.decision_, unjudged[0]).to_plain()["p_invariant"] is None


def test_what_no_subset_has_is_no_column(page: Callable[[BIP], Page]) -> None:
    data = made()
    classes = BIPClassifier().fit(data.X, data.y > 0.0, environments=data.environment_index)
    heads = {"R² elsewhere": (False, True), "p_inv": (True, True)}
    for model, place in ((classes, 0), (BIP().fit(data), 1)):
        head = [text for text, _ in page(model).tables[SUBSETS][0]]
        assert {title: title in head for title in heads} == {title: told[place] for title, told in heads.items()}
    assert "Share of 1" in [text for text, _ in page(classes).tables["Residuals by environment"][0]]
