"""The verdict and the answer in plain sentences, with their caveats."""

from __future__ import annotations

from collections.abc import Iterator

from .._tools.layout import format_subset, printable
from ..conditionals.compared import VARIANCE
from ..decisions.decision import Decision
from ..decisions.words import UNCHALLENGED, header
from ..posterior.summary import reading
from ..posterior.verdict import CAUSES
from .parts import Callout, Facts, Heading, Part, prose
from .subject import Subject

_LABELS = {"selected": "Selected", "compatible": "Compatible subsets", "mode": "Most probable subset", "rule": "Rule"}
_CAVEATS = ("caution", "noise", "limit")
_UNCHALLENGED_ALL = (
    "Never challenged: no environment shifts any of them, given the others selected. The data could not have shown "
    "one of them to be a decoy."
)


def answer_parts(subject: Subject) -> Iterator[Part]:
    decision, worded = subject.decision, subject.source.worded
    tone, label = state(decision)
    yield Callout(tone, label, worded(decision.verdict))
    said = [(name, worded(text)) for name, text in header(decision)]
    yield Facts(tuple((_LABELS[name], text) for name, text in said if name in _LABELS))
    yield Heading("How sure this is")
    yield from prose(_readings(subject))
    yield Heading("Caveats")
    yield from prose([*(_sentence(text) for name, text in said if name in _CAVEATS), *_caveats(decision)], points=True)


def state(decision: Decision) -> tuple[str, str]:
    """The tone of the verdict, and the same in words."""
    if decision.findings.posterior.n_environments == 1:
        return "open", "Cannot be told: one environment cannot show invariance"
    if not decision.judged:
        return "open", "Cannot be told: the rows cannot judge the selected features"
    if decision.is_compatible:
        return "good", "Compatible with invariance"
    return ("open", "Open") if decision.invariant else ("bad", "Not compatible with invariance")


def _readings(subject: Subject) -> Iterator[str]:
    if subject.predictive is not None:
        among = ", among compatible subsets" if subject.posterior.n_environments > 1 else ""
        yield f"By prediction{among}. {reading(subject.predictive)}"
    yield f"By invariance alone, as in the paper. {reading(subject.posterior)}"
    yield _why_they_differ(subject)


def _why_they_differ(subject: Subject) -> str:
    """Where the paper's posterior calls nothing invariant and the selection is compatible with invariance."""
    decision = subject.decision
    if subject.posterior.verdict is None or not decision.is_compatible:
        return ""
    judged_by = decision.findings.judge.model.judged_by(decision.accepted)
    normal = ", and takes the noise as normal" if VARIANCE in decision.findings.target.model.compares else ""
    return (
        f"The two differ because they ask differently: subsets are compatible by a test of {judged_by}, and the "
        f"paper's posterior weighs a likelihood ratio that tolerates no difference{normal}."
    )


def _caveats(decision: Decision) -> Iterator[str]:
    unmoved = [feature.name for feature in decision.features if feature.never_challenged]
    if unmoved:
        said = UNCHALLENGED if len(unmoved) == 1 else _UNCHALLENGED_ALL
        yield f"{format_subset(unmoved)}: {said[0].lower()}{said[1:]}"
    if decision.findings.posterior.n_environments > 1:
        yield (
            "Compatible means that the data do not speak against invariance, by the test that the methods below state: "
            "no proof. With few rows, or environments that hardly differ, much is compatible."
        )
        if not decision.compatible.n and CAUSES not in reading(decision.findings.posterior):
            yield CAUSES
        yield "Only the environments at hand were compared: a new one may differ in ways that none of them does."
    yield (
        f"That features predict {printable(decision.findings.posterior.outcome_name)} alike everywhere does not by "
        "itself make them causes: a cause that was not measured, or environments that act on the outcome itself, can "
        "mislead."
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
