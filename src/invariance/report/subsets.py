"""The subsets that are compatible with invariance, and those that are most probable in the paper's posterior."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

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
    Column("p_inv", hint="p-value of approximate invariance"),
    Column(
        "R²",
        hint="share of the outcome's variance that the fit to all rows explains, by its likelihood",
    ),
    Column("R² elsewhere", hint="in environments that the fit has not seen, where that is known"),
)


def subset_parts(subject: Subject) -> Iterator[Part]:
    decision, predictive = subject.decision, subject.predictive
    yield Heading("Compatible with invariance, by prediction")
    if predictive is None:
        yield from prose(["No subset is compatible with invariance."])
    else:
        yield subsets_picture(decision)
        yield _table("Compatible subsets, the best predictor first", predictive, subject, _counted(decision))
    if subject.posterior.n_environments > 1:
        yield frontier_picture(decision)
    yield Heading("By invariance alone")
    yield from prose(
        ["The posterior of the paper weighs subsets by their invariance and the prior, not by prediction."]
    )
    yield _table(
        "Most probable invariant subsets", subject.posterior, subject, format_count(subject.posterior.n_subsets)
    )


def _table(caption: str, posterior: Posterior, subject: Subject, counted: str) -> Table:
    masks = posterior.masks[:_TOP]
    evidence, chances = posterior.leading_evidence(len(masks)), np.exp(posterior.log_probabilities[: len(masks)])
    ratios = numbers(posterior.log_ratios[: len(masks)])
    columns = [Column("Subset", number=False), Column("Features"), Column("Probability"), Column("log Λ")]
    figures = zip(evidence.p_invariant, evidence.r2, evidence.r2_new, strict=True)
    rows = (
        [
            Cell(_members(posterior, mask), None, "strong" if (mask == subject.decision.mask).all() else ""),
            Cell(f"{mask.sum():,}", int(mask.sum())),
            probability(chance),
            ratio,
            p_value(p),
            share(r2),
            share(elsewhere),
        ]
        for mask, chance, ratio, (p, r2, elsewhere) in zip(masks, chances, ratios, figures, strict=True)
    )
    more = f"The selected subset is set in bold. Shown are {len(masks):,} of {counted}."
    return table(caption, [*columns, *_EVIDENCE], rows, more)


def _counted(decision: Decision) -> str:
    n = format_count(decision.compatible.n)
    return n if decision.compatible.all_scored else f"at least {n}"


def _members(posterior: Posterior, mask: np.ndarray) -> str:
    held = [printable(posterior.feature_names[j]) for j in np.flatnonzero(mask)]
    return "{" + ", ".join(held) + "}"
