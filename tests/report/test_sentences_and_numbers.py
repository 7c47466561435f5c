"""What a page says in words is what its numbers say, and these are what anyone computes from the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from decision_cases import broken, made, role_of
from invariance import BIP, BIPClassifier, InclusionPrior
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


def test_subsets_outside_the_support_are_not_called_allowed(page: Callable[[BIP], Page]) -> None:
    data = made()
    read = page(BIP().fit(replace(data, y=2.0 * data.X[:, 0] - data.X[:, 1])))
    assert "4 of 16 subsets are outside the support" in read.text
    assert "16, by the prior and the number of rows" in read.text


def test_one_feature_is_asked_for_by_its_name(page: Callable[[BIP], Page]) -> None:
    data = made()
    read = page(BIP().fit(replace(data, X=data.X[:, :1], feature_names=("a",))))
    assert "Does a predict y in the same way in every one of 4 environments" in read.text
    assert "Which of 1 features" not in read.text


def test_several_that_were_never_challenged_are_several(page: Callable[[BIP], Page]) -> None:
    assert "{b}: never challenged: no environment shifts this feature" in page(BIP().fit(made())).text
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3))
    alike = BIP().fit(X, X.sum(axis=1) + rng.normal(size=400), environments=np.repeat(list("pqrs"), 100))
    assert "{x0, x1, x2}: never challenged: no environment shifts any of them" in page(alike).text


def test_two_answers_that_differ_are_reconciled(page: Callable[[BIP], Page]) -> None:
    data = made()
    noise = np.random.default_rng(4).standard_t(2, size=data.n_rows)
    heavy = BIP().fit(replace(data, y=data.X[:, 0] - 0.5 * data.X[:, 1] + noise))
    assert heavy.decision_.is_compatible
    assert heavy.posterior_.verdict is not None
    read = page(heavy)
    assert "None of the 16 subsets looks invariant" in read.text
    assert (
        "The two differ because they ask differently: subsets are compatible by a test of invariance up to" in read.text
    )
    assert "tolerates no difference, and takes the noise as normal." in read.text
    assert "is expected of an invariant subset with normal noise." in read.text
    assert "The two differ" not in page(BIP().fit(data)).text
    nothing = BIP().fit(broken())
    assert nothing.posterior_.verdict is not None
    assert "The two differ" not in page(nothing).text


def test_what_no_subset_has_is_no_column(page: Callable[[BIP], Page]) -> None:
    data = made()
    classes = BIPClassifier().fit(data.X, data.y > 0.0, environments=data.environment_index)
    heads = {"R² elsewhere": (False, True), "p_inv": (True, True)}
    for model, place in ((classes, 0), (BIP().fit(data), 1)):
        head = [text for text, _ in page(model).tables[SUBSETS][0]]
        assert {title: title in head for title in heads} == {title: told[place] for title, told in heads.items()}
    assert "Share of 1" in [text for text, _ in page(classes).tables["Residuals by environment"][0]]


def test_only_what_the_prior_allows_is_called_incompatible(page: Callable[[BIP], Page]) -> None:
    forced = page(BIP(prior=InclusionPrior({"effect": 1.0})).fit(made()))
    assert forced.column("Every feature", "p_inv then")["effect"][0] == "0.763"
    assert forced.text.count("that the prior allows is compatible with invariance") == 3
    for claim in ("No subset is compatible", "No subset of the features is compatible"):
        assert claim not in forced.text
