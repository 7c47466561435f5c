"""Saved models: they predict and report the findings without the data."""

from __future__ import annotations

import base64
import hashlib
import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._tools.arrays import Fields, Floats, Labels, Mask, Names
from .._tools.files import write_text
from .._tools.json import from_json, read_object, to_json
from .._tools.names import PlotKind, PredictWith
from .._tools.sections import Rendered, Section
from .._tools.text import format_subset
from .._version import __version__
from ..data.checks import quoted, warn
from ..data.encoding import Encoding
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..data.structure import Span
from ..decisions.decision import Verdict
from ..decisions.levels import (
    LEFT_FREE,
    BaselineDifference,
    Heterogeneity,
    in_short,
    level_in_words,
)
from ..decisions.selection_error import ChanceSelection
from ..exceptions import DataError, EngineError, FileError, NotInvariantWarning, SettingError, use
from ..models.survival import PiecewiseHazard
from ..moments.moments import Moments
from ..posterior.posterior import Posterior, SubsetEvidence
from ..prediction.model_choice import Choice
from ..prediction.new_environments import EnvironmentErrors, NewEnvironments
from ..prediction.new_site import NewSites
from ..prediction.predictions import CostOfInvariance
from ..prediction.predictor import (
    AveragedFit,
    Design,
    LinearPredictor,
    PredictedOutcome,
    Predictor,
    RefittedPredictor,
    SurvivalPredictor,
)
from .fitted import ClassProbabilities, IntervalRegressor, TimesToEvent
from .selector import Layout

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..posterior.summary import Summary
    from .bip import BIP

FORMAT = "invariance.model/9"
# Linear predictors at which an inverse link is compared with the usual one.
_PROBE = np.array([-2.0, 0.0, 0.5, 3.0])
# {key in the file: attribute of a fitted model that is kept as it is, and its type}
_KEPT: dict[str, tuple[str, Any]] = {
    "predict_with": ("predict_with", str),
    "set_aside": ("_set_aside", Names),
    "outcome": ("_outcome", PredictedOutcome),
    "by_name": ("_by_name", bool),
    "layout": ("_layout", Layout),
    "n_features_in": ("n_features_in_", int),
    "support": ("support_", Mask),
    "selected_features": ("selected_features_", Names),
    "inclusion_probabilities": ("inclusion_probabilities_", Floats),
    "coefficients": ("coef_", Floats),
    "intercept": ("intercept_", float),
    "invariant": ("invariant_", bool),
    "span": ("_span", Span | None),
}
# {key in the file: type}; the attribute of a decision and, with "_" behind it, of a saved model
_OF_DECISION: Fields = {
    "evidence": dict[str, float],
    "verdict": Verdict,
    "level": str,
    "heterogeneity": Heterogeneity,
    "baseline": BaselineDifference | None,
}
_FOUND: Fields = _OF_DECISION | {
    "luck": ChanceSelection | None,
    "prediction": Choice,
    "price": CostOfInvariance | None,
}


def save(model: BIP, path: str | Path) -> None:
    """Write a model as strict JSON, atomically."""
    check_is_fitted(model)
    try:
        _write(to_plain(model), path)
    except TypeError as error:  # classes that are dates, for example
        raise SettingError(f"the model cannot be saved: {error}. Use pickle.") from error


def _write(content: Fields, path: str | Path) -> None:
    try:
        text = json.dumps(content | {"checksum": _checksum(content)}, allow_nan=False)
        write_text(Path(path).expanduser(), text + "\n")
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def _checksum(content: Fields) -> str:
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, allow_nan=False).encode("ascii")
    ).hexdigest()


def to_plain(model: BIP) -> Fields:
    predictions = model._predictions
    decision = model.decision_
    predictive = decision.predictive
    environments = model.environments_
    label = model._columns.environment
    choice = predictions.choice
    kinds = [
        "selected",
        *([] if choice.reason else ["everything"]),
        *(["average"] if model._regressor is None else []),
    ]
    predictions.leave_out([*kinds, "constant"])
    known = not choice.reason and not predictions.new_environments("selected").not_left_out
    price = model.cost_of_invariance() if known else None
    return {
        "format": FORMAT,
        "versions": {
            "invariance": __version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
        "fingerprint": fingerprint(model._data),
        # An object without a repr of its own is named by its type.
        "settings": {
            name: type(value).__name__ if " at 0x" in repr(value) else repr(value)
            for name, value in model._settings.items()
        },
        "environment": label if isinstance(label, str) else None,
        "handle_unknown": model._columns.handle_unknown,
        "kind": model._kind,
        "feature_names_in": list(getattr(model, "feature_names_in_", ())),
        **{key: to_json(getattr(decision, key)) for key in _OF_DECISION},
        "ranked_by": decision.posterior.kind,
        "luck": to_json(decision.chance),
        "prediction": to_json(_placed(choice, environments)),
        "price": None if price is None else to_json(_placed(price, environments)),
        "predictors": {
            kind: _predictor_to_plain(model._predictor(kind), model._outcome) for kind in kinds
        },
        "new_environments": {
            kind: _errors_to_plain(model._new_environments(kind), environments) for kind in kinds
        },
        **_site_to_plain(model),
        "posterior": model.posterior_.to_plain(),
        "predictive": None if predictive is None else predictive.to_plain(),
        **{key: to_json(getattr(model, attribute)) for key, (attribute, _) in _KEPT.items()},
    }


def _site_to_plain(model: BIP) -> Fields:
    """What the model has for new sites, and the predictor of the one that it was adapted to"""
    site = model._site
    sites = model._new_sites() if model._can_predict_sites else None
    errors = None
    if sites is not None and sites.adaptation is not None:
        errors = _errors_to_plain(model._batch_errors(), model.environments_)
    return {
        "new_sites": to_json(sites),
        "batch_errors": errors,
        "site": None if site is None else _predictor_to_plain(site, model._outcome),
        "adaptation": model.adaptation_,
    }


def _placed(found: Any, environments: Labels) -> Any:
    """Environments by their position"""
    return replace(
        found, environments=tuple(environments.index(label) for label in found.environments)
    )


def _labelled(found: Any, environments: Labels) -> Any:
    return replace(found, environments=tuple(environments[place] for place in found.environments))


def _predictor_to_plain(predictor: Predictor, outcome: PredictedOutcome) -> Fields:
    design = {"design": to_json(predictor.design)}
    if isinstance(predictor, RefittedPredictor):
        dumped = _skops(f"saving a {type(predictor.regressor).__name__}").dumps(predictor.regressor)
        kept = {name: to_json(getattr(predictor, name)) for name in ("slopes", "middle", "noise")}
        return design | kept | {"regressor": base64.b64encode(dumped).decode("ascii")}
    baselines = predictor.baselines if isinstance(predictor, SurvivalPredictor) else ()
    # A saved model predicts by the link of its family.
    usual = outcome.inverse_link
    if not baselines and (
        usual is None or not np.allclose(predictor.inverse_link(_PROBE), usual(_PROBE), rtol=1e-9)
    ):
        raise SettingError(
            f"a model with a link of its own, {outcome.link!r}, cannot be saved as JSON: use "
            "pickle."
        )
    kept = {"members": predictor.members, "baselines": baselines, "effects": predictor.effects}
    return design | {name: to_json(value) for name, value in kept.items()}


def _predictor_from_plain(
    content: Fields, outcome: PredictedOutcome, trusted: Sequence[str]
) -> Predictor:
    design = from_json(Design, content["design"])
    if "regressor" in content:
        skops = _skops("loading a model with a regressor of its own")
        dumped = base64.b64decode(content["regressor"])
        strange = [name for name in skops.get_untrusted_types(data=dumped) if name not in trusted]
        if strange:
            trust = use(" if you trust who made the file", trusted=strange)
            raise DataError(
                "the saved regressor holds unknown types, which may run code: "
                f"{quoted(strange, 4)}",
                trust,
            )
        regressor = skops.loads(dumped, trusted=list(trusted))
        line = from_json(Floats, content["slopes"]), from_json(Floats, content["middle"])
        return RefittedPredictor(design, regressor, *line, known_noise=float(content["noise"]))
    assert outcome.inverse_link is not None
    average = design, from_json(tuple[AveragedFit, ...], content["members"]), outcome.inverse_link
    baselines = from_json(tuple[PiecewiseHazard, ...], content["baselines"])
    if baselines:
        return SurvivalPredictor(*average, baselines=baselines)
    effects = content["effects"]
    return LinearPredictor(*average, None if effects is None else from_json(Floats, effects))


def _errors_to_plain(found: NewEnvironments, environments: Labels) -> Fields:
    """Environments by their position."""
    left_out = [
        replace(errors, environment=environments.index(errors.environment))
        for errors in found.left_out
    ]
    impossible = [environments.index(label) for label in found.impossible]
    return {
        "left_out": to_json(left_out),
        "impossible": impossible,
        "not_left_out": found.not_left_out,
    }


def _errors_from_plain(
    content: Fields, outcome: PredictedOutcome, environments: Labels, by: str
) -> NewEnvironments:
    left_out = [
        errors | {"environment": environments[errors["environment"]]}
        for errors in content["left_out"]
    ]
    impossible = tuple(environments[place] for place in content["impossible"])
    found = from_json(tuple[EnvironmentErrors, ...], left_out)
    return NewEnvironments(outcome, found, impossible, by, content.get("not_left_out", 0))


def _skops(what: str) -> Any:
    try:
        return import_module("skops.io")
    except ImportError:
        raise EngineError(
            f"{what} needs skops: pip install 'invariant-prediction[skops]'."
        ) from None


def fingerprint(data: MultiEnvironmentData | Moments) -> str:
    """ "sha256:…" over the kind of data, shapes and names as JSON; then little-endian 64-bit
    values, row by row: X, y, environments, and events or exposures; or counts, means in two parts
    and scatter of moments."""
    if isinstance(data, Moments):
        columns = data.columns
        arrays = [data.counts, data.centre, data.rest, data.scatter]
    else:
        columns = data.features.columns
        arrays = [data.X, data.y, data.environment_index, *data.outcome_columns.values()]
    labels = [str(label) for label in data.environments]
    heading = [
        type(data).__name__,
        [list(array.shape) for array in arrays],
        columns,
        data.outcome_name,
        labels,
    ]
    digest = hashlib.sha256(json.dumps(heading).encode("utf-8"))
    for array in arrays:
        digest.update(
            np.ascontiguousarray(array, dtype="<i8" if array.dtype.kind == "i" else "<f8").tobytes()
        )
    return f"sha256:{digest.hexdigest()}"


@dataclass(frozen=True, repr=False)
class SavedSummary(Rendered):
    """Text within 80 columns, or HTML in notebooks."""

    model: SavedModel
    posterior: Summary

    @property
    def sections(self) -> tuple[Section, ...]:
        model = self.model
        verdict = self.model.verdict_
        sentence = " ".join(filter(None, (verdict.effects, verdict.context))) or verdict.sentence
        told: Fields = {"verdict": sentence, "baseline": verdict.baseline or None}
        told |= {"elsewhere": verdict.follows or None}
        level = (
            level_in_words(model.level_, model._outcome.kind) if model.n_environments_ > 1 else None
        )
        told |= {"level": level, "luck": model.luck_}
        told |= {"selected": format_subset(model.selected_features_)}
        predicts = model.adaptation_ or model.prediction_.told(model.predict_with)
        told |= {"predicts with": predicts, "price": model.price_}
        facts = tuple((label, str(fact)) for label, fact in told.items() if fact is not None)
        return Section("Decision, as saved", facts=facts, label_width=13), *self.posterior.sections


class SavedModel(IntervalRegressor):
    """Predict by a model that `BIP.save` wrote.

    It is returned by `invariance.load`, and does not need the training data.

    Parameters
    ----------
    columns : Columns, default=None
        How a data frame X is read; `load` sets it.
    predict_with : {"auto", "everything", "selected", "average"}, default="auto"
        Features that predict, as in `BIP`.

    Attributes
    ----------
    posterior_, predictive_ : Posterior
        As in `BIP`; the latter is None if no subset is compatible.
    invariant_ : bool
        As in `BIP`.
    support_ : ndarray of shape (n_features,), bool
        Selected features.
    selected_features_ : tuple of str
        Names of the selected features.
    coef_ : ndarray of shape (n_columns,)
        Pooled coefficients.
    intercept_ : float
        Intercept.
    inclusion_probabilities_ : ndarray of shape (n_features,)
        As in `BIP`.
    environments_ : tuple
        Labels of the environments.
    regressor_ : regressor or None
        The fitted regressor.
    evidence_ : SubsetEvidence
        Evidence on the selected features.
    verdict_ : Verdict
        As `decision_.verdict` of the fit.
    level_ : str
        As `decision_.level` of the fit.
    heterogeneity_ : Heterogeneity
        As `decision_.heterogeneity` of the fit.
    baseline_ : BaselineDifference or None
        As `decision_.baseline` of the fit.
    prediction_ : Choice
        Features that predict, and the reason.
    price_ : CostOfInvariance or None
        Cost of invariance; None if all features cannot predict or environments were not held out.
    luck_ : ChanceSelection or None
        Chance of a wrong selection, if it was computed before saving.
    fingerprint_ : str
        Hash of the training data.
    versions_ : dict of str to str
        Versions of the packages that wrote the file.
    settings_ : dict of str to str
        Parameters of the fit as text.
    outcome_name_ : str
        Name of the outcome.
    outcome_ : PredictedOutcome
        The outcome that is predicted.
    """

    posterior_: Posterior
    inclusion_probabilities_: Floats
    invariant_: bool
    verdict_: Verdict
    level_: str
    heterogeneity_: Heterogeneity
    baseline_: BaselineDifference | None
    luck_: ChanceSelection | None
    prediction_: Choice
    price_: CostOfInvariance | None
    if TYPE_CHECKING:  # what `load` returns has these where the outcome is of two classes

        @property
        def classes_(self) -> NDArray: ...
        def predict_proba(self, X: Any) -> Floats: ...
        def decision_function(self, X: Any) -> Floats: ...

    def __init__(self, columns: Columns | None = None, predict_with: PredictWith = "auto") -> None:
        self.columns = columns
        self.predict_with = predict_with

    def fit(self, X: Any, y: Any = None, environments: Any = None) -> NoReturn:
        raise SettingError("a saved model predicts and cannot be fitted: fit a BIP() instead.")

    def plot(
        self, kind: PlotKind = "inclusion", ax: Axes | None = None, top: int | None = None
    ) -> Any:
        """Draw the inclusion probabilities.

        Parameters
        ----------
        kind : {"inclusion", "trace"}, default="inclusion"
            Other kinds need the data, which the file does not contain.
        ax : Axes, default=None
            Axes to draw on. None makes a new figure.
        top : int, default=None
            Largest number of features drawn.

        Returns
        -------
        Axes
            The axes.
        """
        return self._ranked_by.plot(kind, ax, top)

    def summary(self, top: int = 10) -> SavedSummary:
        """Summarise the saved decision and the posterior by which features were selected.

        Parameters
        ----------
        top : int, default=10
            Number of subsets that are listed.

        Returns
        -------
        SavedSummary
            Prints as text of at most 80 columns, and shows as HTML in notebooks.
        """
        return SavedSummary(self, self._ranked_by.summary(top))

    @property
    def encoding(self) -> Encoding | None:
        """Return how a table becomes the columns of the model; None if they are the table's."""
        return self._layout.encoding

    def _restore(self, content: Fields, trusted: Sequence[str]) -> None:
        self.columns = Columns(
            environment=content["environment"], handle_unknown=content["handle_unknown"]
        )
        for key, (attribute, kind) in _KEPT.items():
            setattr(self, attribute, from_json(kind, content.get(key), key))
        for key, kind in _FOUND.items():
            setattr(self, f"{key}_", from_json(kind, content[key], key))
        self.evidence_ = SubsetEvidence(**vars(self)["evidence_"])
        self.posterior_ = Posterior.from_json(json.dumps(content["posterior"]))
        self.predictive_ = None
        if content["predictive"] is not None:
            self.predictive_ = Posterior.from_json(json.dumps(content["predictive"]))
        self.environments_ = self.posterior_.environments
        self.n_environments_ = self.posterior_.n_environments
        self.columns_ = self._layout.columns
        if content["feature_names_in"]:
            self.feature_names_in_ = np.array(content["feature_names_in"], dtype=object)
        by_prediction = content["ranked_by"] == "predictive"
        self._ranked_by = (self.predictive_ if by_prediction else None) or self.posterior_
        self.fingerprint_ = content["fingerprint"]
        self.versions_ = content["versions"]
        self.settings_ = content["settings"]
        self.outcome_ = self._outcome
        self.outcome_name_ = self._outcome.name
        self._predictors = {
            kind: _predictor_from_plain(plain, self._outcome, trusted)
            for kind, plain in content["predictors"].items()
        }
        self._elsewhere = {
            kind: _errors_from_plain(plain, self._outcome, self.environments_, kind)
            for kind, plain in content["new_environments"].items()
        }
        self._content = content
        sites = content["new_sites"]
        self._sites = None if sites is None else from_json(NewSites, sites)
        self.adaptation_ = content["adaptation"]
        if content["site"] is not None:
            found = _predictor_from_plain(content["site"], self._outcome, trusted)
            assert isinstance(found, LinearPredictor)
            self._site = found
        self.prediction_ = _labelled(self.prediction_, self.environments_)
        if self.price_ is not None:
            self.price_ = _labelled(self.price_, self.environments_)
        self.regressor_ = getattr(self._predictor("auto"), "regressor", None)
        self._regressor = None if "average" in self._predictors else self.settings_["regressor"]

    @property
    def _in_short(self) -> str:
        return in_short(self.level_, self.verdict_, self.heterogeneity_, self.baseline_)

    def _predictor(self, kind: str) -> Predictor:
        return self._predictors[self._resolved(kind)]

    def _new_environments(self, kind: str, new: str | None = None) -> NewEnvironments:
        if new is not None:
            raise SettingError(
                "a saved model has intervals for new levels of the first factor only: leave new= "
                "out."
            )
        return self._elsewhere[self._resolved(kind)]

    def _new_sites(self) -> NewSites:
        assert self._sites is not None
        return self._sites

    def _batch_errors(self) -> NewEnvironments:
        plain = self._content["batch_errors"]
        return _errors_from_plain(plain, self._outcome, self.environments_, "site")

    def save(self, path: str | Path) -> None:
        """Write the model to another file, with the site that it was adapted to.

        Parameters
        ----------
        path : str or Path
            Name of the file.
        """
        site = None if self._site is None else _predictor_to_plain(self._site, self._outcome)
        _write(self._content | {"site": site, "adaptation": self.adaptation_}, path)

    def _resolved(self, kind: str) -> str:
        kind = self.prediction_.uses if kind == "auto" else kind
        if kind not in self._predictors:
            raise SettingError(self.prediction_.reason, use(predict_with="selected"))
        return kind


class SavedClassifier(ClassProbabilities, SavedModel):
    """Predict classes by a model that `BIPClassifier.save` wrote."""


class SavedSurvival(TimesToEvent, SavedModel):
    """Predict times by a model that `BIPSurvival.save` wrote."""


_KINDS = {kind._kind: kind for kind in (SavedModel, SavedClassifier, SavedSurvival)}


def load(path: str | Path, trusted: Sequence[str] = ()) -> SavedModel:
    """Read a model that `BIP.save` wrote.

    Parameters
    ----------
    path : str or Path
        The file.
    trusted : sequence of str, default=()
        Types that a saved regressor may contain in addition to those that skops trusts. A file
        without a regressor contains numbers and text only.

    Returns
    -------
    SavedModel
        A model that predicts.

    Raises
    ------
    DataError
        If the file has another format, was changed since it was written, or contains a regressor
        with types that are not trusted.
    EngineError
        If the file contains a regressor and the extra `skops` is not installed.
    FileError
        If the file is missing or cannot be read.

    Warns
    -----
    NotInvariantWarning
        If the selected features are not known to be invariant.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from invariance import BIP, load
    >>> from invariance.datasets import make_example
    >>> file = Path(tempfile.mkdtemp()) / "model.json"
    >>> BIP().fit(make_example()).save(file)
    >>> load(file).selected_features_
    ('age', 'exercise', 'smoking')
    """
    content = read_object(Path(path).expanduser(), "a saved model")
    if content.get("format") != FORMAT:
        known = f"{content.get('format')!r}, and BIP.save of this version {FORMAT!r}"
        raise DataError(f"{path} has the format {known}: fit and save the model again.")
    if content.pop("checksum", None) != _checksum(content):
        raise DataError(f"{path} was changed since it was written: save the model again.")
    model = _KINDS[content["kind"]]()
    model._restore(content, trusted)
    what = f"{format_subset(model.selected_features_)}, selected by the saved model"
    if model.level_ in LEFT_FREE:
        unknown = "Predictions do not know the baseline of a new environment."
        warn(f"{what}: {model._in_short}. {unknown}", NotInvariantWarning)
    elif not model.invariant_:
        warn(f"{what}, is not known to be invariant: {model.verdict_}", NotInvariantWarning)
    return model
