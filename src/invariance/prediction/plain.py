"""Predictors and what they miss elsewhere as strict JSON, without loss: numbers read back as the same float64."""

from __future__ import annotations

import base64
import math
from collections.abc import Hashable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from .._tools.arrays import Floats
from ..exceptions import DataError, EngineError, SettingError
from .design import Design
from .new_environments import LeftOut, NewEnvironments
from .predictor import LinearPredictor, Member, Predictor, RefittedPredictor

_NO_SKOPS = "needs skops: pip install 'invariance[skops]'"


def number(value: float) -> float | str:
    """Not finite ones as text, for which strict JSON has no words."""
    return float(value) if math.isfinite(value) else str(float(value))


def numbers(values: Floats) -> list[Any]:
    """Of an array of any shape, nested lists."""
    return [numbers(row) for row in values] if values.ndim > 1 else [number(value) for value in values.tolist()]


def as_floats(values: Any, shape: tuple[int, ...]) -> Floats:
    """What `numbers` wrote; -1 in the shape is any length."""
    array = np.array(values, dtype=np.float64).reshape(shape) if len(values) else np.zeros([max(n, 0) for n in shape])
    return np.ascontiguousarray(array)


def design_to_plain(design: Design) -> dict[str, Any]:
    content = {field.name: getattr(design, field.name) for field in fields(design)}
    arrays = {name: numbers(value) for name, value in content.items() if isinstance(value, np.ndarray)}
    return content | arrays | {"columns": list(design.columns), "farthest": number(design.farthest)}


def design_from_plain(content: dict[str, Any]) -> Design:
    k = len(content["columns"])
    return Design(
        tuple(content["columns"]),
        int(content["n_rows"]),
        as_floats(content["centre"], (k,)),
        as_floats(content["whitening"], (k, -1)),
        as_floats(content["minimum"], (k,)),
        as_floats(content["maximum"], (k,)),
        float(content["farthest"]),
    )


def predictor_to_plain(predictor: Predictor) -> dict[str, Any]:
    if isinstance(predictor, RefittedPredictor):
        content = {"regressor": _dumped(predictor.regressor), "noise": number(predictor.noise)}
        return {"design": design_to_plain(predictor.design)} | content
    assert isinstance(predictor, LinearPredictor)
    if predictor.link is not None:
        raise SettingError("a model whose mean is not linear in its columns cannot be saved as JSON: use pickle.")
    members = [
        {
            "at": member.at.tolist(),
            "coefficients": numbers(member.coefficients),
            "intercept": number(member.intercept),
            "weight": number(member.weight),
            "noise": number(member.noise),
            "freedom": number(member.freedom),
            "design": design_to_plain(member.design),
        }
        for member in predictor.members
    ]
    return {"design": design_to_plain(predictor.design), "members": members}


def predictor_from_plain(content: dict[str, Any], trusted: Sequence[str] = ()) -> Predictor:
    design = design_from_plain(content["design"])
    if "regressor" in content:
        return RefittedPredictor(design, _loaded(content["regressor"], trusted), float(content["noise"]))
    members = tuple(
        Member(
            np.array(member["at"], dtype=np.int64),
            as_floats(member["coefficients"], (len(member["at"]),)),
            float(member["intercept"]),
            float(member["weight"]),
            float(member["noise"]),
            float(member["freedom"]),
            design_from_plain(member["design"]),
        )
        for member in content["members"]
    )
    return LinearPredictor(design, members)


def elsewhere_to_plain(elsewhere: NewEnvironments, environments: tuple[Hashable, ...]) -> dict[str, Any]:
    """Environments by their position."""
    left_out = [
        {
            "environment": environments.index(errors.environment),
            "features": list(errors.features),
            "rmse": number(errors.rmse),
            "absolute_errors": None if errors.absolute is None else numbers(errors.absolute),
        }
        for errors in elsewhere.left_out
    ]
    return {"left_out": left_out, "impossible": [environments.index(label) for label in elsewhere.impossible]}


def elsewhere_from_plain(content: dict[str, Any], environments: tuple[Hashable, ...]) -> NewEnvironments:
    left_out = tuple(
        LeftOut(
            environments[errors["environment"]],
            tuple(errors["features"]),
            float(errors["rmse"]),
            None if errors["absolute_errors"] is None else as_floats(errors["absolute_errors"], (-1,)),
        )
        for errors in content["left_out"]
    )
    return NewEnvironments(left_out, tuple(environments[place] for place in content["impossible"]))


def _dumped(regressor: Any) -> str:
    try:
        from skops.io import dumps
    except ImportError:
        raise EngineError(f"saving a {type(regressor).__name__} {_NO_SKOPS}.") from None
    return base64.b64encode(dumps(regressor)).decode("ascii")


def _loaded(text: str, trusted: Sequence[str]) -> Any:
    """The regressor, if it is made of types that skops or the caller trusts."""
    try:
        from skops.io import get_untrusted_types, loads
    except ImportError:
        raise EngineError(f"loading a model with a regressor of its own {_NO_SKOPS}.") from None
    content = base64.b64decode(text)
    strange = [name for name in get_untrusted_types(data=content) if name not in trusted]
    if strange:
        raise DataError(
            f"the saved regressor holds types that are not known to be harmless: {', '.join(strange)}. If you trust "
            f"who made the file, load(path, trusted={strange!r})."
        )
    return loads(content, trusted=list(trusted))
