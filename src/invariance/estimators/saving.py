"""Fitted models to JSON: all that predicts, where it came from, and what was found."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from .._tools.files import write_text
from .._version import __version__
from ..data.plain import encoding_to_plain
from ..exceptions import OutputError
from ..prediction.building import PREDICT_WITH
from ..prediction.fingerprint import fingerprint
from ..prediction.plain import elsewhere_to_plain, number, numbers, outcome_to_plain, predictor_to_plain
from .layout import Layout
from .times import TimesToEvent

if TYPE_CHECKING:
    from .bip import BIP

FORMAT = "invariance.model/1"


def save(model: BIP, path: str | Path) -> None:
    """As strict JSON, in one step."""
    check_is_fitted(model)
    text = json.dumps(to_plain(model), allow_nan=False)
    try:
        write_text(Path(path).expanduser(), text + "\n")
    except OSError as error:
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def to_plain(model: BIP) -> dict[str, Any]:
    kinds = PREDICT_WITH if model._regressor is None else PREDICT_WITH[:1]
    model._leave_out(kinds)
    findings, posterior = model._findings, model.posterior_
    evidence = findings.judge.evidence(model._selected[None]).one()
    # Its average needs the predictive posterior already.
    predictive = findings.predictive
    return {
        "format": FORMAT,
        "versions": versions(),
        "fingerprint": fingerprint(model._data),
        "settings": {name: _setting(value) for name, value in model._settings.items()},
        "environment": model.environment,
        "handle_unknown": model.handle_unknown,
        "predict_with": model.predict_with,
        "kind": _kind(model),
        "outcome": outcome_to_plain(model._outcome),
        "layout": _layout(model._layout),
        "by_name": model._by_name,
        "n_features_in": model.n_features_in_,
        "feature_names_in": list(getattr(model, "feature_names_in_", ())),
        "support": model.support_.tolist(),
        "selected_features": list(model.selected_features_),
        "inclusion_probabilities": numbers(model.inclusion_probabilities_),
        "coefficients": numbers(model.coef_),
        "intercept": number(model.intercept_),
        "invariant": model.invariant_,
        "evidence": {name: number(value) for name, value in asdict(evidence).items()},
        "predictors": {kind: predictor_to_plain(model._predictor(kind), model._outcome.predicts) for kind in kinds},
        "new_environments": {
            kind: elsewhere_to_plain(model._new_environments(kind), posterior.environments) for kind in kinds
        },
        "posterior": json.loads(posterior.to_json()),
        "predictive": None if predictive is None else json.loads(predictive.to_json()),
    }


def _kind(model: BIP) -> str:
    if is_classifier(model):
        return "classifier"
    return "survival" if isinstance(model, TimesToEvent) else "regressor"


def versions() -> dict[str, str]:
    return {
        "invariance": __version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }


def _setting(value: Any) -> str:
    """For people to read; an object without words of its own is named by its type."""
    text = repr(value)
    return type(value).__name__ if " at 0x" in text else text


def _layout(layout: Layout) -> dict[str, Any]:
    return {
        "table": list(layout.table),
        "columns": list(layout.columns),
        "feature_at": layout.feature_at.tolist(),
        "column_at": layout.column_at.tolist(),
        "encoding": encoding_to_plain(layout.encoding),
    }
