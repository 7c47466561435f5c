"""Predictors and what they miss elsewhere as strict JSON, without loss: numbers read back as the same float64."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, EngineError, SettingError
from ..models.base import Predicts
from ..models.survival import PiecewiseHazard
from ..moments.moments import Moments
from .new_environments import FIGURES, LeftOut, NewEnvironments
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

_LARGEST = sys.float_info.max
_NO_SKOPS = "needs skops: pip install 'invariance[skops]'"


def number(value: float) -> float | str:
    """Not finite ones as text, for which strict JSON has no words."""
    return float(value) if math.isfinite(value) else str(float(value))


def numbers(values: Floats) -> list[Any]:
    """Of an array of any shape, nested lists."""
    return [numbers(row) for row in values] if values.ndim > 1 else [number(value) for value in values.tolist()]


def as_floats(values: Any, shape: tuple[int, ...]) -> Floats:
    """What `numbers` wrote of finite numbers; -1 in the shape is any length. ValueError where it is something else."""
    array = np.array(values, dtype=np.float64)
    if shape[0] == 0 and array.shape == (0,):
        # Lists do not tell how wide no rows are.
        return np.zeros([max(n, 0) for n in shape])
    if len(array.shape) != len(shape) or any(n not in (-1, m) for n, m in zip(shape, array.shape, strict=True)):
        raise ValueError(f"numbers of shape {array.shape} where the shape should be {shape}")
    if not np.isfinite(array).all():
        raise ValueError("a number that is not finite")
    return np.ascontiguousarray(array)


def as_number(content: dict[str, Any], key: str, least: float = -_LARGEST, most: float = _LARGEST) -> float:
    value = float(content[key])
    if not least <= value <= most:
        raise ValueError(f"{key} is {value:g}")
    return value


def _as_places(values: Any, n: int) -> Integers:
    """Positions among n, each once."""
    places = np.array(values, dtype=np.int64).reshape(-1)
    if not np.isin(places, np.arange(n)).all() or len(np.unique(places)) < len(places):
        raise ValueError(f"positions {places.tolist()}, of which there are {n}")
    return places


def design_to_plain(design: Design) -> dict[str, Any]:
    content = {field.name: getattr(design, field.name) for field in fields(design)}
    arrays = {name: numbers(value) for name, value in content.items() if isinstance(value, np.ndarray)}
    return content | arrays | {"columns": list(design.columns), "farthest": number(design.farthest)}


def design_from_plain(content: dict[str, Any]) -> Design:
    k = len(content["columns"])
    return Design(
        tuple(content["columns"]),
        int(as_number(content, "n_rows", 1)),
        as_floats(content["centre"], (k,)),
        as_floats(content["whitening"], (k, -1)),
        as_floats(content["minimum"], (k,)),
        as_floats(content["maximum"], (k,)),
        as_number(content, "farthest", 0.0),
    )


def outcome_to_plain(outcome: PredictedOutcome) -> dict[str, Any]:
    classes = outcome.classes
    if classes is not None and not all(isinstance(label, str | bool | int | float) for label in classes):
        raise SettingError(f"the classes {classes!r} are no text or numbers, which JSON holds: use pickle.")
    return {
        "name": outcome.name,
        "predicts": outcome.predicts.value,
        "classes": None if classes is None else list(classes),
        "exposure": outcome.exposure,
    }


def outcome_from_plain(content: dict[str, Any]) -> PredictedOutcome:
    predicts, given = Predicts(content["predicts"]), content["classes"]
    if (given is None and predicts is Predicts.probability) or (given is not None and len(given) != 2):
        raise ValueError(f"classes are {given}")
    return PredictedOutcome(
        str(content["name"]), predicts, None if given is None else (given[0], given[1]), content["exposure"]
    )


def predictor_to_plain(predictor: Predictor, predicts: Predicts) -> dict[str, Any]:
    if isinstance(predictor, RefittedPredictor):
        content = {"regressor": _dumped(predictor.regressor), "noise": number(predictor.noise)}
        return {"design": design_to_plain(predictor.design)} | content
    assert isinstance(predictor, LinearPredictor)
    if predictor.link is not None and predicts is not Predicts.time and not _same_mean(predictor.link, predicts):
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
    baselines = [
        {"cuts": numbers(baseline.cuts), "hazards": numbers(baseline.hazards)}
        for baseline in (predictor.baselines if isinstance(predictor, SurvivalPredictor) else ())
    ]
    return {"design": design_to_plain(predictor.design), "members": members, "baselines": baselines}


def _same_mean(link: Callable[[Floats], Floats], predicts: Predicts) -> bool:
    """Whether a saved model would predict by this function."""
    return predicts in MEANS and np.array_equal(link(PROBE), MEANS[predicts](PROBE))


def predictor_from_plain(content: dict[str, Any], predicts: Predicts, trusted: Sequence[str] = ()) -> Predictor:
    design = design_from_plain(content["design"])
    if "regressor" in content:
        return RefittedPredictor(design, _loaded(content["regressor"], trusted), as_number(content, "noise", 0.0))
    members = tuple(_member_from_plain(member, design) for member in content["members"])
    total = sum(member.weight for member in members)
    if not math.isclose(total, 1.0, rel_tol=1e-9):
        raise ValueError(f"weights sum to {total:g}")
    if predicts is not Predicts.time:
        return LinearPredictor(design, members, MEANS.get(predicts))
    baselines = tuple(map(_hazard_from_plain, content["baselines"]))
    if len(baselines) != len(members):
        raise ValueError(f"{len(baselines)} baselines, where there should be {len(members)}")
    return SurvivalPredictor(design, members, None, baselines)


def _hazard_from_plain(content: dict[str, Any]) -> PiecewiseHazard:
    cuts = as_floats(content["cuts"], (-1,))
    hazards = as_floats(content["hazards"], (len(cuts) + 1,))
    if (np.diff(cuts, prepend=0.0) <= 0.0).any() or (hazards < 0.0).any():
        raise ValueError("a baseline that is no hazard")
    return PiecewiseHazard(cuts, hazards)


def _member_from_plain(content: dict[str, Any], whole: Design) -> Member:
    at, design = _as_places(content["at"], len(whole.columns)), design_from_plain(content["design"])
    if design.columns != tuple(whole.columns[place] for place in at):
        raise ValueError(f"a member of other columns than {design.columns}")
    return Member(
        at,
        as_floats(content["coefficients"], (len(at),)),
        as_number(content, "intercept"),
        as_number(content, "weight", 0.0),
        as_number(content, "noise", 0.0, math.inf),
        as_number(content, "freedom", 1.0),
        design,
    )


def elsewhere_to_plain(elsewhere: NewEnvironments, environments: tuple[Hashable, ...]) -> dict[str, Any]:
    """Environments by their position."""
    left_out = [
        {
            "environment": environments.index(errors.environment),
            "features": list(errors.features),
            "rmse": number(errors.rmse),
            "absolute_errors": None if errors.absolute is None else numbers(errors.absolute),
            "unseen": list(errors.unseen),
            "rows": errors.rows,
            "figures": {name: number(value) for name, value in errors.figures.items()},
        }
        for errors in elsewhere.left_out
    ]
    return {"left_out": left_out, "impossible": [environments.index(label) for label in elsewhere.impossible]}


def elsewhere_from_plain(
    content: dict[str, Any], environments: tuple[Hashable, ...], predicts: Predicts
) -> NewEnvironments:
    left_out = content["left_out"]
    found = _as_places([errors["environment"] for errors in left_out], len(environments))
    impossible = _as_places(content["impossible"], len(environments))
    return NewEnvironments(
        tuple(
            LeftOut(
                environments[place],
                tuple(errors["features"]),
                as_number(errors, "rmse", 0.0, math.inf),
                None if errors["absolute_errors"] is None else as_floats(errors["absolute_errors"], (-1,)),
                tuple(errors["unseen"]),
                int(as_number(errors, "rows", 1)),
                {name: float(errors["figures"][name]) for name in FIGURES[predicts]},
            )
            for place, errors in zip(found, left_out, strict=True)
        ),
        tuple(environments[place] for place in impossible),
    )


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


def fingerprint(data: MultiEnvironmentData | Moments) -> str:
    """ "sha256:…" over, in this order: what kind of data it is, their shape, the names of the columns, of the outcome
    and of the environments as JSON; then the numbers as little-endian 64-bit values, row by row: X, y and the
    environment of each row, and events or exposures where there are such; or counts, means in two parts and scatter of
    moments.
    """
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
