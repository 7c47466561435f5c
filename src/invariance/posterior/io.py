"""Posterior to and from JSON, and to an xarray DataTree.

The JSON is strict and lossless. Its fields are those of a Posterior, but for `subsets`, positions of the features of
each subset; n_subsets is hexadecimal from 2**53 on, and numbers that are not finite are "nan", "inf" and "-inf".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from .._tools import json as plain
from ..exceptions import DataError
from .posterior import Evidence, Posterior

FORMAT = "invariance.posterior/1"
_LARGEST_PLAIN_INTEGER = 2**53
# So many subsets of the table are saved with their evidence.
_WITH_EVIDENCE = 100
_NOT_SAVED = ("judge", "source", "decision")


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
        "n_subsets": _count(posterior.n_subsets),
        "environments": [str(label) if type(label).__name__ in lacking else label for label in labels],
        "notes": (*posterior.notes, note) if lacking else posterior.notes,
        "table_evidence": evidence,
    }
    content: dict[str, Any] = {"format": FORMAT}
    for field in fields(Posterior):
        if field.name == "masks":
            content["subsets"] = [np.flatnonzero(mask).tolist() for mask in posterior.masks]
        elif field.name not in _NOT_SAVED:
            content[field.name] = plain.to_json(own.get(field.name, getattr(posterior, field.name)))
    return content


def from_json(path_or_text: str | Path) -> Posterior:
    """What `to_json` wrote; DataError says what is wrong."""
    content, origin = _read(path_or_text)
    if content.get("format") != FORMAT:
        raise DataError(f"{origin} has the format {content.get('format')!r}, and this version reads {FORMAT!r}")
    try:
        evidence, n_subsets = content.pop("table_evidence", None), content["n_subsets"]
        if isinstance(n_subsets, str):
            content["n_subsets"] = int(n_subsets, 16)
        masks = np.zeros((len(content["subsets"]), len(content["feature_names"])), dtype=bool)
        for mask, members in zip(masks, content["subsets"], strict=True):
            mask[np.array(members, dtype=np.uint32)] = True
        content |= {"masks": masks, "diagnostics": _numbers(content["diagnostics"])}
        if evidence is not None:
            evidence = Evidence(**{name: np.array(values, dtype=float) for name, values in evidence.items()})
        posterior = plain.from_json(Posterior, content)
        posterior.__dict__["table_evidence"] = evidence
        return posterior
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        what = f"it has no {error}" if isinstance(error, KeyError) else error
        raise DataError(f"{origin} is damaged: {what}") from error


def _numbers(value: Any) -> Any:
    """Numbers that are not finite in place of their names."""
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


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
    whole = Dataset({"inclusion": ("feature", posterior.inclusion.copy())}, {"feature": names})
    if posterior.pairwise is not None:
        pairs = ("feature", "other_feature"), posterior.pairwise.copy()
        whole = whole.assign_coords(other_feature=names).assign(pairwise=pairs)
    table = {
        "mask": (("subset", "feature"), posterior.masks.copy()),
        "log_ratio": ("subset", posterior.log_ratios.copy()),
        "probability": ("subset", np.exp(posterior.log_probabilities)),
    }
    subsets = Dataset(table, {"subset": np.arange(len(posterior.masks)), "feature": names})
    tree = DataTree.from_dict({"posterior": whole, "subsets": subsets})
    same = ("model", "model_reason", "engine", "prior", "log_evidence", "entropy")
    tree.attrs.update(
        {key: getattr(posterior, key) for key in same},
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
