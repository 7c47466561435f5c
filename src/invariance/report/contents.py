"""All sections of a report, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .._tools.layout import format_subset, printable
from .._tools.progress import ProgressBar, ProgressMode
from .answer import answer_parts, state
from .coefficients import coefficient_parts
from .comparing import comparison_parts
from .environments import environment_parts
from .features import feature_parts
from .glance import glance_parts
from .methods import method_parts
from .parts import Contents, Part, Section
from .subject import Subject
from .subsets import subset_parts

Parts = Callable[[Subject], Iterable[Part]]
# (anchor, title, parts) in the order of the page
SECTIONS: tuple[tuple[str, str, Parts], ...] = (
    ("answer", "The answer", answer_parts),
    ("data", "The question and the data", glance_parts),
    ("features", "Feature by feature", feature_parts),
    ("subsets", "Subsets", subset_parts),
    ("coefficients", "Coefficients by environment", coefficient_parts),
    ("environments", "Residuals and environments", environment_parts),
    ("comparison", "Other methods", comparison_parts),
    ("methods", "How it was made", method_parts),
)


def contents_of(subject: Subject, progress: ProgressMode = False) -> Contents:
    """All that a page says. Sections that have nothing to say are left out."""
    outcome = printable(subject.posterior.outcome_name)
    title = f"What predicts {outcome} alike in every environment?"
    lead = f"{format_subset(subject.decision.selected, 100)}: {state(subject.decision)[1]}"
    sections = []
    with ProgressBar("report", len(SECTIONS), progress, meanwhile="drawing pictures") as bar:
        for anchor, heading, parts in SECTIONS:
            sections.append(Section(anchor, heading, tuple(parts(subject))))
            bar.advance()
    return Contents(title, lead, tuple(section for section in sections if section.parts))
