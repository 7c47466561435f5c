"""The fit of one outcome, and what is kept of it."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.base import clone

from .._tools.arrays import Floats, Mask
from .._tools.parallel import seed_number
from ..decisions.rules import Findings, moments_notes
from ..estimators.bip import BIP
from ..inference.base import Precomputed
from ..inference.variational_device import Found
from ..priors import as_prior
from .source import Source

VERDICTS = ("invariant", "weakly invariant", "not invariant", "not judged")


@dataclass(frozen=True, eq=False)
class Sweep:
    """All that the result of an outcome depends on; it travels to the workers once.

    model : with the settings of every fit; top : features to keep of each, None for all; seed : of the sweep
    """

    source: Source
    model: BIP
    top: int | None
    seed: int


@dataclass(frozen=True, eq=False)
class Entry:
    """What is kept of an outcome: k features, by inclusion; none where the fit failed, and `verdict` says why.

    features : k names; inclusion, predictive : (k,) probabilities in the paper's posterior and in that of compatible
    subsets, NaN where the rule does not ask for it; selected : (k,); p_invariant, r2 : of the selected subset
    """

    outcome: str
    verdict: str
    features: tuple[str, ...] = ()
    inclusion: Floats = field(default_factory=lambda: np.empty(0))
    predictive: Floats = field(default_factory=lambda: np.empty(0))
    selected: Mask = field(default_factory=lambda: np.empty(0, dtype=bool))
    p_invariant: float = np.nan
    r2: float = np.nan
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        return not self.features


def fit_outcome(sweep: Sweep, outcome: str, known: Found | None = None) -> Entry:
    """The same wherever and after whatever else it is done, but for the seconds. Complaints are its verdict.

    known : what was computed before
    """
    started = time.perf_counter()
    with warnings.catch_warnings():
        # What there is to remark about one outcome out of thousands is in its notes.
        warnings.simplefilter("ignore")
        try:
            entry = _fitted(sweep, outcome, known)
        except (MemoryError, OSError):
            raise  # of this machine at this moment: another try may succeed
        except Exception as error:
            entry = Entry(outcome, " ".join(f"{error}".split()) or type(error).__name__)
    return replace(entry, seconds=time.perf_counter() - started)


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


def _fitted(sweep: Sweep, outcome: str, known: Found | None) -> Entry:
    model = model_for(sweep, outcome)
    if known is None:
        moments, notes = sweep.source.moments_for(outcome)
    else:
        moments, notes = known.moments, sweep.source.left_out(outcome)
        model.set_params(engine=Precomputed(known.posterior))
    most = _most_features(sweep, outcome)
    if most is not None:
        notes = (*notes, f"Subsets of at most {most} features, which is what the rows that are left allow.")
    decision = model.fit(moments).decision_
    of_all = sweep.source.moments
    common = {*of_all.losses, *of_all.notes, *moments_notes(moments, decision.findings.target.model)}
    said = [note for note in decision.findings.posterior.notes if note not in common]
    return entry_of(outcome, decision.findings, decision.mask, sweep.top, (*notes, *said))


def entry_of(outcome: str, findings: Findings, selected: Mask, top: int | None, notes: tuple[str, ...] = ()) -> Entry:
    """What is kept of an outcome, however its posterior was found and the features selected (p,).

    Of the features the `top` most probable ones, and all that are selected.
    """
    inclusion = findings.posterior.inclusion
    kept = np.zeros(len(inclusion), dtype=bool)
    order = np.argsort(-inclusion, kind="stable")
    kept[order[:top]] = True
    order = order[(kept | selected)[order]]
    evidence = findings.judge.evidence(selected[None]).one()
    predictive = vars(findings).get("predictive")  # computed for some rules only
    return Entry(
        outcome,
        _verdict(evidence.p_invariant, findings),
        tuple(findings.posterior.feature_names[j] for j in order),
        inclusion[order],
        np.full(len(order), np.nan) if predictive is None else predictive.inclusion[order],
        selected[order],
        evidence.p_invariant,
        evidence.r2,
        notes,
    )


def _verdict(p_invariant: float, findings: Findings) -> str:
    """Of the selected subset, in a word or two."""
    invariant, weakly_invariant, not_invariant, not_judged = VERDICTS
    if np.isnan(p_invariant):
        return not_judged
    if p_invariant >= findings.tolerance.level:
        return invariant
    return weakly_invariant if p_invariant >= findings.tolerance.lowest_level else not_invariant
