from __future__ import annotations

import json
import re
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier
from sklearn.linear_model import Ridge

import invariance
import two_classes
from invariance import BIP, BIPSurvival, Columns, Moments, MultiEnvironmentData, spline
from invariance.decisions import Threshold
from invariance.estimators.saved import fingerprint
from invariance.exceptions import (
    DataError,
    EngineError,
    FileError,
    NotInvariantWarning,
    SettingError,
)
from shifted_sites import DATA, NEW, as_table, fitted, own_baselines, several
from survival_twins import survived
from two_classes import LABELS, SITE, classifier

pytestmark = pytest.mark.usefixtures("brief")
SITES = np.array(["north", "south", "east", "west"])[DATA.environment_index]


def mixed_table() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    table = as_table(DATA.X).assign(region=rng.choice(["a", "b", "c"], len(DATA.y)), flat=3.0)
    return table.assign(code=rng.choice(["1.5", "2", "3"], len(DATA.y)))


def saved(model: BIP, folder: Path) -> invariance.estimators.saved.SavedModel:
    model.save(folder / "model.json")
    return invariance.load(folder / "model.json")


def survivors() -> tuple[BIP, Any, Any]:
    data = survived()
    return BIPSurvival().fit(data), as_table(data.X), {"y": data.y, "event": data.event}


def classes(y: Any) -> tuple[BIP, Any, Any]:
    return classifier(y), two_classes.X, {"y": y}


MIXED = Columns(numeric=["code"], groups=[spline("x0", knots=4)])
CASES: dict[str, Callable[[], tuple[BIP, Any, Any]]] = {
    "array": lambda: (BIP().fit(DATA.X, DATA.y, SITES), NEW, {"y": DATA.y[:7]}),
    "nothing selected": lambda: (
        BIP(prior="inclusion(0)").fit(DATA.X, DATA.y, SITES),
        NEW,
        {"y": DATA.y[:7]},
    ),
    "frame": lambda: (
        BIP(columns=Columns(environment="site")).fit(as_table(DATA.X).assign(site=SITES), DATA.y),
        as_table(NEW).assign(site="elsewhere"),
        {"y": DATA.y[:7]},
    ),
    "mixed": lambda: (
        BIP(columns=MIXED, select=Threshold(0.0)).fit(mixed_table(), DATA.y, SITES),
        mixed_table()[:9],
        {"y": DATA.y[:9]},
    ),
    "moments": lambda: (BIP().fit(Moments.from_data(DATA)), as_table(NEW), {"y": DATA.y[:7]}),
    "additive": lambda: (BIP("additive").fit(DATA), as_table(NEW), {"y": DATA.y[:7]}),
    "counts": lambda: (
        BIP("poisson").fit(two_classes.X, two_classes.Y, SITE),
        two_classes.X,
        {"y": two_classes.Y},
    ),
    "words": lambda: classes(LABELS),
    "numbers": lambda: classes(two_classes.Y + 1),
    "times": survivors,
    "median times": lambda: (BIP().fit(survived()), as_table(survived().X), None),
}
QUESTIONS: dict[str, tuple[Any, ...]] = {
    "predict": (),
    "transform": (),
    "extrapolates": (),
    "predict_interval": (0.5,),
    "predict_proba": (),
    "decision_function": (),
    "predict_survival": ([0.0, 0.7, 3.0],),
    "predict_restricted_mean": (1.5,),
}


def test_the_level_of_invariance_is_saved_and_shown(tmp_path: Path) -> None:
    shifted = own_baselines()
    for data, settings, level in (
        (shifted, {}, "effects"),
        (shifted, {"baseline": "shared"}, "none"),
        (own_baselines(sd=0.0), {}, "full"),
    ):
        model = fitted(data, **settings)
        decision = model.decision_
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            back = saved(model, tmp_path)
        assert (
            (back.level_, back.invariant_)
            == (decision.level, decision.invariant)
            == (level, level == "full")
        )
        assert (back.heterogeneity_, back.baseline_) == (decision.heterogeneity, decision.baseline)
        facts = dict(back.summary().sections[0].facts)
        assert facts["level"].startswith(level)
        assert (facts["baseline"], facts.get("elsewhere", "")) == (
            decision.verdict.baseline,
            decision.verdict.follows,
        )
        warned = [str(each.message) for each in said if each.category is NotInvariantWarning]
        assert len(warned) == (level != "full")
        assert sum("not known to be invariant" in text for text in warned) == (level == "none")
        assert sum(f"saved model: {decision.in_short}." in text for text in warned) == (
            level == "effects"
        )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_a_saved_model_answers_to_the_last_bit(case: str, tmp_path: Path) -> None:
    model, new, scored = CASES[case]()
    for kind in ("selected", "average"):
        model.predict_with = kind
        back = saved(model, tmp_path)
        for name, arguments in QUESTIONS.items():
            assert hasattr(back, name) == hasattr(model, name)
            if hasattr(model, name):
                assert_same_answer(getattr(model, name), getattr(back, name), new, *arguments)
        assert_same_answer(model.predict, back.predict, new, True)
        if scored is not None:
            assert back.score(new, **scored) == model.score(new, **scored)
        assert str(back.new_environments()) == str(model.new_environments())
    for name in ("support_", "coef_", "inclusion_probabilities_"):
        np.testing.assert_array_equal(getattr(back, name), getattr(model, name))
    for name in (
        "selected_features_",
        "intercept_",
        "invariant_",
        "environments_",
        "columns_",
        "n_features_in_",
    ):
        assert getattr(back, name) == getattr(model, name)
    np.testing.assert_array_equal(back.posterior_.inclusion, model.posterior_.inclusion)
    assert (model.predictive_ is None) == (back.predictive_ is None)
    assert (
        back.predictive_ is None
        or back.predictive_.inclusion.tolist() == model.predictive_.inclusion.tolist()
    )
    text = str(back.summary())
    assert text.endswith(str(model.decision_.posterior.summary()))
    verdict = model.decision_.verdict
    flat = " ".join(text.split())
    assert all(
        part in flat
        for part in (verdict.effects, verdict.baseline, verdict.follows, verdict.context)
    )
    assert is_classifier(back) == is_classifier(model)
    assert back.plot().get_xlabel() == "posterior inclusion probability"


def assert_same_answer(
    ask: Callable[..., Any], ask_back: Callable[..., Any], *arguments: Any
) -> None:
    """The same numbers, or the same refusal."""
    try:
        wanted = ask(*arguments)
    except SettingError as error:
        with pytest.raises(SettingError, match=re.escape(str(error))):
            ask_back(*arguments)
    else:
        np.testing.assert_array_equal(np.asarray(ask_back(*arguments)), np.asarray(wanted))


def test_what_else_a_file_tells(tmp_path: Path) -> None:
    model = fitted()
    assert saved(model, tmp_path).luck_ is None
    luck = model.chance_selection()
    back = saved(model, tmp_path)
    assert back.luck_ == luck
    assert back.fingerprint_ == fingerprint(
        MultiEnvironmentData.from_arrays(DATA.X, DATA.y, DATA.environment_index)
    )
    assert set(back.versions_) == {"invariance", "numpy", "scikit-learn", "python"}
    assert back.versions_["invariance"] == invariance.__version__
    assert back.settings_["select"] == "'predictive'"
    assert back.outcome_name_ == "y"
    evidence = model.posterior_.evidence(model.support_)
    assert (back.evidence_.r2, back.evidence_.p_invariant) == (evidence.r2, evidence.p_invariant)
    text = (tmp_path / "model.json").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert BIP.load(tmp_path / "model.json").fingerprint_ == back.fingerprint_
    with pytest.raises(SettingError, match="cannot be fitted"):
        back.fit(DATA)


def test_fingerprints_know_every_part_of_the_data() -> None:
    moved = DATA.X.copy()
    exchanged = DATA.environment_index.copy()
    moved[5, 1] = np.nextafter(moved[5, 1], np.inf)
    exchanged[[10, 70]] = exchanged[[70, 10]]
    changes: list[dict[str, Any]] = [
        *({"environments": exchanged}, {"X": moved}, {"y": -DATA.y}, {"environments": SITES}),
        *({"feature_names": list("abcd")}, {"outcome_name": "z"}),
    ]
    given = {"X": DATA.X, "y": DATA.y, "environments": DATA.environment_index}
    others = [MultiEnvironmentData.from_arrays(**given | change) for change in changes]
    others += [Moments.from_data(DATA), Moments.from_data(several(seed=8))]
    prints = {fingerprint(data) for data in (DATA, several(), *others)}
    assert len(prints) == 1 + len(others)
    assert all(text.startswith("sha256:") and len(text) == 71 for text in prints)


def test_a_saved_model_refuses_what_the_model_refuses(tmp_path: Path) -> None:
    """Levels that the training data lack though their list has them."""
    table = mixed_table()[["x0", "x1", "region"]].assign(y=DATA.y, site=SITES)
    levels = {"region": ["a", "b", "c", "nowhere"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = MultiEnvironmentData.from_table(table, "y", "site", categorical=levels)
        by_name = BIP(select=Threshold(0.0)).fit(data)
    for model in (by_name, saved(by_name, tmp_path)):
        model.predict(table[["region", "x1", "x0"]])
        with pytest.raises(DataError, match="column 'region' has 'nowhere'"):
            model.predict(table.assign(region="nowhere"))


def test_files_that_are_no_saved_models(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    fitted().save(path)
    written = path.read_text()
    changes: list[tuple[Callable, str]] = [
        (lambda c: c["predictors"]["selected"]["members"][0].update(weight=2.0), "was changed"),
        (lambda c: c.pop("layout"), "was changed"),
        (lambda c: c.update(posterior=None), "was changed"),
        (lambda c: c.update(format="invariance.model/10"), "'invariance.model/10'"),
        (lambda c: c.update(c["posterior"]), "'invariance.posterior/1'"),
        (lambda c: c.pop("format"), "None"),
    ]
    for change, named in changes:
        content = json.loads(written)
        change(content)
        path.write_text(json.dumps(content))
        with pytest.raises(DataError, match=named) as caught:
            invariance.load(path)
        assert str(path) in str(caught.value)
    with pytest.raises(FileError, match="there is no file"):
        invariance.load(tmp_path / "nowhere.json")
    with pytest.raises(FileError, match="cannot write"):
        fitted().save(tmp_path / "nowhere" / "model.json")


def test_a_regressor_is_trusted_by_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for skops, which writes nothing but knows what it was given."""
    model = fitted(regressor=Ridge())
    path = tmp_path / "model.json"
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "skops.io", None)
        with pytest.raises(
            EngineError,
            match=r"saving a Ridge needs skops: pip install 'invariant-prediction\[skops\]'",
        ):
            model.save(path)
    assert not path.exists()
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
    model.save(path)
    with pytest.raises(DataError, match=r"trusted=\['my.Kernel'\]"):
        invariance.load(path)
    back = invariance.load(path, trusted=["my.Kernel"])
    np.testing.assert_array_equal(back.predict_interval(NEW), model.predict_interval(NEW))
    assert isinstance(back.regressor_, Ridge)
    with pytest.raises(SettingError, match="cannot be averaged"):
        back.set_params(predict_with="average").predict(NEW)
    with pytest.raises(SettingError, match="cannot be averaged"):
        _ = back.columns_to_predict


def test_a_saved_model_says_that_it_is_not_invariant(tmp_path: Path) -> None:
    shifted = DATA.y + 5.0 * DATA.environment_index
    with pytest.warns(NotInvariantWarning):
        model = BIP(baseline="shared").fit(DATA.X, shifted, environments=SITES)
    assert not model.invariant_
    model.save(tmp_path / "model.json")
    with pytest.warns(NotInvariantWarning, match="saved model.* y .*p-value"):
        invariance.load(tmp_path / "model.json")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        saved(fitted(), tmp_path)
