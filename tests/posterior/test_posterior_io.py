"""Posterior to and from JSON, and to xarray."""

from __future__ import annotations

import datetime
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance.exceptions import DataError, FileError
from invariance.posterior import Posterior
from posteriors import assert_same, enumerate_posterior, random_posterior

labels = st.one_of(
    st.text(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=30)
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
    posterior = random_posterior(
        0, environments=environments, notes=("first",), diagnostics={"n": np.int64(4)}
    )
    path = tmp_path / "posterior.json"
    assert posterior.to_json(path) == path.read_text(encoding="utf-8").rstrip("\n")
    for origin in (path, str(path)):
        again = Posterior.from_json(origin)
        assert again.environments == ("2020-01-02", "(1, 'b')", 3)
        assert again.notes == ("first",)
        assert again.diagnostics == {"n": 4}
    assert json.loads(path.read_text())["subsets"][0] == np.flatnonzero(posterior.masks[0]).tolist()
    with pytest.raises(TypeError, match="date"):
        random_posterior(0, diagnostics={"when": datetime.date(2020, 1, 2)}).to_json()


DAMAGES = {
    "format": ["invariance.posterior/99"],
    "inclusion": [[0.1], [0.1, "x"], [0.1, True]],
    "pairwise": [[[0.1, 0.2], [0.3]]],
    "subsets": [[[0], [1], [2], []], [[0], [1], [-1], []], 3],
    "counts": [[1.5, 2, 3]],
    "engine": [None],
    "n_subsets": ["many"],
    "diagnostics": [[]],
    "feature_names": [2],
    "kind": ["other"],
}


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in DAMAGES.items() for value in values]
)
def test_bad_json_is_refused(key: str, value: Any) -> None:
    content = json.loads(random_posterior(0, p=2).to_json())
    with pytest.raises(DataError):
        Posterior.from_json(json.dumps(content | {key: value}))
    if key not in ("kind", "pairwise"):
        del content[key]
        with pytest.raises(DataError, match=key):
            Posterior.from_json(json.dumps(content))


def test_unreadable_json_is_refused(tmp_path: Path) -> None:
    binary = tmp_path / "picture.json"
    binary.write_bytes(b"\x89PNG\xff")
    for damaged in ('{"format":\n', '{"format": NaN}', "", "[1]", binary):
        with pytest.raises(DataError):
            Posterior.from_json(damaged)
    with pytest.raises(FileError, match=r"nowhere\.json"):
        Posterior.from_json("nowhere.json")


def test_datatree() -> None:
    posterior = random_posterior(4, p=3)
    tree = posterior.to_datatree()
    assert float(tree["posterior"]["inclusion"].sel(feature="x1")) == posterior.inclusion[1]
    pair = tree["posterior"]["pairwise"].sel(feature="x0", other_feature="x2")
    assert float(pair) == posterior.pairwise[0, 2]
    table = {"mask": posterior.masks, "log_ratio": posterior.log_ratios}
    for name, values in (table | {"probability": np.exp(posterior.log_probabilities)}).items():
        np.testing.assert_array_equal(tree["subsets"][name].values, values)
    assert tree.attrs["engine"] == "exact enumeration"
    assert tree.attrs["counts"] == [40, 50, 1060]
    assert "pairwise" not in random_posterior(4, pairwise=None).to_datatree()["posterior"]


def test_keys_that_older_files_lack() -> None:
    posterior = random_posterior(1, kind="predictive")
    assert Posterior.from_json(posterior.to_json()).kind == "predictive"
    content = json.loads(posterior.to_json())
    for key in ("kind", "model", "model_reason", "table_evidence", "lowest_level"):
        del content[key]
    older = Posterior.from_json(json.dumps(content))
    assert (older.kind, older.model) == ("invariant", "linear Gaussian")


def test_more_keys_are_kept_and_passed_over() -> None:
    posterior = random_posterior(1)
    text = posterior.to_json(more={"decision": {"verdict": "all is well"}})
    assert json.loads(text)["decision"] == {"verdict": "all is well"}
    assert Posterior.from_json(text).mode == posterior.mode
    with pytest.raises(ValueError, match="not JSON compliant"):
        posterior.to_json(more={"decision": float("nan")})
