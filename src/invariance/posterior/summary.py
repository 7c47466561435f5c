"""A posterior in words, as text within 80 columns and as a small HTML fragment."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Floats, Mask
from .._tools.html import FAINT, FAINT_NUMBER, NUMBER, bar_cell, box, bullets, cell, paragraph, table, title
from .._tools.text import COLUMNS, display_width, format_subset, name_labels, printable, subset_labels, wrap

if TYPE_CHECKING:
    from ..models.base import BoundModel
    from .posterior import Posterior

# A subset is far from invariant when an invariant one has so low a log ratio with at most this probability.
FAR_FROM_INVARIANT = 1e-9
CAUSES = (
    "Fits to these features do not account for how the environments differ: features may be missing, "
    "relations curved or tails heavy, or an environment may act on the outcome itself."
)


@dataclass(frozen=True)
class Verdict:
    """The most probable subset of a posterior is far from invariant.

    log_ratio : log Λ of it; expected : its mean if the subset were invariant; tail_probability : of one as low then
    n_judged : how many of the most probable subsets were judged; all_judged : whether there are no more
    n_exceptions : how many of these are not far from invariant; exception : the most probable of them, or None
    """

    log_ratio: float
    expected: float
    tail_probability: float
    n_judged: int
    all_judged: bool
    n_exceptions: int
    exception: tuple[str, ...] | None

    @property
    def headline(self) -> str:
        if self.n_exceptions or self.n_judged == 1:
            return "the most probable subset does not look invariant"
        return f"none of the {self._judged} looks invariant"

    @property
    def sentence(self) -> str:
        """The headline with its figures."""
        whose = "the most probable one has" if self.headline.startswith("none") else "it has"
        figures = (
            f"{self.headline}: {whose} log ratio {self.log_ratio:.1f}, where about {self.expected:.1f} is expected of "
            f"an invariant subset (tail probability {format_tail(self.tail_probability)})."
        )
        if self.exception is None:
            return figures
        name, others = format_subset(self.exception), f"of the {self._judged}"
        if self.n_exceptions == 1:
            return f"{figures} One other {others} is not as far off: {name}."
        others = f"{self.n_exceptions:,} others {others} are not as far off"
        return f"{figures} {others}; {name} is the most probable of these."

    @property
    def _judged(self) -> str:
        return f"{self.n_judged:,} {'' if self.all_judged else 'most probable '}subsets"


def tail_probability(model: BoundModel, mask: Mask, log_ratio: float) -> float:
    """That an invariant subset (p,) has a log ratio as low; 1 where the model cannot tell."""
    return float(model.invariance_tails(mask[None], np.array([log_ratio])).probability[0])


def verdict_of(model: BoundModel, masks: Mask, log_ratios: Floats, n_subsets: int) -> Verdict | None:
    """On subsets (k, p) out of `n_subsets`, the most probable first; None where that may be invariant."""
    if log_ratios[0] == -np.inf:
        return None
    (expected,), (probability,) = model.invariance_tails(masks[:1], log_ratios[:1])
    if not probability <= FAR_FROM_INVARIANT:
        return None
    scored = np.flatnonzero(log_ratios > -np.inf)
    others = scored[1:]
    exceptions = others[model.invariance_tails(masks[others], log_ratios[others]).probability > FAR_FROM_INVARIANT]
    names = model.feature_names
    return Verdict(
        log_ratio=float(log_ratios[0]),
        expected=float(expected),
        tail_probability=float(probability),
        n_judged=len(scored),
        all_judged=len(scored) == n_subsets,
        n_exceptions=len(exceptions),
        exception=tuple(names[j] for j in np.flatnonzero(masks[exceptions[0]])) if len(exceptions) else None,
    )


def format_tail(probability: float) -> str:
    return "below 1e-300" if probability < 1e-300 else f"{probability:.0e}"


def format_probability(value: float) -> str:
    """Three decimals, and "<0.001" or ">0.999" where they would say 0 or 1."""
    text = f"{value:.3f}"
    return {"0.000": "<0.001", "1.000": ">0.999"}.get(text, text)


def format_p_value(value: float) -> str:
    """Three decimals, and "<0.001" below; 1 is no rounding here."""
    return "–" if math.isnan(value) else "<0.001" if value < 5e-4 else f"{value:.3f}"


def format_share(value: float) -> str:
    """A share of the outcome's variance, which may be negative."""
    return "–" if math.isnan(value) else f"{value:z.3f}" if abs(value) < 100 else f"{value:.0e}"


def format_count(n: int) -> str:
    """An integer with commas; from 10**12 on its order of magnitude, whatever its length."""
    if n < 10**12:
        return f"{n:,}"
    exponent = math.log10(n)
    return f"about {min(9.9, 10 ** (exponent % 1)):.1f}e{int(exponent)}"


def everywhere(posterior: Posterior) -> str:
    n = posterior.n_environments
    return "both environments" if n == 2 else f"all {n} environments"


def model_in_words(posterior: Posterior) -> str:
    """With the reason for it, where the outcome chose it."""
    return f"{posterior.model} ({posterior.model_reason})" if posterior.model_reason else posterior.model


MOST_FEATURES = 20
_MOST_ENVIRONMENTS = 6
# Inclusion probabilities from here on (and below one minus this) are called decided.
_DECIDED = 0.95
# Of a subset in a paragraph or on a page.
_LABEL_WIDTH = 100
_EIGHTHS = " ▏▎▍▌▋▊▉"


def reading(posterior: Posterior) -> str:
    """The posterior in words; see `Posterior.reading`."""
    predictive = posterior.kind == "predictive"
    if posterior.n_environments == 1 and predictive:
        return (
            "One environment cannot show invariance, so that every subset counts as compatible: the probabilities "
            "say how well subsets predict, here. Add rows from at least one other environment."
        )
    if posterior.n_environments == 1:
        return (
            "The posterior is the prior, because one environment cannot show invariance: every subset "
            "predicts the same way in all of it. Add rows from at least one other environment."
        )
    if posterior.verdict is not None:
        return " ".join(_failing_subsets(posterior, posterior.verdict))
    if posterior.is_spread:
        return " ".join([*_several_subsets(posterior), *_features(posterior)])
    first = _best_predictor(posterior) if predictive else _one_subset(posterior)
    return " ".join([first, *_features(posterior)])


def _sure(probability: float) -> str:
    return "almost certainly" if probability >= 0.95 else "very probably" if probability >= 0.8 else "probably"


def _best_predictor(posterior: Posterior) -> str:
    probability, outcome = posterior.mode_probability, printable(posterior.outcome_name)
    said = f"{_sure(probability)} (probability {format_probability(probability)})"
    among = f"among the subsets that are compatible with invariance in {everywhere(posterior)}"
    if not posterior.mode:
        return f"No feature is worth its price for predicting {outcome}, {said}, {among}: the empty subset comes first."
    return f"{format_subset(posterior.mode)} is the best predictor of {outcome}, {said}, {among}."


def _one_subset(posterior: Posterior) -> str:
    sure, outcome = _sure(posterior.mode_probability), printable(posterior.outcome_name)
    probability = f"(probability {format_probability(posterior.mode_probability)})"
    alike = f"in the same way in {everywhere(posterior)}"
    name = format_subset(posterior.mode) if posterior.mode else "empty"
    p_value = float(posterior.leading_evidence(1).p_invariant[0])
    if posterior.lowest_level is not None and p_value < posterior.lowest_level:
        how = f"it does not predict {outcome}" if posterior.mode else f"{outcome} itself does not behave"
        return (
            f"If a subset is invariant, it is {sure} {name} {probability}; but {how} {alike} "
            f"(p-value {format_p_value(p_value)}, and {posterior.lowest_level:g} is needed)."
        )
    how = f"it predicts {outcome}" if posterior.mode else f"{outcome} itself, without any feature, behaves"
    return f"The invariant subset is {sure} {name} {probability}: {how} {alike}."


def _failing_subsets(posterior: Posterior, verdict: Verdict) -> Iterator[str]:
    yield verdict.sentence[0].upper() + verdict.sentence[1:]
    if verdict.exception is None:
        yield CAUSES
        yield f"The probabilities only rank subsets that {'all ' if verdict.all_judged else ''}fail."
    else:
        yield "Its probability ranks it before others and does not make it invariant."
    yield f"First in rank: {_leading(posterior, _n_close(posterior) if posterior.is_spread else 1)}."


def _n_close(posterior: Posterior) -> int:
    """Number of subsets more than half as probable as the mode, itself included."""
    return int((posterior.log_probabilities > posterior.log_probabilities[0] + math.log(0.5)).sum())


def _several_subsets(posterior: Posterior) -> Iterator[str]:
    close = _n_close(posterior)
    if close > 1:
        alike = "explain the data about equally well"
        if posterior.kind == "predictive":
            outcome = printable(posterior.outcome_name)
            alike = f"that are compatible with invariance predict {outcome} about equally well"
        yield f"Several subsets {alike}: {_leading(posterior, close)}."
    else:
        opening = "Several subsets remain plausible, and none holds half of the probability"
        yield f"{opening}: {_leading(posterior, min(len(posterior.masks), 3))}."
    if posterior.entropy >= math.log(2.5):
        width = format_count(round(math.exp(posterior.entropy))) if posterior.entropy < 700 else "a huge number of"
        yield f"The posterior is as wide as {width} equally probable subsets."


def _leading(posterior: Posterior, count: int) -> str:
    """The first `count` subsets with their probabilities; from the sixth on only how many there are."""
    shown = min(count, 5)
    labels = subset_labels([posterior.names_of(mask) for mask in posterior.masks[:shown]], _LABEL_WIDTH)
    probabilities = np.exp(posterior.log_probabilities[:shown])
    listed = ", ".join(f"{label} ({format_probability(q)})" for label, q in zip(labels, probabilities, strict=True))
    open_ended = "at least " if count == len(posterior.masks) < posterior.n_subsets else ""
    return listed + (f", and {open_ended}{count - shown:,} more" if count > shown else "")


def _features(posterior: Posterior) -> Iterator[str]:
    """What is common to the plausible subsets, and what stays open."""
    inclusion, names = posterior.inclusion, posterior.feature_names
    order = np.argsort(-inclusion, kind="stable")
    certain = [names[j] for j in order if inclusion[j] >= _DECIDED]
    undecided = [j for j in order if 1 - _DECIDED < inclusion[j] < _DECIDED]
    if posterior.is_spread and certain:
        verb = "is" if len(certain) == 1 else "are"
        yield f"{format_subset(certain)[1:-1]} {verb} in nearly all of them (inclusion probability 0.95 or more)."
    if undecided:
        listed = ", ".join(f"{printable(names[j])} ({format_probability(inclusion[j])})" for j in undecided[:6])
        more = f", and {len(undecided) - 6:,} more" if len(undecided) > 6 else ""
        yield f"Undecided feature{'' if len(undecided) == 1 else 's'}: {listed}{more}."


class Summary:
    """The posterior with its `top` subsets; `str()` gives the text, notebooks show the HTML."""

    def __init__(self, posterior: Posterior, top: int = 10) -> None:
        self.posterior = posterior
        self.top = top

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    @property
    def _title(self) -> str:
        if self.posterior.kind == "predictive":
            return "Posterior over compatible subsets, by prediction"
        return "Posterior over invariant subsets"

    def _header(self) -> list[tuple[str, str]]:
        posterior, most = self.posterior, _MOST_ENVIRONMENTS
        n_environments = len(posterior.environments)
        labels = name_labels([str(label) for label in posterior.environments[:most]], 24)
        shown = [f"{label} ({count:,})" for label, count in zip(labels, posterior.counts.tolist(), strict=False)]
        if n_environments > most:
            shown.append(f"and {n_environments - most:,} more")
        subsets = f"{format_count(posterior.n_subsets)} in the support of the prior"
        compatible = posterior.diagnostics.get("subsets_compatible") if posterior.kind == "predictive" else None
        if compatible is not None:
            exactly = posterior.diagnostics.get("compatible_counted", False) or compatible == posterior.n_subsets
            subsets = f"{'' if exactly else 'at least '}{format_count(compatible)} compatible of {subsets}"
        rows = f"{int(posterior.counts.sum()):,} rows"
        return [
            *([] if posterior.verdict is None else [("verdict", posterior.verdict.headline)]),
            ("outcome", posterior.outcome_name),
            ("features", f"{posterior.n_features:,}"),
            ("environments", f"{n_environments:,} with {rows}: {', '.join(shown)}"),
            ("model", model_in_words(posterior)),
            ("subsets", subsets),
            ("engine", posterior.engine),
            ("prior", posterior.prior),
        ]

    def _features(self) -> tuple[list[tuple[str, float]], str | None]:
        """The leading features with their inclusion probabilities, and a line about the others."""
        inclusion = self.posterior.inclusion
        order = np.argsort(-inclusion, kind="stable")
        shown, rest = order[:MOST_FEATURES], order[MOST_FEATURES:]
        leading = [(self.posterior.feature_names[j], float(inclusion[j])) for j in shown]
        if not len(rest):
            return leading, None
        largest = format_probability(inclusion[rest[0]])
        bound = f"at {largest}" if largest.startswith("<") else f"at {largest} or below"
        return leading, f"… and {len(rest):,} more feature{'' if len(rest) == 1 else 's'} {bound}"

    def _subset_columns(self) -> dict[str, list[str]]:
        """{heading: text of each of the first subsets}, their evidence where environments can be compared"""
        posterior, top = self.posterior, self.top
        probabilities = np.exp(posterior.log_probabilities[:top])
        ratios = [f"{value:.2f}" if abs(value) < 1e6 else f"{value:.3g}" for value in posterior.log_ratios[:top]]
        columns = {
            "probability": [format_probability(value) for value in probabilities],
            "sum": [format_probability(value) for value in np.cumsum(probabilities)],
            "log ratio": ratios,
        }
        evidence = posterior.leading_evidence(top)
        if posterior.n_environments > 1 and not math.isnan(evidence.p_invariant[0]):
            columns["p_inv"] = [format_p_value(value) for value in evidence.p_invariant]
            columns["R²"] = [format_share(value) for value in evidence.r2]
        return columns

    def _lines(self) -> Iterator[str]:
        posterior = self.posterior
        yield self._title
        for label, value in self._header():
            yield from wrap(value, f"  {label:<14}", " " * 16)
        yield from ("", "Inclusion probability")
        features, remaining = self._features()
        names = name_labels([name for name, _ in features], 38)
        column = max(display_width(name) for name in names)
        for name, (_, probability) in zip(names, features, strict=True):
            padding = " " * (column - display_width(name))
            yield f"  {name}{padding}  {format_probability(probability):>6}  {bar(probability, 30)}".rstrip()
        if remaining is not None:
            yield f"  {remaining}"
        yield from ("", "Most probable subsets")
        columns = {name.replace("probability", "prob."): texts for name, texts in self._subset_columns().items()}
        widths = [10 if name == "log ratio" else 6 for name in columns]
        rows = [columns, *zip(*columns.values(), strict=True)]
        numbers = ["  " + "".join(f"{text:>{n}}  " for text, n in zip(row, widths, strict=True)) for row in rows]
        subsets = [posterior.names_of(mask) for mask in posterior.masks[: self.top]]
        labels = subset_labels(subsets, COLUMNS - max(map(len, numbers[1:])))
        yield from (row + label for row, label in zip(numbers, ["subset", *labels], strict=True))
        yield from ("", "Reading")
        yield from wrap(reading(posterior), "  ", "  ")
        if posterior.notes:
            yield from ("", "Notes")
            for note in posterior.notes:
                yield from wrap(note, "  - ", "    ")

    def _repr_html_(self) -> str:
        posterior = self.posterior
        leading, remaining = self._features()
        labels = name_labels([name for name, _ in leading], 48)
        features = [
            cell(label, hover=name) + cell(format_probability(value), NUMBER) + bar_cell(value)
            for label, (name, value) in zip(labels, leading, strict=True)
        ]
        if remaining is not None:
            features.append(cell(remaining, FAINT))
        columns = self._subset_columns()
        subsets = ["".join(cell(heading, FAINT_NUMBER) for heading in columns) + cell("subset", FAINT)]
        members = [posterior.names_of(mask) for mask in posterior.masks[: self.top]]
        for row, (names, label) in enumerate(zip(members, subset_labels(members, _LABEL_WIDTH), strict=True)):
            numbers = "".join(cell(texts[row], NUMBER) for texts in columns.values())
            subsets.append(numbers + cell(label, hover=format_subset(names, limit=100)))
        parts = [
            title(self._title),
            table(cell(label, FAINT) + cell(value) for label, value in self._header()),
            title("Inclusion probability"),
            table(features),
            title("Most probable subsets"),
            table(subsets),
            title("Reading"),
            paragraph(reading(posterior)),
        ]
        if posterior.notes:
            parts += [title("Notes"), bullets(posterior.notes)]
        return box(parts)


def bar(value: float, width: int) -> str:
    """A bar of at most `width` characters for a value between 0 and 1, in steps of an eighth."""
    eighths = round(min(max(value, 0.0), 1.0) * width * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
