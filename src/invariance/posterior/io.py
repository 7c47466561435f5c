"""Posterior to and from JSON, and to an xarray DataTree.

The JSON is strict and lossless; see `Saved` for its fields.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._tools import json as plain
from .._tools.arrays import Floats, Integers
from ..exceptions import DataError
from .posterior import Verdict

if TYPE_CHECKING:
    from .posterior import Posterior

FORMAT = "invariance.posterior/1"
_LARGEST_PLAIN_INTEGER = 2**53
# So many subsets of the table are saved with their evidence.
_WITH_EVIDENCE = 100


@dataclass(frozen=True)
class Saved:
    """The fields of a file, as in `Posterior`; older files lack those with a default.

    subsets : positions of the features of each; n_subsets : hexadecimal from 2**53 on
    environments, diagnostics : with {"$float": "-inf"} for a number that is not finite, which is "-inf" elsewhere
    """

    feature_names: tuple[str, ...]
    inclusion: Floats
    pairwise: Floats | None
    subsets: tuple[tuple[int, ...], ...]
    log_ratios: Floats
    log_probabilities: Floats
    log_evidence: float
    entropy: float
    n_subsets: int | str
    engine: str
    prior: str
    outcome_name: str
    environments: tuple[Hashable, ...]
    counts: Integers
    notes: tuple[str, ...]
    diagnostics: dict[str, Any]
    verdict: Verdict | None = None
    model: str = "linear Gaussian"
    model_reason: str = ""
    kind: Literal["invariant", "predictive"] = "invariant"
    table_evidence: dict[str, Floats] | None = None
    lowest_level: float | None = None


def to_json(posterior: Posterior, more: Mapping[str, Any] | None = None) -> str:
    """The posterior, without its source, and the keys of `more`, as strict JSON on one line per field."""
    content = to_plain(posterior) | dict(more or {})
    lines = (f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def to_plain(posterior: Posterior) -> dict[str, Any]:
    """The posterior, without its source, as values that JSON can hold."""
    labels = [label.item() if isinstance(label, np.generic) else label for label in posterior.environments]
    lacking = {type(label).__name__ for label in labels if not isinstance(label, str | int | float | None)}
    note = f"Environment labels of type {', '.join(sorted(lacking))} were saved as text."
    evidence = None
    if posterior.judge is not None or posterior.table_evidence is not None:
        evidence = posterior.leading_evidence(_WITH_EVIDENCE).columns()
    own = {
        "subsets": tuple(tuple(np.flatnonzero(mask).tolist()) for mask in posterior.masks),
        "n_subsets": _count(posterior.n_subsets),
        "environments": [_free(str(label) if type(label).__name__ in lacking else label) for label in labels],
        "notes": (*posterior.notes, note) if lacking else posterior.notes,
        "diagnostics": _free(posterior.diagnostics),
        "table_evidence": evidence,
    }
    content = {field.name: own.get(field.name, getattr(posterior, field.name, None)) for field in fields(Saved)}
    return {"format": FORMAT} | plain.to_json(content)


def from_json(path_or_text: str | Path) -> tuple[dict[str, Any], str]:
    """The arguments of the Posterior that `to_json` wrote, and where they are from; DataError says what is wrong."""
    from .posterior import Evidence

    content, origin = _read(path_or_text)
    if content.get("format") != FORMAT:
        raise DataError(f"{origin} has the format {content.get('format')!r}, and this version reads {FORMAT!r}")
    try:
        saved = plain.from_json(Saved, content)
        masks = np.zeros((len(saved.subsets), len(saved.feature_names)), dtype=bool)
        for mask, members in zip(masks, saved.subsets, strict=True):
            mask[np.array(members, dtype=np.uint32)] = True
        arguments = vars(saved) | {
            "masks": masks,
            "n_subsets": int(saved.n_subsets, 16) if isinstance(saved.n_subsets, str) else saved.n_subsets,
            "environments": tuple(_freed(list(saved.environments))),
            "diagnostics": _freed(saved.diagnostics),
            "table_evidence": None if saved.table_evidence is None else Evidence(**saved.table_evidence),
        }
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        raise DataError(f"{origin} is damaged: {error}") from error
    del arguments["subsets"]
    return arguments, origin


def _read(path_or_text: str | Path) -> tuple[dict[str, Any], str]:
    """The object in a file or a text, and its origin for messages."""
    if not isinstance(path_or_text, str) or path_or_text.lstrip()[:1] not in ("", "{", "["):
        return plain.read_object(Path(path_or_text), "a saved posterior"), str(path_or_text)
    try:
        return dict(plain.parse(path_or_text)), "the text"
    except (TypeError, ValueError) as error:
        raise DataError(f"the text is not a saved posterior: {error}") from error


def to_datatree(posterior: Posterior) -> Any:
    """xarray.DataTree: "posterior" (inclusion, pairwise) and "subsets" (mask, log_ratio, probability)."""
    try:
        from xarray import Dataset, DataTree
    except ImportError as error:
        raise ImportError("to_datatree() needs xarray: pip install 'invariance[xarray]'") from error
    names = list(posterior.feature_names)
    whole = Dataset({"inclusion": ("feature", posterior.inclusion.copy())}, coords={"feature": names})
    if posterior.pairwise is not None:
        pairs = ("feature", "other_feature"), posterior.pairwise.copy()
        whole = whole.assign_coords(other_feature=names).assign(pairwise=pairs)
    subsets = Dataset(
        {
            "mask": (("subset", "feature"), posterior.masks.copy()),
            "log_ratio": ("subset", posterior.log_ratios.copy()),
            "probability": ("subset", np.exp(posterior.log_probabilities)),
        },
        coords={"subset": np.arange(len(posterior.masks)), "feature": names},
    )
    tree = DataTree.from_dict({"posterior": whole, "subsets": subsets})
    described = ("model", "model_reason", "engine", "prior", "log_evidence", "entropy")
    tree.attrs.update(
        {key: getattr(posterior, key) for key in described},
        outcome=posterior.outcome_name,
        n_subsets=_count(posterior.n_subsets),
        environments=[str(label) for label in posterior.environments],
        counts=posterior.counts.tolist(),
        notes=list(posterior.notes),
        verdict="" if posterior.verdict is None else posterior.verdict.sentence,
    )
    return tree


def _count(n_subsets: int) -> int | str:
    return n_subsets if n_subsets < _LARGEST_PLAIN_INTEGER else hex(n_subsets)


def _free(value: Any) -> Any:
    """A value of a free-form field."""
    return plain.to_json(value, lambda number: {"$float": str(number)})


def _freed(value: Any) -> Any:
    if isinstance(value, dict):
        return float(value["$float"]) if list(value) == ["$float"] else {key: _freed(v) for key, v in value.items()}
    return [_freed(item) for item in value] if isinstance(value, list) else value
