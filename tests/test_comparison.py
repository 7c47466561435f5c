"""Several methods side by side, and all methods under scikit-learn's conformance checks."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from invariance.baselines import EILLS, ICP, HiddenICP, LassoSelection, MarginalSelection, Oracle, PooledRegression
from invariance.comparison import METHODS, compare
from invariance.comparison_plot import plot_comparison, save_comparison
from invariance.comparison_text import comparison_summary
from invariance.data import MultiEnvironmentData
from invariance.datasets import make_example
from invariance.screening import LassoScreen, Screened
from invariance.summary import display_width

ESTIMATORS = [
    ICP(max_size=2),
    HiddenICP(),
    EILLS(max_size=2),
    PooledRegression(),
    LassoSelection(cv=2),
    MarginalSelection(),
    Oracle([0]),
    Screened(ICP(), LassoScreen(k=3, cv=2)),
]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_conformance(estimator: object, check: object) -> None:
    check(estimator)


def wide(p: int = 30) -> MultiEnvironmentData:
    rng = np.random.default_rng(0)
    env = np.repeat(["a", "b", "c"], 50)
    X = rng.normal(size=(150, p))
    return MultiEnvironmentData.from_arrays(X, X[:, 0] + rng.normal(size=150), env)


def test_table_holds_every_method_and_feature() -> None:
    data = make_example()
    result = compare(data)
    table = result.table
    assert len(table) == 7 * 8
    assert table["method"].unique().tolist() == ["BIP", "ICP", "Hidden-ICP", "EILLS", "Regression", "Lasso", "Marginal"]
    alone = ICP().fit_data(data)
    icp = table[table["method"] == "ICP"]
    np.testing.assert_array_equal(icp["p_value"], alone.p_values_)
    np.testing.assert_array_equal(icp["selected"], alone.support_)
    assert table.loc[table["method"] == "BIP", "inclusion_probability"].notna().all()
    assert result.selected.loc["BIP"].tolist() == data.truth.tolist()
    assert (table["seconds"] > 0).all()


def test_many_features_are_screened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = LassoScreen.screen
    monkeypatch.setattr(LassoScreen, "screen", lambda self, data: calls.append(self) or original(self, data))
    result = compare(wide(), ["bip-screen", "ICP-screen", "EILLS-screen", Screened(ICP(), LassoScreen(k=3))])
    assert len(calls) == 2
    assert [m.name for m in result.methods] == ["BIP-screen", "ICP-screen", "EILLS-screen", "ICP-screen (2)"]
    first = result.methods[0].seen
    assert all(np.array_equal(m.seen, first) for m in result.methods[:3])
    assert 1 <= result.methods[3].seen.sum() <= 3
    np.testing.assert_array_equal(result.methods[1].selected, Screened(ICP()).fit_data(wide()).support_)


def test_a_method_that_fails_is_reported_and_the_rest_go_on() -> None:
    data = make_example()
    doubled = MultiEnvironmentData.from_arrays(np.column_stack([data.X, data.X[:, 0]]), data.y, data.environment_index)
    result = compare(doubled, ["Hidden-ICP", "ICP", "Regression", "Oracle"])
    outcomes = {m.name: m.outcome for m in result.methods}
    assert outcomes["Hidden-ICP"] == outcomes["Oracle"] == "failed"
    assert outcomes["ICP"] != "failed"
    text = " ".join(str(result).split())
    assert "'x0', 'x8'" in text
    assert "combinations of those before" in text
    assert not result.selected.loc["Hidden-ICP"].any()


def test_rejected_and_empty_models_read_differently() -> None:
    rng = np.random.default_rng(0)
    env = np.repeat([0, 1], 50)
    X, y = rng.normal(size=(100, 2)), rng.normal(size=100)
    rejected = compare(MultiEnvironmentData.from_arrays(X, y * (1 + 9 * env), env), ["ICP"])
    empty = compare(MultiEnvironmentData.from_arrays(X, y, env), ["ICP"])
    assert "model rejected" in str(rejected)
    assert "nothing selected" in str(empty)


@pytest.mark.parametrize("names", [None, ["ein_sehr_langer_name_" * 4, "日本語の長い特徴量の名前です", "a\nb"]])
def test_text_stays_within_80_columns(names: list[str] | None) -> None:
    rng = np.random.default_rng(0)
    env = np.repeat(["a", "b"], 30)
    data = MultiEnvironmentData.from_arrays(rng.normal(size=(60, 3)), rng.normal(size=60), env, feature_names=names)
    text = comparison_summary(compare(data, [name for name in METHODS if name != "Oracle"]))
    assert max(display_width(line) for line in text.splitlines()) <= 80


def test_many_features_show_those_that_are_selected() -> None:
    result = compare(wide(60), ["Regression", "Marginal"])
    text = str(result)
    assert "are not shown" in text
    assert all(f"\n{name} " in text for name in result.selected.columns[result.selected.all()])


def test_json_is_strict_and_complete(tmp_path) -> None:
    result = compare(wide(20), ["ICP-screen", "Lasso"])
    path = tmp_path / "comparison.json"
    text = result.to_json(path)
    read = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert read == json.loads(text)
    icp = read["methods"][0]
    assert icp["name"] == "ICP-screen"
    assert len(icp["p_values"]) == 20
    assert icp["p_values"].count(None) == 20 - result.methods[0].seen.sum()
    assert read["methods"][1]["p_values"] is None
    chosen = [result.feature_names[j] for j in np.flatnonzero(result.methods[1].selected)]
    assert read["methods"][1]["selected"] == chosen


def test_plot_has_a_square_per_method_and_feature(tmp_path) -> None:
    data = make_example()
    result = compare(data, ["BIP", "ICP", "Oracle"])
    ax = plot_comparison(result, truth=data.truth)
    filled = np.array([patch.get_facecolor()[:3] != (1.0, 1.0, 1.0) for patch in ax.patches]).reshape(3, 8)
    np.testing.assert_array_equal(filled, result.selected.to_numpy())
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["BIP", "ICP", "Oracle"]
    assert save_comparison(result, tmp_path / "grid").stat().st_size > 1000


def test_wrong_methods_and_data() -> None:
    data = make_example()
    with pytest.raises(ValueError, match="did you mean 'EILLS'"):
        compare(data, ["EILS"])
    with pytest.raises(ValueError, match="no methods"):
        compare(data, [])
    with pytest.raises(TypeError, match="from_table"):
        compare(data.X)
    with pytest.raises(TypeError, match="not one of"):
        compare(data, {"mine": object()})


def test_names_of_methods_are_case_insensitive_and_may_be_one_string() -> None:
    result = compare(make_example(), "icp, lasso")
    assert [m.name for m in result.methods] == ["ICP", "Lasso"]


def test_comparison_leaves_the_given_estimator_unfitted() -> None:
    model = ICP(alpha=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(make_example(), {"strict": model})
    assert not hasattr(model, "support_")
