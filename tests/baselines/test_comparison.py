"""Several methods side by side, the registry of their names, and scikit-learn's conformance checks
of all of them."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from cli_runner import run
from invariance import BIP, UniformPrior, baselines
from invariance.baselines import (
    EILLS,
    ICP,
    Anchor,
    HiddenICP,
    LassoScreen,
    LassoSelection,
    MarginalSelection,
    Oracle,
    Pooled,
    PooledRegression,
    RandomIntercept,
    RidgeRegression,
    Screened,
    StabilizedRegression,
    VREx,
)
from invariance.baselines.comparison import compare, named_methods
from invariance.baselines.registry import METHODS, default_names
from invariance.data import MultiEnvironmentData
from invariance.datasets import make_example
from invariance.exceptions import DataWarning
from invariance.posterior.summary import CAUSES, display_width

OTHERS = [
    PooledRegression(),
    HiddenICP(),
    EILLS(max_size=2),
    LassoSelection(cv=2),
    MarginalSelection(),
    Oracle([0]),
]
OTHERS += [
    RandomIntercept(),
    Anchor(),
    VREx(),
    StabilizedRegression(n_subsets=5),
    RidgeRegression(),
    Pooled("forest"),
]
EXAMPLE = make_example()


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([ICP(max_size=1), Screened(EILLS(), LassoScreen(k=3, cv=2))])
def test_scikit_learn_conformance(estimator: object, check: object) -> None:
    check(estimator)


def of_two_classes(estimator: Any) -> dict[str, str]:
    """Checks with an outcome of two classes, which some methods refuse"""
    names = ("dtypes", "nan_inf", "pickle")
    checks = [f"check_estimators_{name}" for name in names] + [
        "check_pipeline_consistency",
        "check_fit2d_1feature",
    ]
    checks += [
        f"check_transformer_{name}" for name in ("data_not_an_array", "general", "preserve_dtypes")
    ]
    return {} if "classes" in estimator._kinds else dict.fromkeys(checks, "it refuses two classes")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(OTHERS, expected_failed_checks=of_two_classes)
def test_scikit_learn_conformance_of_the_others(estimator: object, check: object) -> None:
    check(estimator)


def wide(p: int = 30) -> MultiEnvironmentData:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, p))
    return MultiEnvironmentData.from_arrays(
        X, X[:, 0] + rng.normal(size=150), np.repeat(["a", "b", "c"], 50)
    )


def words(text: object) -> str:
    return " ".join(str(text).split())


def test_table_and_plot_hold_every_method_and_feature(tmp_path: Path) -> None:
    result = compare(EXAMPLE)
    names = ["BIP", "ICP", "Hidden-ICP", "EILLS", "Stabilized", "Regression", "Lasso", "Marginal"]
    assert result.index.tolist() == names
    alone = ICP().fit(EXAMPLE)
    p_values = result.spread("p_values")
    assert p_values.columns.tolist() == list(EXAMPLE.feature_names)
    np.testing.assert_array_equal(p_values.loc["ICP"], alone.p_values_)
    assert p_values.loc["Lasso"].isna().all()
    selected = result.spread("status") == "selected"
    np.testing.assert_array_equal(selected.loc["ICP"], alone.support_)
    assert result.loc["ICP", "selected"] == alone.selected_features_
    assert result.spread("inclusion_probabilities").loc["BIP"].notna().all()
    assert selected.loc["BIP"].tolist() == EXAMPLE.truth.tolist()
    assert np.isfinite(result["seconds"]).all()
    assert type(result.query("outcome == 'selected'")) is pd.DataFrame
    ax = result.plot(truth=EXAMPLE.truth)
    filled = np.zeros((8, 8), dtype=bool)
    for patch in ax.patches:
        row = round(patch.get_y() + 0.45)
        column = round(patch.get_x() + 0.45)
        filled[row, column] = patch.get_facecolor()[:3] != (1.0, 1.0, 1.0)
    assert len(ax.patches) == 64
    np.testing.assert_array_equal(filled, selected)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == names
    assert [
        tick.get_fontweight() == "bold" for tick in ax.get_xticklabels()
    ] == EXAMPLE.truth.tolist()
    assert result.save_plot(tmp_path / "grid").stat().st_size > 1000


def test_many_features_are_screened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = LassoScreen.screen
    monkeypatch.setattr(
        LassoScreen, "screen", lambda self, data: calls.append(self) or original(self, data)
    )
    result = compare(
        wide(), ["bip-screen", "ICP-screen", "EILLS-screen", Screened(ICP(), LassoScreen(k=3))]
    )
    assert len(calls) == 2
    assert result.index.tolist() == ["BIP-screen", "ICP-screen", "EILLS-screen", "ICP-screen (2)"]
    seen = (result.spread("status") != "screened out").to_numpy()
    assert (seen[:3] == seen[0]).all()
    assert 1 <= seen[3].sum() <= 3
    assert result["selected"].iloc[1] == Screened(ICP()).fit(wide()).selected_features_


def test_bip_is_the_bip_of_fit() -> None:
    """The screen prefers effects of the outcome that differ between environments; the posterior
    knows better."""
    rng = np.random.default_rng(2)
    env = np.repeat([0, 1, 2, 3], 100)
    X = rng.normal(size=(400, 14)) * (1 + 0.5 * env[:, None])
    y = X[:, 0] + X[:, 1] + rng.normal(size=400)
    X[:, 3:14] = y[:, None] * rng.uniform(0.5, 2, size=(4, 11))[env] + 0.3 * rng.normal(
        size=(400, 11)
    )
    data = MultiEnvironmentData.from_arrays(X, y, env)
    result = compare(data, ["BIP", "BIP-screen"], bip=BIP(select="mode"))
    np.testing.assert_array_equal(
        result.loc["BIP", "inclusion_probabilities"],
        BIP(select="mode").fit(data).inclusion_probabilities_,
    )
    assert result.loc["BIP", "selected"] == ("x0", "x1")
    assert (result.loc["BIP-screen", "status"] == "screened out").sum() >= 4
    none = compare(EXAMPLE, ["BIP", "BIP-screen"], bip=BIP(prior=UniformPrior(max_size=0)))
    assert none["selected"].tolist() == [(), ()]


def test_what_was_said_of_a_feature_looks_different() -> None:
    """ICP rejects every subset, the screen leaves features out, and a copied feature makes
    Hidden-ICP fail."""
    data = wide(20)
    X = np.column_stack([data.X, data.X[:, 0]])
    y = data.y * (1 + 9 * data.environment_index)
    copied = MultiEnvironmentData.from_arrays(X, y, data.environment_index)
    result = compare(copied, ["ICP-screen", "Marginal", "Hidden-ICP"])
    icp, marginal, hidden = result["status"]
    assert set(icp) == {"rejected", "screened out"}
    names = np.array(result.attrs["features"])
    assert names[marginal == "selected"].tolist() == list(result.loc["Marginal", "selected"])
    assert set(marginal) == {"selected", "not selected"}
    assert set(hidden) == {"failed"}
    assert "'x0', 'x20'" in words(result)
    stored = json.loads(result.to_json())["methods"]
    assert [m["status"] for m in stored] == result.spread("status").to_numpy().tolist()
    marks = {
        line.split()[0]: line.split()[1]
        for line in str(result).splitlines()
        if line.startswith("  x")
    }
    shown = dict(zip(names, icp, strict=True))
    assert all(
        mark == {"rejected": "×", "screened out": "–"}[shown[name]] for name, mark in marks.items()
    )
    ax = result.plot()
    looks = {(patch.get_facecolor(), patch.get_hatch()) for patch in ax.patches}
    assert len(looks) == 5
    assert (stored[0]["outcome"], stored[0]["p_values"]) == ("rejected", [None] * 21)
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["selected", "not selected", "screened out", "rejected", "failed"]


def test_notes_and_verdicts_of_a_method() -> None:
    class Doubtful(BIP):
        def fit(self, X):
            super().fit(replace(X, y=X.y + 50.0 * (X.environment_index == 1)))
            warnings.warn("one of the columns is odd", DataWarning, stacklevel=2)
            return self

    for settings, level in (({"baseline": "shared"}, "none"), ({}, "effects")):
        result = compare(EXAMPLE, {"BIP": Doubtful(**settings), "ICP": ICP()})
        bip, icp = json.loads(result.to_json())["methods"]
        assert "one of the columns is odd" in result.loc["BIP", "notes"]
        assert f"BIP: {bip['verdict']}" in words(result)
        assert (CAUSES in words(result)) == (level == "none")  # other baselines are what differs
        assert (bip["level"], icp["level"], icp["verdict"]) == (level, None, None)
        doubt = {"none": "BIP: the selected features are not", "effects": "BIP: baselines differ"}
        assert result.plot().get_title(loc="left").startswith(doubt[level])


def test_long_names_are_told_apart_within_80_columns() -> None:
    data = wide(5)
    names = [
        *(f"concentration_protein_{letter}_in_plasma_day_1" for letter in "ABC"),
        "日本語の長い特徴量です",
        "a\nb",
    ]
    data = MultiEnvironmentData.from_arrays(
        data.X, data.y, data.environment_index, feature_names=names
    )
    methods = {
        f"regression_on_{where}_pooled_rows_of_2024": MarginalSelection()
        for where in ("north", "south")
    }
    result = compare(
        data, methods | dict(named_methods("ICP,EILLS,Hidden-ICP-screen", 5)) | {"!" * 99: Oracle()}
    )
    lines = str(result).splitlines()
    assert max(map(display_width, lines)) <= 80
    starts = [i for i, line in enumerate(lines) if line == "Selected"]
    assert len(starts) == 2
    grid = lines[starts[0] + 2 : lines.index("", starts[0])]
    assert len({line[:14] for line in grid}) == len(grid) == 5
    listed = lines[lines.index("Methods") + 1 :]
    for title in (title for start in starts for title in lines[start + 1].split()[1:]):
        assert sum(line.startswith(f"  {title} ") for line in listed) == 1


def test_features_of_few_choices_come_before_those_of_many() -> None:
    """The many that one method selects must not push out the few of another."""
    data = wide(60)
    result = compare(
        data, {"A": MarginalSelection(), "B": MarginalSelection(), "few": MarginalSelection()}
    )
    chosen = np.where(np.arange(60) < 55, "selected", "not selected")
    rest = np.where(np.arange(60) >= 58, "selected", "not selected")
    result["status"] = pd.Series([chosen, chosen, rest], result.index)
    assert all(f"\n  {name} " in str(result) for name in ("x58", "x59"))
    assert "40 features" in str(result)


def test_settings_and_names_of_methods() -> None:
    result = compare(EXAMPLE, "icp(max_size=2), EILLS(gamma=1e-3), ICP-screen(k=3), lasso")
    names = ["icp(max_size=2)", "EILLS(gamma=1e-3)", "ICP-screen(k=3)", "Lasso"]
    assert result.index.tolist() == names
    assert result["selected"].iloc[0] == ICP(max_size=2).fit(EXAMPLE).selected_features_
    screened = result.loc["ICP-screen(k=3)"]
    assert (screened["status"] != "screened out").sum() == 3
    assert screened["notes"][0].startswith("3 of 8 features")
    model = ICP(alpha=0.01)
    compare(EXAMPLE, {"strict": model})
    assert not hasattr(model, "support_")


def test_json_is_strict_and_constant_features_are_left_out(tmp_path: Path) -> None:
    data = wide(20)
    with pytest.warns(DataWarning, match="constant"):
        data = MultiEnvironmentData.from_arrays(
            np.c_[np.ones(150), data.X], data.y, data.environment_index
        )
    result = compare(data, ["ICP-screen", "Lasso"])
    text = result.to_json(tmp_path / "comparison.json")
    read = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert read == json.loads((tmp_path / "comparison.json").read_text())
    icp, lasso = read["methods"]
    assert icp["p_values"].count(None) == icp["status"].count("screened out") > 0
    assert lasso["p_values"] is None
    assert lasso["selected"] == list(result.loc["Lasso", "selected"])


def test_evidence_is_what_the_rule_goes_by() -> None:
    result = compare(
        EXAMPLE, {rule: BIP(select=rule) for rule in ("predictive", "mode", "threshold")}
    )
    contents = json.loads(result.to_json())["methods"]
    model = BIP().fit(EXAMPLE)
    expected = (model.predictive_, model.posterior_, model.posterior_)
    for content, posterior in zip(contents, expected, strict=True):
        assert content["inclusion_probabilities"] == posterior.inclusion.tolist()
    assert "inclusion probability near 1 (predictive, mode, threshold)" in words(result)


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_no_probability_of_another_posterior_stands_beside_a_selection() -> None:
    """Nothing is compatible: how coefficients differ selects, and not the posterior that weighs
    invariance alone."""
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(4), 100)
    X = rng.normal(size=(400, 2))
    data = MultiEnvironmentData.from_arrays(X, X[:, 0] * (1.0 + site) + rng.normal(size=400), site)
    result = compare(data, {"BIP": BIP(baseline="shared"), "mode": BIP(select="mode")})
    assert result.loc["BIP", "selected"] == ("x0",)
    assert result["inclusion_probabilities"].isna().tolist() == [True, False]
    assert any("no subset is compatible" in note for note in result.loc["BIP", "notes"])


@pytest.mark.parametrize(
    ("outcome", "wrong"), [("died", True), ("falls", True), ("pressure", False)]
)
def test_least_squares_are_named(outcome: str, wrong: bool) -> None:
    rng = np.random.default_rng(5)
    site = np.repeat(["a", "b", "c"], 80)
    X = rng.normal(size=(240, 2)) + np.repeat([0.0, 1.0, -1.0], 80)[:, None]
    values = {
        "died": np.where(rng.random(240) < 1 / (1 + np.exp(-X[:, 0])), "yes", "no"),
        "falls": rng.poisson(np.exp(0.4 * X[:, 0])),
        "pressure": X[:, 0] + rng.normal(size=240),
    }
    data = MultiEnvironmentData.from_arrays(X, pd.Series(values[outcome], name=outcome), site)
    found = compare(data, {"BIP": BIP(), "told": BIP(family="linear_gaussian"), "ICP": ICP()})
    assert [m["as_number"] for m in json.loads(found.to_json())["methods"]] == [False, wrong, wrong]
    compared = {
        title
        for section in found.sections
        if section.title == "Selected"
        for title in section.table[0]
    }
    assert compared == {"feature", "BIP", *(() if wrong else ("told", "ICP"))}
    apart = re.findall(r"(\w+) {", words(found).rpartition("By least squares")[2])
    assert apart == (["told", "ICP"] if wrong else [])


def test_every_name_builds_what_bears_it() -> None:
    for name, method in METHODS.items():
        model = method.build(**({"alpha": 0.3} if "ICP" in name else {}))
        inner = model.estimator if isinstance(model, Screened) else model
        assert type(inner) is method.load()
        assert getattr(inner, "alpha", 0.3) == 0.3 or "ICP" not in name
        assert isinstance(model, Screened) == method.screened
        assert [found for found, _ in named_methods([model], 3)] == [name]
    many = ["BIP", "ICP-screen", "Hidden-ICP-screen", "EILLS-screen", "Stabilized-screen"]
    many += ["Regression", "Lasso", "Marginal"]
    assert default_names(17) == many
    assert default_names(16) == [name.removesuffix("-screen") for name in many]


def test_help_and_docstring_come_from_the_registry() -> None:
    result = run("compare", "--help")
    for method in (method for method in METHODS.values() if not method.screened):
        assert f"{method.name} {method.help}" in words(result.stdout)
        assert f"{method.name:<10}  {method.help}" in str(compare.__doc__)
    classes = {method.home.partition(":")[2] for method in METHODS.values()}
    assert set(baselines.__all__) - {"LassoScreen", "Screened"} == classes - {"BIP"}


def test_small_environments_are_for_methods_that_can_use_them() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    labels = np.repeat(np.arange(21), [1, 2, *[3] * 19])
    data = MultiEnvironmentData.from_arrays(X, X[:, 0] + 0.3 * rng.normal(size=60), labels)
    names = ["BIP", "ICP", "Regression", "Lasso", "Marginal", "Mixed", "Anchor"]
    found = compare(data, methods=names, progress=False)
    assert found.index[found["outcome"] == "failed"].tolist() == ["ICP", "Anchor"]
    notes = found["notes"].map(" ".join)
    assert all("'0' (1 row), '1' (2 rows)" in notes[name] for name in ("ICP", "Anchor"))
    assert "deviate at random" in notes["BIP"]
    assert "x0" in found.loc["Regression", "selected"]
