"""Predictors and what they miss in new environments as strict JSON, without loss."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers
from .._tools.json import from_json, to_json
from ..data.checks import quoted
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, EngineError, SettingError, use
from ..models.base import Predicts
from ..models.survival import PiecewiseHazard
from ..moments.moments import Moments
from .new_environments import LeftOut, NewEnvironments
from .predictor import (
    MEANS,
    PROBE,
    Design,
    LinearPredictor,
    Member,
    PredictedOutcome,
    Predictor,
    RefittedPredictor,
    SurvivalPredictor,
)

T = TypeVar("T")
_NO_SKOPS = "needs skops: pip install 'invariance[skops]'"


def as_floats(values: Any, shape: tuple[int, ...]) -> Floats:
    """Finite numbers; -1 in the shape is any length. ValueError where they are something else."""
    array = np.array(values, dtype=np.float64)
    if shape[0] == 0 and array.shape == (0,):
        # Lists do not tell how wide no rows are.
        return np.zeros([max(n, 0) for n in shape])
    if len(array.shape) != len(shape) or any(n not in (-1, m) for n, m in zip(shape, array.shape, strict=True)):
        raise ValueError(f"numbers of shape {array.shape} where the shape should be {shape}")
    if not np.isfinite(array).all():
        raise ValueError("a number that is not finite")
    return np.ascontiguousarray(array)


def as_number(content: dict[str, Any], key: str) -> float:
    value = float(content[key])
    if not math.isfinite(value):
        raise ValueError(f"{key} is {value:g}")
    return value


def _at_least(record: T, **least: float) -> T:
    """The record; ValueError where one of these numbers is smaller, or none."""
    for name, limit in least.items():
        if not getattr(record, name) >= limit:
            raise ValueError(f"{name} is {getattr(record, name):g}")
    return record


def _check_places(places: Sequence[int] | Integers, n: int) -> None:
    """Raise where positions among n are others, or twice the same."""
    if not set(places) <= set(range(n)) or len(set(places)) < len(places):
        raise ValueError(f"positions {list(map(int, places))}, of which there are {n}")


def _design(content: dict[str, Any]) -> Design:
    design = _at_least(from_json(Design, content), n_rows=1, farthest=0.0)
    k = len(design.columns)
    shapes = {"centre": (k,), "whitening": (k, -1), "minimum": (k,), "maximum": (k,)}
    arrays: dict[str, Any] = {name: as_floats(content[name], shape) for name, shape in shapes.items()}
    return replace(design, **arrays)


def _member(content: dict[str, Any], whole: Design) -> Member:
    member, design = from_json(Member, content), _design(content["design"])
    _at_least(member, weight=0.0, noise=0.0, freedom=1.0)
    as_number(content, "intercept")
    _check_places(member.at, len(whole.columns))
    if design.columns != tuple(whole.columns[place] for place in member.at):
        raise ValueError(f"a member of other columns than {design.columns}")
    return replace(member, coefficients=as_floats(member.coefficients, (len(member.at),)), design=design)


def check_outcome(outcome: PredictedOutcome) -> None:
    if outcome.classes is None and outcome.predicts is Predicts.probability:
        raise ValueError("classes are missing")


def predictor_to_plain(predictor: Predictor, predicts: Predicts) -> dict[str, Any]:
    design = {"design": to_json(predictor.design)}
    if isinstance(predictor, RefittedPredictor):
        return design | {"regressor": _dumped(predictor.regressor), "noise": to_json(predictor.noise)}
    assert isinstance(predictor, LinearPredictor)
    link, mean = predictor.link, MEANS.get(predicts)
    # A saved model predicts by the mean of its kind.
    same = link is None or (mean is not None and np.array_equal(link(PROBE), mean(PROBE)))
    if predicts is not Predicts.time and not same:
        raise SettingError("a model whose mean is not linear in its columns cannot be saved as JSON: use pickle.")
    baselines = predictor.baselines if isinstance(predictor, SurvivalPredictor) else ()
    return design | {"members": to_json(predictor.members), "baselines": to_json(baselines)}


def predictor_from_plain(content: dict[str, Any], predicts: Predicts, trusted: Sequence[str] = ()) -> Predictor:
    design = _design(content["design"])
    if "regressor" in content:
        return RefittedPredictor(design, _loaded(content["regressor"], trusted), noise=as_number(content, "noise"))
    members = tuple(_member(member, design) for member in content["members"])
    total = sum(member.weight for member in members)
    if not math.isclose(total, 1.0, rel_tol=1e-9):
        raise ValueError(f"weights sum to {total:g}")
    if predicts is not Predicts.time:
        return LinearPredictor(design, members, MEANS.get(predicts))
    baselines = tuple(from_json(PiecewiseHazard, baseline) for baseline in content["baselines"])
    return SurvivalPredictor(design, members, None, baselines)


def elsewhere_to_plain(elsewhere: NewEnvironments, environments: tuple[Hashable, ...]) -> dict[str, Any]:
    """Environments by their position."""
    left_out = [to_json(replace(left, environment=environments.index(left.environment))) for left in elsewhere.left_out]
    for left in left_out:
        left["absolute_errors"] = left.pop("absolute")
    return {"left_out": left_out, "impossible": [environments.index(label) for label in elsewhere.impossible]}


def elsewhere_from_plain(content: dict[str, Any], environments: tuple[Hashable, ...]) -> NewEnvironments:
    _check_places([left["environment"] for left in content["left_out"]], len(environments))
    left_out = tuple(
        from_json(
            LeftOut,
            left | {"environment": environments[left["environment"]], "absolute": left["absolute_errors"]},
        )
        for left in content["left_out"]
    )
    for left in left_out:
        _at_least(left, rmse=0.0, rows=1)
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
        trust = use(" if you trust who made the file", trusted=strange)
        raise DataError(f"the saved regressor holds unknown types, which may run code: {quoted(strange, 4)}", trust)
    return loads(content, trusted=list(trusted))


def fingerprint(data: MultiEnvironmentData | Moments) -> str:
    """ "sha256:…" over the kind of data, shapes and names as JSON; then little-endian 64-bit values, row by row: X, y,
    environments, and events or exposures; or counts, means in two parts and scatter of moments."""
    arrays: tuple[NDArray, ...]
    if isinstance(data, Moments):
        arrays, columns = (data.counts, data.centre, data.rest, data.scatter), data.columns
    else:
        arrays, columns = (
            (data.X, data.y, data.environment_index, *data.outcome_columns.values()),
            data.features.columns,
        )
    labels = [str(label) for label in data.environments]
    heading = [type(data).__name__, [list(array.shape) for array in arrays], columns, data.outcome_name, labels]
    digest = hashlib.sha256(json.dumps(heading).encode("utf-8"))
    for array in arrays:
        kind = "<i8" if array.dtype.kind == "i" else "<f8"
        digest.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    return f"sha256:{digest.hexdigest()}"
