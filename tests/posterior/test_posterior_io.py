"""Posterior to and from JSON, and to xarray."""

from __future__ import annotations

import datetime
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance.posterior import Posterior
from posteriors import (
    assert_same,
    enumerate_posterior,
    random_posterior,
)

labels = st.one_of(st.text(), st.integers(), st.floats(allow_nan=False), st.booleans(), st.none())
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_json_round_trip_is_exact(data: st.DataObject) -> None:
    p = data.draw(st.integers(1, 4))
    log_ratios = data.draw(
        st.lists(st.floats(-1e3, 0) | st.just(-math.inf), min_size=2**p, max_size=2**p).filter(
            lambda values: max(values) > -math.inf
        )
    )
    environments = data.draw(st.lists(labels, min_size=1, max_size=4))
    posterior = enumerate_posterior(
        log_ratios,
        keep=data.draw(st.integers(1, 2**p)),
        feature_names=tuple(data.draw(st.lists(st.text(), min_size=p, max_size=p, unique=True))),
        environments=tuple(environments),
        counts=np.arange(len(environments)),
        n_subsets=data.draw(st.sampled_from([2**p, 2**53 + 1, 2**20_001])),
        notes=tuple(data.draw(st.lists(st.text(), max_size=2))),
        diagnostics=data.draw(st.dictionaries(st.text(), json_values, max_size=3)),
        outcome_name=data.draw(st.text()),
        **({"pairwise": None} if data.draw(st.booleans()) else {}),
    )
    text = posterior.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"not strict JSON: {name}"))
    again = Posterior.from_json(text)
    assert_same(again, posterior)
    assert [type(label) for label in again.environments] == [type(label) for label in environments]
    assert again.to_json() == text


def test_json_file_and_labels_that_json_lacks(tmp_path: Path) -> None:
    environments = (datetime.date(2020, 1, 2), (1, "b"), np.int64(3))
    posterior = random_posterior(0, environments=environments, notes=("first",), diagnostics={"n": np.int64(4)})
    path = tmp_path / "posterior.json"
    path.write_text("old")
    assert posterior.to_json(path) == path.read_text(encoding="utf-8").rstrip("\n")
    for origin in (path, str(path)):
        again = Posterior.from_json(origin)
        assert again.environments == ("2020-01-02", "(1, 'b')", 3)
        assert again.notes == ("first", "Environment labels of type date, tuple were saved as text.")
        assert again.diagnostics == {"n": 4}
        assert again.source is None
    assert json.loads(path.read_text())["subsets"][0] == np.flatnonzero(posterior.masks[0]).tolist()
    with pytest.raises(TypeError, match=r"diagnostics\['when'\] holds a date, which JSON cannot hold"):
        random_posterior(0, diagnostics={"when": datetime.date(2020, 1, 2)}).to_json()


def changed(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda content: content.__setitem__(key, value)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda c: c.pop("format"), 'the text is not a saved posterior: it has no key "format"'),
        (
            changed("format", "invariance.posterior/99"),
            "has the format 'invariance.posterior/99', and this version",
        ),
        (lambda c: (c.pop("counts"), c.pop("notes")), "incomplete: it has no key 'counts', 'notes'"),
        (changed("inclusion", [0.1]), "damaged at key 'inclusion': 1 numbers for 2 feature_names"),
        (changed("inclusion", [0.1, "x"]), "damaged at key 'inclusion': 'x' is not a number"),
        (changed("inclusion", [0.1, True]), "damaged at key 'inclusion': True is not a number"),
        (changed("pairwise", [[0.1, 0.2], [0.3]]), "damaged at key 'pairwise': 2 rows of 2 numbers"),
        (changed("subsets", [[0], [1], [2], []]), "damaged at key 'subsets': subset 2 names feature 2"),
        (changed("subsets", [[0], [1], [-1], []]), "damaged at key 'subsets': subset 2 names feature -1"),
        (changed("subsets", 3), "damaged at key 'subsets': a list is needed"),
        (changed("counts", [1.5, 2, 3]), "damaged at key 'counts': 1.5 is not an integer"),
        (changed("engine", None), "damaged at key 'engine': None is not text"),
        (changed("n_subsets", "many"), "damaged at key 'n_subsets'"),
        (changed("diagnostics", []), "damaged at key 'diagnostics': an object is needed"),
        (changed("feature_names", 2), "damaged at key 'feature_names': a list is needed"),
    ],
)
def test_bad_json_is_explained(damage: Callable[[dict[str, Any]], None], message: str) -> None:
    content = json.loads(random_posterior(0, p=2).to_json())
    damage(content)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the text is checked literally
        Posterior.from_json(json.dumps(content))
    assert message in str(caught.value)


def test_unreadable_json_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the text is not valid JSON: .* at line 2, column 1"):
        Posterior.from_json('{"format":\n')
    with pytest.raises(ValueError, match="the text is not valid JSON: it holds NaN"):
        Posterior.from_json('{"format": NaN}')
    with pytest.raises(ValueError, match="the text is not valid JSON"):
        Posterior.from_json("")
    with pytest.raises(FileNotFoundError, match=r"there is no file 'nowhere\.json' to read a posterior from"):
        Posterior.from_json("nowhere.json")
    binary = tmp_path / "picture.json"
    binary.write_bytes(b"\x89PNG\xff")
    with pytest.raises(ValueError, match=r"picture\.json is not a saved posterior: it is not UTF-8"):
        Posterior.from_json(binary)


def test_datatree() -> None:
    posterior = random_posterior(4, p=3)
    tree = posterior.to_datatree()
    inclusion = tree["posterior"]["inclusion"]
    assert float(inclusion.sel(feature="x1")) == posterior.inclusion[1]
    pair = tree["posterior"]["pairwise"].sel(feature="x0", other_feature="x2")
    assert posterior.pairwise is not None
    assert float(pair) == posterior.pairwise[0, 2]
    subsets = tree["subsets"]
    np.testing.assert_array_equal(subsets["mask"].values, posterior.masks)
    np.testing.assert_array_equal(subsets["log_ratio"].values, posterior.log_ratios)
    np.testing.assert_array_equal(subsets["probability"].values, np.exp(posterior.log_probabilities))
    assert tree.attrs["engine"] == "exact enumeration"
    assert tree.attrs["counts"] == [40, 50, 1060]
    assert "pairwise" not in random_posterior(4, pairwise=None).to_datatree()["posterior"]


def test_datatree_without_xarray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r"pip install 'invariance\[xarray\]'"):
        random_posterior(0).to_datatree()


def test_the_kind_is_kept_and_older_files_are_the_papers() -> None:
    posterior = random_posterior(1, kind="predictive")
    assert Posterior.from_json(posterior.to_json()).kind == "predictive"
    content = json.loads(posterior.to_json())
    del content["kind"]
    assert Posterior.from_json(json.dumps(content)).kind == "invariant"
    with pytest.raises(ValueError, match="kind: 'other' is neither 'invariant' nor 'predictive'"):
        Posterior.from_json(json.dumps(content | {"kind": "other"}))


def test_more_keys_are_kept_and_passed_over() -> None:
    posterior = random_posterior(1)
    text = posterior.to_json(more={"decision": {"verdict": "all is well"}})
    assert json.loads(text)["decision"] == {"verdict": "all is well"}
    assert Posterior.from_json(text).mode == posterior.mode
    with pytest.raises(ValueError, match="not JSON compliant"):
        posterior.to_json(more={"decision": float("nan")})
