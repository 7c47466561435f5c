"""Models that were saved: they predict, and say what was found, without the data."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import sklearn
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from .._tools.arrays import Floats, Mask
from .._tools.files import write_text
from .._tools.json import from_json, read_object, to_json
from .._tools.text import format_subset
from .._version import __version__
from ..data.checks import quoted, warn
from ..data.encoding import Encoding
from ..data.settings import Columns
from ..exceptions import DataError, FileError, NotInvariantWarning, SettingError
from ..posterior.posterior import Posterior, SubsetEvidence
from ..prediction.new_environments import NewEnvironments
from ..prediction.predictor import PREDICT_WITH, PredictedOutcome, Predictor, RefittedPredictor
from ..prediction.saving import (
    as_floats,
    check_outcome,
    elsewhere_from_plain,
    elsewhere_to_plain,
    fingerprint,
    predictor_from_plain,
    predictor_to_plain,
)
from .fitted import ClassProbabilities, IntervalRegressor, TimesToEvent
from .selector import Layout

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from ..posterior.summary import Summary
    from .bip import BIP

FORMAT = "invariance.model/1"
# What a file keeps of a fitted model as it is: the attribute, and what it holds.
_KEPT: dict[str, tuple[str, Any]] = {
    "predict_with": ("predict_with", str),
    "set_aside": ("_set_aside", tuple[str, ...]),
    "outcome": ("_outcome", PredictedOutcome),
    "by_name": ("_by_name", bool),
    "n_features_in": ("n_features_in_", int),
    "support": ("support_", Mask),
    "selected_features": ("selected_features_", tuple[str, ...]),
    "inclusion_probabilities": ("inclusion_probabilities_", Floats),
    "coefficients": ("coef_", Floats),
    "intercept": ("intercept_", float),
    "invariant": ("invariant_", bool),
}


def save(model: BIP, path: str | Path) -> None:
    """As strict JSON, in one step."""
    check_is_fitted(model)
    try:
        text = json.dumps(to_plain(model), allow_nan=False)
    except TypeError as error:  # classes that are dates, for example
        raise SettingError(f"the model cannot be saved: {error}. Use pickle.") from error
    try:
        write_text(Path(path).expanduser(), text + "\n")
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def to_plain(model: BIP) -> dict[str, Any]:
    kinds = PREDICT_WITH if model._regressor is None else PREDICT_WITH[:1]
    model._leave_out(kinds)
    findings, posterior = model._findings, model.posterior_
    evidence = findings.judge.evidence(model.decision_.mask[None]).one()
    # Its average needs the predictive posterior already.
    predictive = findings.predictive
    return {
        "format": FORMAT,
        "versions": versions(),
        "fingerprint": fingerprint(model._data),
        "settings": {name: _setting(value) for name, value in model._settings.items()},
        "environment": model._columns.environment,
        "handle_unknown": model._columns.handle_unknown,
        "kind": _kind(model),
        "layout": to_json(model._layout),
        "feature_names_in": list(getattr(model, "feature_names_in_", ())),
        "evidence": to_json(evidence),
        "predictors": {kind: predictor_to_plain(model._predictor(kind), model._outcome.predicts) for kind in kinds},
        "new_environments": {
            kind: elsewhere_to_plain(model._new_environments(kind), posterior.environments) for kind in kinds
        },
        "posterior": json.loads(posterior.to_json()),
        "predictive": None if predictive is None else json.loads(predictive.to_json()),
    } | {key: to_json(getattr(model, attribute)) for key, (attribute, _) in _KEPT.items()}


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


class SavedModel(IntervalRegressor):
    """What `BIP.save` wrote, read by `invariance.load`: predict, predict_interval, transform, summary.

    posterior_, predictive_, invariant_, support_, selected_features_, coef_, intercept_, inclusion_probabilities_,
    environments_ and regressor_ are as those of BIP; fingerprint_ : of the data; versions_ : what the file was written
    with; settings_ : {parameter: text}; evidence_ : of the selected features; outcome_name_ : what is predicted, and
    outcome_ : as what.
    """

    def __init__(self, columns: Columns | None = None, predict_with: str = "selected") -> None:
        self.columns = columns
        self.predict_with = predict_with

    def fit(self, X: Any, y: Any = None, environments: Any = None) -> NoReturn:
        raise SettingError("a saved model predicts and cannot be fitted: fit a BIP() instead.")

    def _predictor(self, kind: str) -> Predictor:
        if kind not in self._predictors:
            raise SettingError(f"the saved model has a regressor, which predict_with={kind!r} cannot average.")
        return self._predictors[kind]

    def _new_environments(self, kind: str) -> NewEnvironments:
        return self._elsewhere[kind]

    def plot(self, kind: str = "inclusion", ax: Axes | None = None, top: int | None = None) -> Any:
        """Draw the inclusion probabilities; what needs the data, as the other kinds do, is not in the file."""
        return self.posterior_.plot(kind, ax, top)

    def summary(self, top: int = 10) -> Summary:
        """Of the posterior, as text within 80 columns or as HTML in notebooks."""
        return self.posterior_.summary(top)

    @property
    def encoding(self) -> Encoding | None:
        """How a table becomes the columns of the model; None where they are the table's."""
        return self._layout.encoding

    @property
    def columns_to_predict(self) -> tuple[str, ...]:
        """Names of the columns that predict, of the selected features or of all that are averaged."""
        used = set(self._predictor(self.predict_with).design.columns)
        if self.encoding is not None:
            used = {term.column for term in self.encoding.terms if used.intersection(term.names)}
        return tuple(name for name in self._columns_of_tables if name in used)

    @property
    def _columns_of_tables(self) -> tuple[str, ...]:
        return self.columns_ if self._layout.grouped_without_table else self._layout.table

    def completed(self, table: pd.DataFrame) -> pd.DataFrame:
        """A table with the columns that predict as `predict` takes it: the others are there, and any value does."""
        import pandas as pd

        levels = {} if self.encoding is None else self.encoding.of_levels
        others = {name: levels[name].levels[0] if name in levels else 0.0 for name in self._columns_of_tables}
        predict = self.columns_to_predict
        columns = {name: table[name] if name in predict else other for name, other in others.items()}
        return pd.DataFrame(columns, index=table.index)

    @classmethod
    def _from_plain(cls, content: dict[str, Any], trusted: Sequence[str]) -> SavedModel:
        environment = content["environment"]
        # The first files did not say which columns are no features.
        content = {"set_aside": [] if environment is None else [environment]} | content
        model = cls(Columns(environment=environment, handle_unknown=content["handle_unknown"]))
        for key, (attribute, kind) in _KEPT.items():
            setattr(model, attribute, from_json(kind, content[key]))
        check_outcome(model._outcome)
        model.posterior_ = _posterior(content["posterior"])
        model.predictive_ = None if content["predictive"] is None else _posterior(content["predictive"])
        model.environments_ = model.posterior_.environments
        model.n_environments_ = len(model.environments_)
        model._layout = from_json(Layout, content["layout"])
        model.columns_ = model._layout.columns
        if content["feature_names_in"]:
            model.feature_names_in_ = np.array(content["feature_names_in"], dtype=object)
        model.evidence_ = SubsetEvidence(**{name: float(value) for name, value in content["evidence"].items()})
        model.fingerprint_ = str(content["fingerprint"])
        model.versions_, model.settings_ = dict(content["versions"]), dict(content["settings"])
        model.outcome_name_, predicts = model._outcome.name, model._outcome.predicts
        model._predictors = {
            kind: predictor_from_plain(plain, predicts, trusted) for kind, plain in content["predictors"].items()
        }
        model._elsewhere = {
            kind: elsewhere_from_plain(plain, model.environments_)
            for kind, plain in content["new_environments"].items()
        }
        chosen = model._predictors[PREDICT_WITH[0]]
        model.regressor_ = chosen.regressor if isinstance(chosen, RefittedPredictor) else None
        model._check()
        return model

    @property
    def outcome_(self) -> PredictedOutcome:
        """What is predicted, and in which units."""
        return self._outcome

    def _check(self) -> None:
        """Raise ValueError unless each kind of prediction is there, and all has the size of the layout."""
        as_floats(self.support_, (self.n_features_in_,))
        as_floats(self.inclusion_probabilities_, (self.n_features_in_,))
        as_floats(self.coef_, (len(self.columns_),))
        as_floats([self.intercept_], (1,))
        kinds = set(PREDICT_WITH if self.settings_["regressor"] == "None" else PREDICT_WITH[:1])
        if set(self._predictors) != kinds or set(self._elsewhere) != kinds:
            raise ValueError(f"predictors and new_environments should be of {quoted(sorted(kinds))}")
        for predictor in self._predictors.values():
            unknown = [name for name in predictor.design.columns if name not in self.columns_]
            if unknown:
                raise ValueError(f"it predicts with {quoted(unknown)}, which the layout lacks")

    def _warning(self) -> str:
        """What was said when the model was fitted to features that are not invariant; else nothing."""
        if self.invariant_:
            return ""
        names, p_value = format_subset(self.selected_features_), self.evidence_.p_invariant
        why = "which could not be tested" if np.isnan(p_value) else f"p-value {p_value:.2g}"
        return (
            f"the features {names} of the saved model are not known to predict {self.outcome_name_} alike in all "
            f"environments ({why}): what is predicted with them may fail in a new one."
        )


class SavedClassifier(ClassProbabilities, SavedModel):
    """What `BIPClassifier.save` wrote: predict, predict_proba, classes_ and what else SavedModel has."""


class SavedSurvival(TimesToEvent, SavedModel):
    """What `BIPSurvival.save` wrote: predict, predict_survival, score and what else SavedModel has."""


_KINDS = {"regressor": SavedModel, "classifier": SavedClassifier, "survival": SavedSurvival}


def load(path: str | Path, trusted: Sequence[str] = ()) -> SavedModel:
    """Read a model that `BIP.save` wrote.

    trusted : types that a saved regressor may hold besides those that skops knows to be harmless. A file without a
        regressor holds numbers and words only.
    """
    file = Path(path).expanduser()
    content = read_object(file, "a saved model")
    if content.get("format") != FORMAT:
        raise DataError(f"{path} {_other_format(content)}.")
    try:
        model = _KINDS[content["kind"]]._from_plain(content, trusted)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged: {type(error).__name__} {error}. Save the model again.") from error
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is damaged: {error}. Save the model again.") from error
    warning = model._warning()
    if warning:
        warn(warning, NotInvariantWarning)
    return model


def _posterior(content: Any) -> Posterior:
    if not isinstance(content, dict):
        raise ValueError("a posterior is missing")
    return Posterior.from_json(json.dumps(content))


def _other_format(content: dict[str, Any]) -> str:
    found, written = str(content.get("format")), content.get("versions")
    if found.startswith("invariance.model/"):
        by = written.get("invariance", "another version") if isinstance(written, dict) else "another version"
        return f"has the format {found!r} of invariance {by}, and invariance {__version__} reads {FORMAT!r}"
    if found.startswith("invariance.posterior/"):
        return "is a posterior, which predicts nothing: read it with Posterior.from_json(path)"
    return f"is not a saved model: its format is not {FORMAT!r}, which BIP.save and invariance fit --save write"
