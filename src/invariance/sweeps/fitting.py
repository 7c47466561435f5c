"""The fit of one outcome of a sweep, and the rows of its results."""

from __future__ import annotations

import copy
import time
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from .._tools.arrays import Fields, Names
from .._tools.parallel import seed_number
from ..decisions.decision import NO_LEVEL
from ..decisions.pipeline import (
    LARGEST_AT_EMPTY,
    Findings,
    FitSettings,
    asks_for_compatible,
    generator,
    moments_notes,
)
from ..decisions.rules import Rule, as_rule
from ..estimators.bip import BIP
from ..inference.base import RunOptions, as_engine
from ..inference.variational_device import Found
from ..models.base import Level
from ..models.registry import with_family_columns
from ..priors import as_prior
from .data import SweepData
from .edges import edge_p_values

# By how the p-value compares with the usual and the weak level, if baselines are shared and if they
# are free
_VERDICTS = ("invariant", "weakly invariant", "not invariant")
_OF_EFFECTS = ("effects invariant", "effects weakly invariant", "not invariant")
INVARIANT = *_VERDICTS[:2], *_OF_EFFECTS[:2]
VERDICTS = *INVARIANT, "not invariant", "not judged"
# Columns of the table of results
RESULT_COLUMNS = {
    "outcome": "str",
    "feature": "str",
    "inclusion": "float",
    "paper_inclusion": "float",
    "p_edge": "float",
    "selected": "bool",
    "verdict": "str",
    "level": "str",
    "p_invariant": "float",
    "r2": "float",
    "seconds": "float",
    "notes": "str",
}
# Of an outcome: {column: value} for each feature that is kept, and once, without a feature, where
# the fit failed
Rows = list[Fields]


@dataclass(frozen=True, eq=False)
class Sweep:
    """All that the result of an outcome depends on; it travels to the workers once. model : with
    the settings of every fit; top : features to keep of each, None for all; seed : of the sweep"""

    data: SweepData
    model: BIP
    top: int | None
    seed: int


def fit_outcome(sweep: Sweep, outcome: str, known: Found | None = None) -> Rows:
    """Fit one outcome; the result does not depend on place or order, except the seconds.

    An error becomes the verdict. known : results that were computed before, whose seconds count.
    """
    started = time.perf_counter()
    if known is not None:
        started -= known.posterior.diagnostics["seconds"]
    with warnings.catch_warnings():
        # What there is to remark about one outcome out of thousands is in its notes.
        warnings.simplefilter("ignore")
        try:
            rows = _fitted(sweep, outcome, known)
        except (MemoryError, OSError):
            raise  # of this machine at this moment: another try may succeed
        except Exception as error:
            rows = [
                {
                    "outcome": outcome,
                    "feature": None,
                    "selected": False,
                    "verdict": " ".join(f"{error}".split()) or type(error).__name__,
                    "level": NO_LEVEL,
                    "notes": "",
                }
            ]
    return [row | {"seconds": time.perf_counter() - started} for row in rows]


def model_for(sweep: Sweep, outcome: str) -> tuple[BIP, Names]:
    """Return the model of an outcome, and a note if it has its own size limit."""
    prior = as_prior(sweep.model.prior).with_outcome(outcome)
    notes: Names = ()
    if prior.max_size is not None and outcome in sweep.data.perturbing:
        possible = sweep.data.largest_size(outcome)
        # A limit that is too large for all rows is not mended here: the fit says so.
        if possible < prior.max_size <= sweep.data.moments.largest_size:
            prior = prior.limited_to(possible)
            notes = (
                f"Subsets of at most {possible} features, which is what the rows that are left "
                "allow.",
            )
    seed = seed_number("sweep", sweep.seed, outcome)
    model: BIP = clone(sweep.model).set_params(
        prior=prior, random_state=seed, n_jobs=1, progress=False
    )
    return model, notes


def _fitted(sweep: Sweep, outcome: str, known: Found | None) -> Rows:
    model, limited = model_for(sweep, outcome)
    if known is None:
        moments, notes = sweep.data.moments_for(outcome)
        # As `model.fit(moments)`, without what predicts and the words of a decision.
        rng = generator(model.random_state)
        family, data = with_family_columns(*model._family_for(moments))
        settings = FitSettings.of(model, copy.deepcopy(rng), family)
        findings = settings.findings(settings.target(data), False, rng)
        rule = settings.rule
    else:
        moments = sweep.data.moments
        notes = sweep.data.left_out(outcome)
        rng = generator(model.random_state).spawn(1)[0]
        engine = as_engine(model.engine)
        findings = Findings(known.target, known.posterior, engine, RunOptions(1, rng, False))
        rule = as_rule(model.select)
    of_all = sweep.data.moments
    full = findings.target.model.at_level(Level.full)
    common = {*of_all.losses, *of_all.notes, *moments_notes(moments, full), LARGEST_AT_EMPTY}
    said = [note for note in findings.posterior.notes if note not in common]
    # Only a rule that asks for the predictive posterior has searched for one.
    if asks_for_compatible(rule) and findings.predictive is None:
        said.append(
            "No subset is compatible with invariance: inclusion is that of the paper's posterior."
        )
    return _rows(outcome, findings, rule, sweep.top, " ".join((*notes, *limited, *said)))


def _rows(outcome: str, findings: Findings, rule: Rule, top: int | None, notes: str) -> Rows:
    """Return the `top` most probable features and all selected ones (p,), by inclusion."""
    selected = rule.select(findings)
    inclusion = findings.ranking(rule).inclusion
    names = findings.posterior.feature_names
    order = np.argsort(-inclusion, kind="stable")
    kept = selected.copy()
    kept[order[:top]] = True
    p_edge = edge_p_values(findings, inclusion)
    evidence = findings.judge.evidence(selected[None], elsewhere=False).one()
    tolerance = findings.tolerance
    levels = tolerance.level, tolerance.lowest_level
    rejections = sum(evidence.p_invariant < level for level in levels)
    words = _VERDICTS if findings.level is Level.full else _OF_EFFECTS
    verdict = VERDICTS[-1] if np.isnan(evidence.p_invariant) else words[rejections]
    level = str(findings.level) if verdict in INVARIANT else NO_LEVEL
    return [
        {
            "outcome": outcome,
            "feature": names[j],
            "inclusion": inclusion[j],
            "paper_inclusion": findings.posterior.inclusion[j],
            "p_edge": p_edge[j],
            "selected": bool(selected[j]),
            "verdict": verdict,
            "level": level,
            "p_invariant": evidence.p_invariant,
            "r2": evidence.r2,
            "notes": notes,
        }
        for j in order[kept[order]]
    ]
