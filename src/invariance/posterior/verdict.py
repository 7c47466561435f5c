"""Whether the most probable subset is invariant at all: the sentence that has to come before any probability."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._tools.arrays import Floats, Mask
from .._tools.layout import format_subset

if TYPE_CHECKING:
    from ..conditionals.base import BoundConditional

# A subset is far from invariant when an invariant one has so low a log ratio with at most this probability.
FAR_FROM_INVARIANT = 1e-9
CAUSES = (
    "Fits to these features do not account for how the environments differ: features may be missing, "
    "relations curved or tails heavy, or an environment may act on the outcome itself."
)


@dataclass(frozen=True)
class Verdict:
    """The most probable subset of a posterior is far from invariant; what is known of the others that it lists.

    log_ratio : log Λ of the most probable subset; expected : its mean if the subset were invariant
    tail_probability : that an invariant subset has a log ratio as low
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
        """The verdict in a few words."""
        if self.n_exceptions or self.n_judged == 1:
            return "the most probable subset does not look invariant"
        return f"none of the {self._judged} looks invariant"

    @property
    def sentence(self) -> str:
        """The verdict with its figures."""
        whose = "the most probable one has" if self.headline.startswith("none") else "it has"
        chance = format_tail(self.tail_probability)
        figures = (
            f"{self.headline}: {whose} log ratio {self.log_ratio:.1f}, where about {self.expected:.1f} is expected of "
            f"an invariant subset (tail probability {chance})."
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

    def to_plain(self) -> dict[str, Any]:
        """As values that JSON can hold."""
        return asdict(self) | {"exception": None if self.exception is None else list(self.exception)}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Self:
        missing = [field.name for field in fields(cls) if field.name not in values]
        if missing:
            raise ValueError(f"the verdict has no {', '.join(map(repr, missing))}")
        exception = values["exception"]
        return cls(
            log_ratio=float(values["log_ratio"]),
            expected=float(values["expected"]),
            tail_probability=float(values["tail_probability"]),
            n_judged=int(values["n_judged"]),
            all_judged=bool(values["all_judged"]),
            n_exceptions=int(values["n_exceptions"]),
            exception=None if exception is None else tuple(map(str, exception)),
        )


def format_tail(probability: float) -> str:
    return "below 1e-300" if probability < 1e-300 else f"{probability:.0e}"


def tail_probability(model: BoundConditional, mask: Mask, log_ratio: float) -> float:
    """That an invariant subset (p,) has a log ratio as low; 1 where the model cannot tell."""
    return float(model.invariance_tails(mask[None], np.array([log_ratio])).probability[0])


def verdict_of(model: BoundConditional, masks: Mask, log_ratios: Floats, n_subsets: int) -> Verdict | None:
    """The verdict on subsets (k, p) out of `n_subsets`, the most probable first; None where that may be invariant."""
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
