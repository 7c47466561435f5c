"""The fit of one outcome, and what is kept of it."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from .._tools.arrays import Mask
from .._tools.parallel import seed_number
from ..decisions.pipeline import Findings, moments_notes
from ..estimators.bip import BIP
from ..inference.base import Precomputed
from ..inference.variational_device import Found
from ..priors import as_prior
from .source import Source

VERDICTS = ("invariant", "weakly invariant", "not invariant", "not judged")
# Columns of the table of results
COLUMNS = {
    "outcome": "str",
    "feature": "str",
    "inclusion": "float",
    "predictive": "float",
    "selected": "bool",
    "verdict": "str",
    "p_invariant": "float",
    "r2": "float",
    "seconds": "float",
    "notes": "str",
}
# Of an outcome: {column: value} for each feature that is kept, and once, without a feature, where the fit failed
Rows = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Sweep:
    """All that the result of an outcome depends on; it travels to the workers once.

    model : with the settings of every fit; top : features to keep of each, None for all; seed : of the sweep
    """

    source: Source
    model: BIP
    top: int | None
    seed: int


def fit_outcome(sweep: Sweep, outcome: str, known: Found | None = None) -> Rows:
    """The same wherever and after whatever else it is done, but for the seconds. Complaints are its verdict.

    known : what was computed before
    """
    started = time.perf_counter()
    with warnings.catch_warnings():
        # What there is to remark about one outcome out of thousands is in its notes.
        warnings.simplefilter("ignore")
        try:
            rows = _fitted(sweep, outcome, known)
        except (MemoryError, OSError):
            raise  # of this machine at this moment: another try may succeed
        except Exception as error:
            nothing = {"feature": None, "selected": False, "notes": ""}
            rows = [{"outcome": outcome, "verdict": " ".join(f"{error}".split()) or type(error).__name__, **nothing}]
    return [row | {"seconds": time.perf_counter() - started} for row in rows]


def model_for(sweep: Sweep, outcome: str) -> BIP:
    """What is to be fitted to an outcome."""
    seed = seed_number("sweep", sweep.seed, outcome)
    prior = as_prior(sweep.model.prior).with_outcome(outcome)
    most = _most_features(sweep, outcome)
    if most is not None:
        prior = prior.limited_to(most)
    model: BIP = clone(sweep.model).set_params(prior=prior, random_state=seed, n_jobs=1, progress=False)
    return model


def _most_features(sweep: Sweep, outcome: str) -> int | None:
    """The size limit of an outcome that does without so many rows that the prior's would be too large; None otherwise.

    A limit that is too large for all rows is not mended here: the fit says so.
    """
    asked = as_prior(sweep.model.prior).max_size
    if asked is None or outcome not in sweep.source.perturbing:
        return None
    possible = sweep.source.largest_size(outcome)
    return possible if possible < asked <= sweep.source.moments.largest_size else None


def _fitted(sweep: Sweep, outcome: str, known: Found | None) -> Rows:
    model, most = model_for(sweep, outcome), _most_features(sweep, outcome)
    if known is None:
        moments, notes = sweep.source.moments_for(outcome)
    else:
        moments, notes = known.moments, sweep.source.left_out(outcome)
        model.set_params(engine=Precomputed(known.posterior))
    if most is not None:
        notes = (*notes, f"Subsets of at most {most} features, which is what the rows that are left allow.")
    decision = model.fit(moments).decision_
    of_all, findings = sweep.source.moments, decision.findings
    common = {*of_all.losses, *of_all.notes, *moments_notes(moments, findings.target.model)}
    said = [note for note in findings.posterior.notes if note not in common]
    return _rows(outcome, findings, decision.mask, sweep.top, " ".join((*notes, *said)))


def _rows(outcome: str, findings: Findings, selected: Mask, top: int | None, notes: str) -> Rows:
    """The `top` most probable features, and all that are selected (p,), by inclusion"""
    inclusion, names = findings.posterior.inclusion, findings.posterior.feature_names
    order = np.argsort(-inclusion, kind="stable")
    kept = selected.copy()
    kept[order[:top]] = True
    evidence = findings.judge.evidence(selected[None], elsewhere=False).one()
    predictive = vars(findings).get("predictive")  # computed for some rules only
    of_outcome = {
        "outcome": outcome,
        "verdict": _verdict(evidence.p_invariant, findings),
        "p_invariant": evidence.p_invariant,
        "r2": evidence.r2,
        "notes": notes,
    }
    return [
        {
            "feature": names[j],
            "inclusion": inclusion[j],
            "predictive": np.nan if predictive is None else predictive.inclusion[j],
            "selected": bool(selected[j]),
            **of_outcome,
        }
        for j in order[kept[order]]
    ]


def _verdict(p_invariant: float, findings: Findings) -> str:
    """Of the selected subset, in a word or two."""
    invariant, weakly_invariant, not_invariant, not_judged = VERDICTS
    if np.isnan(p_invariant):
        return not_judged
    if p_invariant >= findings.tolerance.level:
        return invariant
    return weakly_invariant if p_invariant >= findings.tolerance.lowest_level else not_invariant
