"""The subsets that are compatible with invariance, and those that are most probable in the paper's posterior."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._tools.arrays import Mask
from .._tools.layout import printable
from ..decisions.decision import Decision
from ..posterior.posterior import Posterior
from ..posterior.summary import format_count
from .numbers import numbers, p_value, probability, share
from .parts import Cell, Column, Heading, Part, Table, prose, table
from .pictures import frontier_picture, subsets_picture
from .subject import Subject

_TOP = 15
_EVIDENCE = (
    Column("log Λ", hint="how invariant it is: see the methods below"),
    Column("p_inv", hint="p-value of invariance, by the test that the methods below state"),
    Column("R² elsewhere", hint="in environments that the fit has not seen, where that is known"),
)


def subset_parts(subject: Subject) -> Iterator[Part]:
    decision, predictive, several = subject.decision, subject.predictive, subject.posterior.n_environments > 1
    yield Heading("Compatible with invariance, by prediction" if several else "By prediction")
    if predictive is None:
        yield from prose([f"No subset{decision.findings.allowed} is compatible with invariance."])
    else:
        yield subsets_picture(decision)
        which = "Compatible subsets" if several else "Subsets"
        yield _table(f"{which}, the best predictor first", predictive, subject, _counted(decision))
    if several:
        yield frontier_picture(decision)
    yield Heading("By invariance alone")
    if not several:
        yield from prose(["One environment says nothing about invariance: the paper's posterior is the prior."])
        return
    yield from prose(["The paper's posterior weighs subsets by their invariance and the prior, not by prediction."])
    n = format_count(subject.posterior.n_subsets)
    yield _table("Most probable invariant subsets", subject.posterior, subject, n)


def _table(caption: str, posterior: Posterior, subject: Subject, counted: str) -> Table:
    masks = posterior.masks[:_TOP]
    evidence, sizes = posterior.leading_evidence(len(masks)), masks.sum(axis=1)
    columns = {
        Column("Subset", number=False): [_members(subject, posterior, mask) for mask in masks],
        Column("Features"): [Cell(f"{n:,}", n) for n in sizes.tolist()],
        Column("Probability"): map(probability, np.exp(posterior.log_probabilities)),
        Column("R²", hint="share of the outcome's variance that the fit to all rows explains, by its likelihood"): map(
            share, evidence.r2
        ),
    }
    if posterior.n_environments > 1:
        found = numbers(posterior.log_ratios[:_TOP]), map(p_value, evidence.p_invariant), map(share, evidence.r2_new)
        kept = len(_EVIDENCE) if np.isfinite(evidence.r2_new).any() else len(_EVIDENCE) - 1
        columns |= dict(zip(_EVIDENCE[:kept], found, strict=False))
    rows = zip(*columns.values(), strict=False)
    return table(caption, columns, rows, f"The selected subset is set in bold. {_shown(len(masks), counted)}")


def _shown(n: int, counted: str) -> str:
    if counted == f"{n:,}":
        return "All are shown."
    if counted == f"at least {n:,}":
        return "All that were found are shown; there may be others."
    return f"Shown {'is' if n == 1 else 'are'} {n:,} of {counted}."


def _counted(decision: Decision) -> str:
    n = format_count(decision.compatible.n)
    return n if decision.compatible.all_scored else f"at least {n}"


def _members(subject: Subject, posterior: Posterior, mask: Mask) -> Cell:
    held = [printable(posterior.feature_names[j]) for j in np.flatnonzero(mask)]
    return Cell("{" + ", ".join(held) + "}", mark="strong" if (mask == subject.decision.mask).all() else "")
