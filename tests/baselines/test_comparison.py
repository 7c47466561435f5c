"""Several methods side by side, and all methods under scikit-learn's conformance checks."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from invariance import BIP, UniformPrior
from invariance.baselines import (
    EILLS,
    ICP,
    HiddenICP,
    LassoScreen,
    LassoSelection,
    MarginalSelection,
    Oracle,
    PooledRegression,
    Screened,
)
from invariance.baselines.comparison import METHODS, compare, comparison_summary, plot_comparison, save_comparison
from invariance.data import MultiEnvironmentData
from invariance.datasets import make_example
from invariance.decisions import Threshold
from invariance.exceptions import DataWarning, SettingError
from invariance.posterior.summary import CAUSES, display_width

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
    alone = ICP().fit(data)
    icp = table[table["method"] == "ICP"]
    np.testing.assert_array_equal(icp["p_value"], alone.p_values_)
    np.testing.assert_array_equal(icp["selected"], alone.support_)
    assert table.loc[table["method"] == "BIP", "inclusion_probability"].notna().all()
    assert result.selected.loc["BIP"].tolist() == data.truth.tolist()
    assert (table["seconds"] > 0).all()


def test_many_features_are_screened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = LassoScreen.screen
    monkeypatch.setattr(LassoScreen, "screen", lambda self, *given: calls.append(self) or original(self, *given))
    result = compare(wide(), ["bip-screen", "ICP-screen", "EILLS-screen", Screened(ICP(), LassoScreen(k=3))])
    assert len(calls) == 2
    assert [m.name for m in result.methods] == ["BIP-screen", "ICP-screen", "EILLS-screen", "ICP-screen (2)"]
    first = result.methods[0].seen
    assert all(np.array_equal(m.seen, first) for m in result.methods[:3])
    assert 1 <= result.methods[3].seen.sum() <= 3
    np.testing.assert_array_equal(result.methods[1].selected, Screened(ICP()).fit(wide()).support_)


def test_bip_is_the_bip_of_fit() -> None:
    """The screen prefers effects of the outcome that differ between environments; the posterior knows better."""
    rng = np.random.default_rng(2)
    env = np.repeat([0, 1, 2, 3], 100)
    X = rng.normal(size=(400, 20)) * (1 + 0.5 * env[:, None])
    y = X[:, 0] + X[:, 1] + rng.normal(size=400)
    X[:, 5:16] = y[:, None] * rng.uniform(0.5, 2, size=(4, 11))[env] + 0.3 * rng.normal(size=(400, 11))
    data = MultiEnvironmentData.from_arrays(X, y, env)
    result = compare(data, bip=BIP(select="mode"))
    assert [m.name for m in result.methods] == [
        *("BIP", "ICP-screen", "Hidden-ICP-screen", "EILLS-screen", "Regression", "Lasso", "Marginal")
    ]
    alone = BIP(select="mode").fit(data)
    np.testing.assert_array_equal(result.methods[0].inclusion, alone.inclusion_probabilities_)
    assert np.flatnonzero(result.methods[0].selected).tolist() == [0, 1]
    screened = compare(data, ["BIP-screen"]).methods[0]
    assert (screened.status == "screened out").sum() == 10
    limited = compare(data, ["BIP"], bip=BIP(select=Threshold(1.0)))
    assert not limited.methods[0].selected.any()


def rejected_and_screened() -> MultiEnvironmentData:
    """ICP rejects every subset, the screen leaves features out, and a copied feature makes Hidden-ICP fail."""
    data = wide(20)
    y = data.y * (1 + 9 * data.environment_index)
    return MultiEnvironmentData.from_arrays(np.column_stack([data.X, data.X[:, 0]]), y, data.environment_index)


def test_what_was_said_of_a_feature_looks_different() -> None:
    result = compare(rejected_and_screened(), ["ICP-screen", "Marginal", "Hidden-ICP"])
    icp, marginal, hidden = result.methods
    assert icp.status.tolist() == np.where(icp.seen, "rejected", "screened out").tolist()
    assert 0 < icp.seen.sum() < 21
    assert marginal.status.tolist() == np.where(marginal.selected, "selected", "not selected").tolist()
    assert set(hidden.status) == {"failed"}
    np.testing.assert_array_equal(result.table["status"], np.concatenate([m.status for m in result.methods]))
    stored = json.loads(result.to_json())["methods"]
    assert [m["status"] for m in stored] == [m.status.tolist() for m in result.methods]
    marks = {line.split()[0]: line.split()[1] for line in str(result).splitlines() if line.startswith("x")}
    shown = {"rejected": "×", "screened out": "–"}
    assert marks == {
        name: shown[status] for name, status in zip(result.feature_names, icp.status, strict=True) if name in marks
    }
    text = " ".join(str(result).split())
    assert "– left out by the screen, not looked at; × model rejected: no subset was accepted" in text
    looks = squares(result)
    assert len({looks[0, j] for j in np.flatnonzero(icp.seen)}) == 1
    kinds = {looks[i, j]: m.status[j] for i, m in enumerate(result.methods) for j in range(21)}
    assert sorted(kinds.values()) == sorted(set(result.table["status"]))
    legend = [text.get_text() for text in plot_comparison(result).get_legend().get_texts()]
    assert legend == ["selected", "not selected", "screened out,\nnot looked at", "model rejected", "failed"]


def squares(result) -> dict[tuple[int, int], tuple]:
    patches = list(plot_comparison(result).patches)
    looks = [(patch.get_facecolor(), patch.get_hatch()) for patch in patches]
    p = len(result.feature_names)
    return {(i, j): looks[i * p + j] for i in range(len(result.methods)) for j in range(p)}


def test_no_p_values_where_the_model_is_rejected() -> None:
    result = compare(rejected_and_screened(), ["ICP-screen", "ICP(max_size=1)"])
    assert result.table["p_value"].isna().all()
    for method in json.loads(result.to_json())["methods"]:
        assert method["outcome"] == "rejected"
        assert method["p_values"] == [None] * 21
    assert "p-value" not in str(result)


def copied_outcome() -> MultiEnvironmentData:
    data = wide(4)
    return MultiEnvironmentData.from_arrays(np.column_stack([data.X, data.y]), data.y, data.environment_index)


@pytest.mark.parametrize("name", ["BIP", "BIP-screen"])
def test_what_the_posterior_notes_stands_with_its_method(name: str) -> None:
    result = compare(copied_outcome(), [name])
    (note,) = BIP().fit(copied_outcome()).posterior_.notes
    assert "'x4' determines the outcome exactly" in note
    assert result.methods[0].notes[-1] == note
    assert note in " ".join(str(result).split())
    assert json.loads(result.to_json())["methods"][0]["notes"][-1] == note


def test_a_note_that_was_a_warning_too_is_said_once() -> None:
    class Repeating(BIP):
        def fit(self, X):
            super().fit(X)
            warnings.warn("one of the columns is odd", DataWarning, stacklevel=2)
            self.posterior_ = replace(self.posterior_, notes=("one of the columns is odd",))
            return self

    assert compare(make_example(), {"BIP": Repeating()}).methods[0].notes == ("one of the columns is odd",)


def test_the_note_on_the_screen_counts_only_features_that_were_left_out() -> None:
    (everything,) = compare(wide(5), ["ICP-screen"]).methods[0].notes
    assert everything == "5 of 5 features passed the screen"
    (some,) = compare(wide(5), ["ICP-screen(k=1)"]).methods[0].notes
    assert some == "1 of 5 features passed the screen; the others were not looked at"


def test_bip_screen_has_the_settings_of_bip() -> None:
    data = make_example()
    assert compare(data, ["BIP-screen"]).methods[0].selected.any()
    assert not compare(data, ["BIP-screen"], bip=BIP(prior=UniformPrior(max_size=0))).methods[0].selected.any()


def test_long_names_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    features = [f"concentration_protein_{letter}_in_plasma_day_1" for letter in "ABC"]
    data = MultiEnvironmentData.from_arrays(
        rng.normal(size=(60, 3)), rng.normal(size=60), np.repeat(["a", "b"], 30), feature_names=features
    )
    methods = {f"regression_on_{where}_pooled_rows_of_2024": MarginalSelection() for where in ("north", "south")}
    result = compare(data, methods | {f"regression_on_all_x_pooled_rows_of_2024{'!' * 9}": Oracle()})
    lines = str(result).splitlines()
    grid = lines[2 : lines.index("", 2)]
    assert len({line[:18] for line in grid[1:]}) == len(grid[1:]) == 3
    titles = grid[0].split()
    assert len(set(titles)) == len(titles) == 2
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("method ")) :]
    assert all(sum(line.startswith(f"{title} ") for line in table) == 1 for title in titles)
    ax = plot_comparison(result)
    for ticks in (ax.get_xticklabels(), ax.get_yticklabels()):
        assert len({tick.get_text() for tick in ticks}) == 3


def test_features_of_few_choices_come_before_those_of_many() -> None:
    """The many that one method selects must not push out the few of another."""
    data = wide(60)
    first = compare(data, ["BIP-screen"]).methods[0]
    few = replace(first, selected=np.arange(60) >= 58, seen=np.ones(60, bool))
    many = [replace(first, name=name, selected=np.arange(60) < 55, seen=np.ones(60, bool)) for name in "AB"]
    result = replace(compare(data, ["Marginal"]), methods=(*many, few))
    assert all(f"\n{name} " in str(result) for name in ("x58", "x59"))
    assert "40 features that at most 2 methods selected are not shown." in str(result)


def test_the_verdict_comes_before_the_grid() -> None:
    class Doubtful(BIP):
        def fit(self, X):
            super().fit(X)
            self.posterior_ = SimpleNamespace(
                verdict=SimpleNamespace(sentence="Even the best subset is bad."), notes=(), model="", model_reason=""
            )
            return self

    result = compare(make_example(), {"BIP": Doubtful(), "ICP": ICP()})
    lines = str(result).splitlines()
    assert lines[2] == "BIP: Even the best subset is bad."
    assert " ".join(lines[3 : lines.index("", 3)]) == CAUSES
    assert str(result).count("Even the best subset is bad.") == str(result).count(CAUSES[:40]) == 1
    assert [m["verdict"] for m in json.loads(result.to_json())["methods"]] == ["Even the best subset is bad.", None]
    title = plot_comparison(result).get_title(loc="left")
    assert title.splitlines()[0] == "BIP: even the most probable subset is far from invariant"


def test_settings_of_methods() -> None:
    result = compare(make_example(), "ICP(max_size=2), EILLS(gamma=1e-3), ICP-screen(k=3)")
    assert [m.name for m in result.methods] == ["ICP(max_size=2)", "EILLS(gamma=1e-3)", "ICP-screen(k=3)"]
    np.testing.assert_array_equal(result.methods[0].selected, ICP(max_size=2).fit(make_example()).support_)
    assert result.methods[2].seen.sum() == 3
    with pytest.raises(ValueError, match="Invalid parameter 'maxsize'"):
        compare(make_example(), "ICP(maxsize=2)")


def test_constant_features_are_left_out() -> None:
    data = make_example()
    X = np.column_stack([np.ones(len(data.y)), data.X])
    with pytest.warns(DataWarning, match="constant"):
        constant = MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)
    result = compare(constant, ["BIP", "ICP-screen", "Oracle"])
    assert result.selected.shape == (3, 8)
    np.testing.assert_array_equal(result.methods[0].selected, data.truth)


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


@pytest.mark.parametrize(
    "text", ["EILLS(gamma=a)", "BIP(select=3)", "ICP(n_jobs=a)", "Oracle(support=3)", "ICP-screen(k=a)"]
)
def test_settings_of_another_kind_are_named(text: str) -> None:
    with pytest.raises(SettingError, match=r"\w+: \w+ cannot be .*, it is of the kind "):
        compare(make_example(), text)
