"""A posterior in words: its reading and the sections of its summary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Names
from .._tools.sections import Rendered, Section
from .._tools.text import (
    COLUMNS,
    display_width,
    format_count,
    format_subset,
    name_labels,
    printable,
    subset_labels,
)

if TYPE_CHECKING:
    from .posterior import Posterior, SubsetEvidence

CAUSES = (
    "Fits to these features do not account for how the environments differ: features may be "
    "missing, "
    "relations curved or tails heavy, or an environment may act on the outcome itself."
)

# In place of the causes where the selection leaves baselines free and the posterior does not
COMPARES_BASELINES = "It compares baselines, too."


def format_probability(value: float) -> str:
    """Format with three decimals, as "<0.001" or ">0.999" if these would be 0 or 1."""
    text = f"{value:.3f}"
    return {"0.000": "<0.001", "1.000": ">0.999"}.get(text, text)


def format_p_value(value: float) -> str:
    """Format with three decimals, as "<0.001" below; 1 is not rounded."""
    return "–" if math.isnan(value) else "<0.001" if value < 5e-4 else f"{value:.3f}"


def format_small_p_value(value: float | None) -> str:
    """Format with three decimals, two digits below 0.001, and "–" if it was not tested."""
    if value is None or math.isnan(value) or value >= 0.001:
        return "–" if value is None else format_p_value(value)
    return "<1e-300" if value < 1e-300 else f"{value:.2g}"


def format_difference(evidence: SubsetEvidence) -> str:
    """Format the difference of coefficients between environments with its interval.

    "–" if it is not known.
    """
    if math.isnan(evidence.difference):
        return "–"
    estimate, *ends = map(
        format_percent, (evidence.difference, evidence.difference_low, evidence.difference_high)
    )
    return estimate if ends[0] == ">1000%" else f"{estimate} [{', '.join(ends)}]"


def format_percent(share: float) -> str:
    if share > 10.0:
        return ">1000%"
    return f"{share:.0%}" if share >= 0.0995 or share == 0.0 else f"{share:.1%}"


def format_share(value: float, digits: int = 3) -> str:
    """Format a share of the variance of the outcome, which may be negative."""
    return (
        "–" if math.isnan(value) else f"{value:z.{digits}f}" if abs(value) < 100 else f"{value:.0e}"
    )


def everywhere(posterior: Posterior) -> str:
    n = posterior.n_environments
    return "both environments" if n == 2 else f"all {n} environments"


def model_in_words(posterior: Posterior) -> str:
    """Return the model with the reason for it, if the outcome selected it."""
    return (
        f"{posterior.model} ({posterior.model_reason})"
        if posterior.model_reason
        else posterior.model
    )


MOST_FEATURES = 20
_MAX_ENVIRONMENTS_NAMED = 6
_DECIDED_FROM = 0.95  # inclusion probabilities from here on, and below one minus this
_EIGHTHS = " ▏▎▍▌▋▊▉"


def reading(posterior: Posterior, causes: str = CAUSES) -> str:
    """Describe the posterior in words; see `Posterior.reading`.

    causes : why the exact test may reject the mode.
    """
    return " ".join(_sentences(posterior, causes))


def _sentences(posterior: Posterior, causes: str) -> Iterator[str]:
    predictive = posterior.kind == "predictive"
    if posterior.n_environments == 1:
        those = "how well subsets predict, here" if predictive else "those of the prior"
        yield f"One environment cannot show invariance: the probabilities are {those}."
        yield "Add rows from at least one other environment."
        return
    if posterior.is_spread:
        among = (
            "Of the compatible subsets several may predict best"
            if predictive
            else "Several subsets are plausible"
        )
        yield f"{among}: {_leading(posterior)}."
        if posterior.entropy >= math.log(2.5):
            width = (
                format_count(round(math.exp(posterior.entropy)))
                if posterior.entropy < 700
                else "a huge number of"
            )
            yield f"The posterior is as wide as {width} equally probable subsets."
    else:
        yield _mode(posterior)
    order = np.argsort(-posterior.inclusion, kind="stable").tolist()
    undecided = [j for j in order if 1 - _DECIDED_FROM < posterior.inclusion[j] < _DECIDED_FROM]
    if undecided:
        names = posterior.feature_names
        chances = posterior.inclusion
        told = ", ".join(
            f"{printable(names[j])} ({format_probability(chances[j])})" for j in undecided[:6]
        )
        more = f", and {len(undecided) - 6:,} more" if len(undecided) > 6 else ""
        yield f"Undecided feature{'' if len(undecided) == 1 else 's'}: {told}{more}."
    if not predictive:
        yield from _exact_test(posterior, causes)


def _mode(posterior: Posterior) -> str:
    name = format_subset(posterior.mode)
    probability = format_probability(posterior.mode_probability)
    if posterior.kind != "predictive":
        return f"If one subset is exactly invariant, it is {name}, with probability {probability}."
    n = posterior.diagnostics.get("subsets_compatible")
    outcome = printable(posterior.outcome_name)
    if n == 1 and posterior.diagnostics.get("compatible_counted", True):
        return f"{name} alone is compatible with invariance."
    those = "compatible subsets"
    if n is not None and (
        n == posterior.n_subsets or posterior.diagnostics.get("compatible_counted", False)
    ):
        those = f"{format_count(n)} {those}"
    return (
        f"Of the {those}, {name} predicts {outcome} best for its price, with probability "
        f"{probability}."
    )


def _exact_test(posterior: Posterior, causes: str) -> Iterator[str]:
    """Yield the result of the exact test of the most probable subset, if it is known."""
    p_value = float(posterior.leading_evidence(1, elsewhere=False).p_exact[0])
    if math.isnan(p_value) or posterior.lowest_level is None:
        return
    exact = f"(exact p-value {format_small_p_value(p_value)})"
    if p_value >= posterior.lowest_level:
        yield f"The exact test does not reject {format_subset(posterior.mode)} {exact}."
    else:
        yield f"But the exact test rejects {format_subset(posterior.mode)} {exact}. {causes}"


def _leading(posterior: Posterior) -> str:
    """Return the mode, or the first subsets if these are close, with their probabilities."""
    shown = 3 if posterior.is_spread else 1
    labels = subset_labels([posterior.names_of(mask) for mask in posterior.masks[:shown]], 100)
    probabilities = np.exp(posterior.log_probabilities[:shown])
    return ", ".join(
        f"{label} ({format_probability(q)})" for label, q in zip(labels, probabilities, strict=True)
    )


@dataclass(frozen=True, eq=False, repr=False)
class Summary(Rendered):
    """Render the posterior with its `top` subsets."""

    posterior: Posterior
    top: int = 10

    @property
    def sections(self) -> Iterator[Section]:
        posterior = self.posterior
        title = "Posterior over compatible subsets, by prediction"
        if posterior.kind != "predictive":
            title = "The paper's posterior, over invariant subsets"
        yield Section(title, facts=tuple(_facts(posterior)), label_width=12)
        yield _inclusion(posterior)
        yield _subsets(posterior, self.top)
        yield Section("Reading", (reading(posterior),))
        if posterior.notes:
            yield Section("Notes", notes=tuple(f"- {note}" for note in posterior.notes))


def _facts(posterior: Posterior) -> Iterator[tuple[str, str]]:
    labels = name_labels(
        [str(label) for label in posterior.environments[:_MAX_ENVIRONMENTS_NAMED]], 24
    )
    shown = [
        f"{label} ({count:,})"
        for label, count in zip(labels, posterior.counts.tolist(), strict=False)
    ]
    if posterior.n_environments > len(shown):
        shown.append(f"and {posterior.n_environments - len(shown):,} more")
    subsets = f"{format_count(posterior.n_subsets)} in the support of the prior"
    compatible = (
        posterior.diagnostics.get("subsets_compatible") if posterior.kind == "predictive" else None
    )
    if compatible is not None and posterior.n_environments > 1:
        exactly = (
            posterior.diagnostics.get("compatible_counted", False)
            or compatible == posterior.n_subsets
        )
        subsets = (
            f"{'' if exactly else 'at least '}{format_count(compatible)} compatible of {subsets}"
        )
    yield "outcome", posterior.outcome_name
    yield "features", f"{posterior.n_features:,}"
    rows = f"{posterior.n_environments:,} with {int(posterior.counts.sum()):,} rows"
    yield "environments", f"{rows}: {', '.join(shown)}"
    yield "model", model_in_words(posterior)
    yield "subsets", subsets
    yield "engine", posterior.engine
    yield "prior", posterior.prior


def _inclusion(posterior: Posterior) -> Section:
    order = np.argsort(-posterior.inclusion, kind="stable")
    shown = order[:MOST_FEATURES]
    rest = order[MOST_FEATURES:]
    names = name_labels([posterior.feature_names[j] for j in shown], 38)
    values = [float(posterior.inclusion[j]) for j in shown]
    rows = tuple(
        (name, format_probability(q), bar(q, 30)) for name, q in zip(names, values, strict=True)
    )
    notes: Names = ()
    if len(rest):
        largest = format_probability(posterior.inclusion[rest[0]])
        notes = (
            f"… and {len(rest):,} more feature{'' if len(rest) == 1 else 's'} at {largest} or "
            "below",
        )
    whose = "" if posterior.kind == "predictive" else " in the paper's posterior"
    return Section(f"Inclusion probability{whose}", table=rows, notes=notes, text_columns=(0, 2))


def _subsets(posterior: Posterior, top: int) -> Section:
    """Return the table of subsets, with their evidence if environments can be compared."""
    probabilities = np.exp(posterior.log_probabilities[:top])
    evidence = posterior.leading_evidence(top, elsewhere=False)
    columns: dict[str, Iterable[str]] = {"prob.": map(format_probability, probabilities)}
    if posterior.kind != "predictive":
        ratios = posterior.log_ratios[:top]
        columns["log ratio"] = (
            f"{ratio:.2f}" if abs(ratio) < 1e6 else f"{ratio:.3g}" for ratio in ratios
        )
    if posterior.n_environments > 1 and not math.isnan(evidence.p_invariant[0]):
        columns["p_inv"] = map(format_p_value, evidence.p_invariant)
        columns["exact"] = map(format_small_p_value, evidence.p_exact)
        columns["differ by"] = [
            format_difference(evidence.one(row)) for row in range(len(probabilities))
        ]
        columns["R²"] = map(format_share, evidence.r2)
    figures = [tuple(columns), *zip(*columns.values(), strict=True)]
    taken = sum(2 + max(map(display_width, texts)) for texts in zip(*figures, strict=True))
    labels = subset_labels(
        [posterior.names_of(mask) for mask in posterior.masks[:top]], COLUMNS - 2 - taken
    )
    rows = tuple((*row, label) for row, label in zip(figures, ["subset", *labels], strict=True))
    return Section("Most probable subsets", table=rows, text_columns=(len(columns),))


def bar(value: float, width: int) -> str:
    """Return a bar of at most `width` characters for a value from 0 to 1, in steps of an eighth."""
    eighths = round(min(max(value, 0.0), 1.0) * width * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
