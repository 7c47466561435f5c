"""A fitted model as the subject of a report."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from ..decisions.diagnosis import Diagnosis
from ..exceptions import SettingError
from ..report.comparing import check_comparison
from ..report.contents import contents_of
from ..report.page import checked_path, write_report
from ..report.subject import Source, Subject

if TYPE_CHECKING:
    from .bip import BIP


def report(model: BIP, path: str | Path, comparison: Any, source: Source | None) -> Path:
    """What cannot be written is refused before environments are diagnosed, which takes a while."""
    check_is_fitted(model)
    file = checked_path(path)
    if comparison is not None:
        check_comparison(comparison, model.posterior_.outcome_name, model.posterior_.feature_names)
    subject = Subject(
        decision=model.decision_,
        data=model._data,
        conditional=model._conditional,
        diagnosis=_diagnosis(model),
        estimator=type(model).__name__,
        settings=model._settings,
        defaults={name: given.default for name, given in inspect.signature(type(model)).parameters.items()},
        by_name=model._by_name,
        comparison=comparison,
        source=source or Source(),
    )
    return write_report(contents_of(subject, model.progress), file)


def _diagnosis(model: BIP) -> Diagnosis | str:
    """Or why there is none."""
    try:
        return model.diagnose()
    except SettingError as error:
        told = str(error)
        return told[0].upper() + told[1:]
