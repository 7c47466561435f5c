from __future__ import annotations

import json
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import invariance
from invariance import BIP, Columns, Moments, MultiEnvironmentData, spline
from invariance.baselines import ICP, Screened
from invariance.decisions import Threshold
from invariance.exceptions import DataError, EngineError, FileError, SettingError
from invariance.prediction.saving import fingerprint
from shifted_sites import DATA, NEW, as_table, fitted, several

SITES = np.array(["north", "south", "east", "west"])[DATA.environment_index]


def mixed_table() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    table = as_table(DATA.X).assign(region=rng.choice(["a", "b", "c"], len(DATA.y)), flat=3.0)
    return table.assign(code=rng.choice(["1.5", "2", "3"], len(DATA.y)))


def saved(model: BIP, folder: Path) -> invariance.estimators.saved.SavedModel:
    model.save(folder / "model.json")
    return invariance.load(folder / "model.json")


@pytest.mark.parametrize("kind", ["selected", "average"])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("how", "settings"),
    [
        ("array", {}),
        ("array", {"prior": "inclusion(0)"}),
        ("frame", {"columns": Columns(environment="site")}),
        ("mixed", {"columns": Columns(numeric=["code"], groups=[spline("x0", knots=4)]), "select": Threshold(0.0)}),
        ("data", {}),
        ("moments", {}),
        ("alone", {}),
    ],
)
def test_a_saved_model_predicts_to_the_last_bit(how: str, settings: dict, kind: str, tmp_path: Path) -> None:
    table, new = as_table(DATA.X), as_table(NEW)
    model = BIP(predict_with=kind, **settings)
    match how:
        case "array":
            model.fit(DATA.X, DATA.y, environments=SITES)
            new = NEW
        case "frame":
            model.fit(table.assign(site=SITES), DATA.y)
            new = new.assign(site="elsewhere")
        case "mixed":
            model.fit(mixed_table(), DATA.y, environments=SITES)
            new = mixed_table()[:9]
        case "data":
            model.fit(DATA)
        case "moments":
            model.fit(Moments.from_data(DATA))
        case "alone":
            model.fit(table, DATA.y)
    back = saved(model, tmp_path)
    np.testing.assert_array_equal(back.predict(new), model.predict(new))
    for coverage in (0.5, 0.9):
        np.testing.assert_array_equal(back.predict_interval(new, coverage), model.predict_interval(new, coverage))
    np.testing.assert_array_equal(back.predict(new, return_std=True), model.predict(new, return_std=True))
    np.testing.assert_array_equal(np.asarray(back.transform(new)), np.asarray(model.transform(new)))
    np.testing.assert_array_equal(back.extrapolates(new), model.extrapolates(new))
    for name in ("support_", "coef_", "inclusion_probabilities_"):
        np.testing.assert_array_equal(getattr(back, name), getattr(model, name))
    for name in ("selected_features_", "intercept_", "invariant_", "environments_", "columns_", "n_features_in_"):
        assert getattr(back, name) == getattr(model, name)
    np.testing.assert_array_equal(back.posterior_.inclusion, model.posterior_.inclusion)
    if model.predictive_ is None:
        assert back.predictive_ is None
    else:
        np.testing.assert_array_equal(back.predictive_.inclusion, model.predictive_.inclusion)
    assert str(back.summary()) == str(model.posterior_.summary())


def test_what_else_a_file_tells(tmp_path: Path) -> None:
    model = fitted()
    back = saved(model, tmp_path)
    assert back.fingerprint_ == fingerprint(MultiEnvironmentData.from_arrays(DATA.X, DATA.y, DATA.environment_index))
    assert set(back.versions_) == {"invariance", "numpy", "scikit-learn", "python"}
    assert back.versions_["invariance"] == invariance.__version__
    assert back.settings_["select"] == "'predictive'"
    assert back.outcome_name_ == "y"
    evidence = model.posterior_.evidence(model.support_)
    assert (back.evidence_.r2, back.evidence_.p_invariant) == (evidence.r2, evidence.p_invariant)
    text = (tmp_path / "model.json").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert BIP.load(tmp_path / "model.json").fingerprint_ == back.fingerprint_


def test_fingerprints_know_every_part_of_the_data() -> None:
    moved = DATA.X.copy()
    moved[5, 1] = np.nextafter(moved[5, 1], np.inf)
    exchanged = DATA.environment_index.copy()
    exchanged[[10, 70]] = exchanged[[70, 10]]
    others = [
        MultiEnvironmentData.from_arrays(DATA.X, DATA.y, exchanged),
        MultiEnvironmentData.from_arrays(moved, DATA.y, DATA.environment_index),
        MultiEnvironmentData.from_arrays(DATA.X, -DATA.y, DATA.environment_index),
        MultiEnvironmentData.from_arrays(DATA.X, DATA.y, DATA.environment_index[::-1]),
        MultiEnvironmentData.from_arrays(DATA.X, DATA.y, SITES),
        MultiEnvironmentData.from_arrays(DATA.X, DATA.y, DATA.environment_index, feature_names=list("abcd")),
        MultiEnvironmentData.from_arrays(DATA.X, DATA.y, DATA.environment_index, outcome_name="z"),
        Moments.from_data(DATA),
        Moments.from_data(several(seed=8)),
    ]
    prints = {fingerprint(data) for data in (DATA, several(), *others)}
    assert len(prints) == 1 + len(others)
    assert fingerprint(DATA) == "sha256:" + fingerprint(several())[7:]
    assert all(len(text) == 71 for text in prints)


def test_a_saved_model_refuses_what_the_model_refuses(tmp_path: Path) -> None:
    """Columns in another order after fit, and levels that the training data lack though their list has them."""
    table = mixed_table()[["x0", "x1", "region"]].assign(y=DATA.y, site=SITES)
    levels = {"region": ["a", "b", "c", "nowhere"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_place = BIP().fit(table[["x0", "x1"]], DATA.y, environments=SITES)
        by_name = BIP().fit(MultiEnvironmentData.from_table(table, "y", "site", categorical=levels))
    for model in (by_place, saved(by_place, tmp_path)):
        with pytest.raises(ValueError, match="in the same order"):
            model.predict(table[["x1", "x0"]])
    for model in (by_name, saved(by_name, tmp_path)):
        model.predict(table[["region", "x1", "x0"]])
        with pytest.raises(DataError, match="column 'region' has 'nowhere'"):
            model.predict(table.assign(region="nowhere"))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            lambda c: c | {"format": "invariance.model/9"},
            "has the format 'invariance.model/9' of invariance 0.1.0, and",
        ),
        (lambda c: c["posterior"], "is a posterior"),
        (lambda c: {"a": 1}, "is not a saved model: its format is not 'invariance.model/1'"),
        (lambda c: [1], "is not a saved model"),
        (lambda c: {k: v for k, v in c.items() if k != "layout"}, "is damaged: KeyError 'layout'"),
        (lambda c: c | {"support": None, "coefficients": ["a"]}, "is damaged"),
    ],
)
def test_other_files_are_refused(change, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    fitted().save(path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(DataError, match=complaint):
        invariance.load(path)


def test_files_that_are_no_json(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    with pytest.raises(FileError, match="there is no file"):
        invariance.load(path)
    for content in (b"a,b\n1,2\n", b"\xff\xfe", b'{"format": NaN}'):
        path.write_bytes(content)
        with pytest.raises(DataError, match="is not a saved model"):
            invariance.load(path)
    with pytest.raises(FileError, match="cannot write"):
        fitted().save(tmp_path / "nowhere" / "model.json")


def test_a_saved_model_does_not_fit(tmp_path: Path) -> None:
    back = saved(fitted(), tmp_path)
    for fit in (lambda: back.fit(DATA.X, DATA.y), lambda: back.fit(DATA)):
        with pytest.raises(SettingError, match="a saved model predicts and cannot be fitted"):
            fit()


# ---------------------------------------------------------------- regressors


def test_a_regressor_needs_skops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(EngineError, match=r"saving a Ridge needs skops: pip install 'invariance\[skops\]'"):
        fitted(regressor=Ridge()).save(tmp_path / "model.json")
    assert not (tmp_path / "model.json").exists()


def test_a_regressor_is_trusted_by_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for skops, which writes nothing but knows what it was given."""
    kept: dict[bytes, object] = {}

    def dumps(model: object) -> bytes:
        kept[b"written"] = model
        return b"written"

    stand_in = types.ModuleType("skops.io")
    stand_in.dumps = dumps  # type: ignore[attr-defined]
    stand_in.get_untrusted_types = lambda data: ["my.Kernel"]  # type: ignore[attr-defined]
    stand_in.loads = lambda data, trusted: kept[data]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "skops", types.ModuleType("skops"))
    monkeypatch.setitem(sys.modules, "skops.io", stand_in)
    model, path = fitted(regressor=Ridge()), tmp_path / "model.json"
    model.save(path)
    with pytest.raises(DataError, match=r"trusted=\['my.Kernel'\]"):
        invariance.load(path)
    back = invariance.load(path, trusted=["my.Kernel"])
    np.testing.assert_array_equal(back.predict_interval(NEW), model.predict_interval(NEW))
    assert isinstance(back.regressor_, Ridge)
    with pytest.raises(SettingError, match="the saved model has a regressor, which predict_with='average' cannot"):
        back.set_params(predict_with="average").predict(NEW)


def test_skops_itself(tmp_path: Path) -> None:
    pytest.importorskip("skops.io")
    model = fitted(regressor=Ridge())
    back = saved(model, tmp_path)
    np.testing.assert_array_equal(back.predict_interval(NEW), model.predict_interval(NEW))


@pytest.mark.parametrize("settings", [{"regressor": Ridge()}, {"predict_with": "average"}])
def test_a_screen_passes_on_coefficients_only(settings: dict) -> None:
    with pytest.raises(SettingError, match="Screened predicts by coefficients"):
        Screened(BIP(**settings)).fit(DATA)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Screened(ICP()).fit(DATA)
