"""All sections of a report, in their order."""

from __future__ import annotations

from collections.abc import Iterator

from .._tools.layout import format_subset, printable
from .answer import answer_parts, state
from .coefficients import coefficient_parts
from .comparing import comparison_parts
from .environments import environment_parts
from .features import feature_parts
from .glance import glance_parts
from .methods import method_parts
from .parts import Contents, Section
from .subject import Subject
from .subsets import subset_parts


def contents_of(subject: Subject) -> Contents:
    outcome = printable(subject.posterior.outcome_name)
    title = f"What predicts {outcome} alike in every environment?"
    lead = f"{format_subset(subject.decision.selected)}: {state(subject.decision)[1]}"
    return Contents(title, lead, tuple(_sections(subject)))


def _sections(subject: Subject) -> Iterator[Section]:
    yield Section("answer", "The answer", tuple(answer_parts(subject)))
    yield Section("data", "The question and the data", tuple(glance_parts(subject)))
    yield Section("features", "Feature by feature", tuple(feature_parts(subject)))
    yield Section("subsets-of-features", "Subsets", tuple(subset_parts(subject)))
    yield Section("by-environment", "Coefficients by environment", tuple(coefficient_parts(subject)))
    yield Section("diagnosis", "Residuals and environments", tuple(environment_parts(subject)))
    if subject.comparison is not None:
        yield Section("comparison", "Other methods", tuple(comparison_parts(subject.comparison)))
    yield Section("methods", "How it was made", tuple(method_parts(subject)))
