"""Files of models that somebody changed: each damage is one clear error, before anything is predicted."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from invariance import load
from invariance.exceptions import DataError
from shifted_sites import fitted

MODEL = ("predictors", "selected", "members", 0)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("models") / "model.json"
    fitted().save(path)
    return json.loads(path.read_text())


def put(*keys: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        *folders, last = keys
        for key in folders:
            content = content[key]
        content[last] = value

    return change


def cut(*keys: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        *folders, last = keys
        for key in folders:
            content = content[key]
        del content[last]

    return change


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (put(*MODEL, "coefficients", value=[]), r"numbers of shape \(0,\) where the shape should be \(2,\)"),
        (put(*MODEL, "coefficients", value=["nan", 1.0]), "a number that is not finite"),
        (put(*MODEL, "coefficients", value=[[1.0, 2.0]]), r"numbers of shape \(1, 2\)"),
        (put(*MODEL, "weight", value=2), "weights sum to 2"),
        (put(*MODEL, "weight", value=-1), "weight is -1"),
        (put(*MODEL, "noise", value=-1), "noise is -1"),
        (put(*MODEL, "freedom", value=0), "freedom is 0"),
        (put(*MODEL, "intercept", value="inf"), "intercept is inf"),
        (put(*MODEL, "at", value=[0, 7]), r"positions \[0, 7\], of which there are 2"),
        (put(*MODEL, "at", value=[0, -1]), r"positions \[0, -1\], of which there are 2"),
        (put(*MODEL, "at", value=[1, 0]), "a member of other columns"),
        (put(*MODEL, "design", "whitening", value=[]), "numbers of shape"),
        (put("predictors", "selected", "members", value=[]), "weights sum to 0"),
        (put("predictors", "selected", "design", "n_rows", value=0), "n_rows is 0"),
        (put("predictors", "selected", "design", "columns", value=["x0", "other"]), "a member of other columns"),
        (put("layout", "columns", value=["x0", "z", "x2", "x3"]), "it predicts with 'x1', which the layout lacks"),
        (put("support", value=[True]), r"numbers of shape \(1,\) where the shape should be \(4,\)"),
        (put("coefficients", value=[1.0]), r"numbers of shape \(1,\)"),
        (put("posterior", value=None), "a posterior is missing"),
        (put("predictive", value=3), "a posterior is missing"),
        (cut("predictors", "average"), "should be of 'average', 'selected'"),
        (cut("new_environments", "selected"), "should be of 'average', 'selected'"),
        (put("new_environments", "selected", "left_out", 0, "environment", value=9), "of which there are 4"),
        (put("new_environments", "selected", "left_out", 0, "rmse", value="nan"), "rmse is nan"),
    ],
)
def test_damages_are_named(content: dict[str, Any], change: Callable, complaint: str, tmp_path: Path) -> None:
    damaged = copy.deepcopy(content)
    change(damaged)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(damaged))
    with pytest.raises(DataError, match=f"is damaged: .*{complaint}.*Save the model again") as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_the_file_itself_is_sound(content: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps(content))
    assert load(tmp_path / "model.json").selected_features_ == ("x0", "x1")


def test_other_formats_without_versions(content: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(content | {"format": "invariance.model/2", "versions": None}))
    with pytest.raises(DataError, match=r"'invariance\.model/2' of invariance another version"):
        load(path)


def test_lists_in_lists_in_lists(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text("[" * 200_000 + "]" * 200_000)
    with pytest.raises(DataError, match="is not a saved model: it is not valid JSON"):
        load(path)
