"""What was found in environments that were left out, for people to read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.layout import COLUMNS, display_width, name_labels, printable
from ..conditionals.predicts import Predicts
from ..decisions.diagnosis_text import Section, html_of, text_of
from .calibration import FIGURES
from .new_environments import LeftOut, NewEnvironments
from .outcome import PredictedOutcome

if TYPE_CHECKING:
    import pandas as pd

_HEADS = {"r2": "R²", "brier": "Brier", "log_loss": "log loss", "auc": "AUC", "deviance_explained": "explained"}
# What the text has no room for.
_NOT_TOLD = frozenset({"log_loss"})
_LONGEST_LABEL = 20
_SCALES = {Predicts.probability: "log odds", Predicts.rate: "logarithms of rates"}


@dataclass(frozen=True, eq=False, repr=False)
class LeftOutReport:
    """How predictions did in environments that were left out, each in turn, from the selection and from the fit.

    `str()` tells it within 80 columns, notebooks show it as HTML; `to_frame()` and `to_plain()` hold the figures, which
    `invariance.prediction.calibration.figures_of` explains.
    """

    outcome: PredictedOutcome
    found: NewEnvironments

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        return self.found.left_out

    def to_frame(self) -> pd.DataFrame:
        """One row for each environment that was left out: its label, rows, figures, and what was selected then."""
        import pandas as pd

        columns = ["environment", "rows", *FIGURES[self.outcome.predicts], "features"]
        rows = [
            {"environment": left.environment, "rows": left.rows, **left.figures, "features": left.features}
            for left in self.left_out
        ]
        return pd.DataFrame(rows, columns=columns)

    def to_plain(self) -> dict[str, Any]:
        """As values that JSON can hold; numbers that are not known are None."""
        classes = self.outcome.classes
        return {
            "outcome": self.outcome.name,
            "predicts": self.outcome.predicts.value,
            "classes": None if classes is None else [str(label) for label in classes],
            "exposure": self.outcome.exposure,
            "environments": [
                {
                    "environment": str(left.environment),
                    "rows": left.rows,
                    "features": list(left.features),
                    **{name: None if np.isnan(value) else value for name, value in left.figures.items()},
                }
                for left in self.left_out
            ],
            "not_left_out": [str(label) for label in self.found.impossible],
        }

    def __str__(self) -> str:
        return text_of([self._section()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_of([self._section()])

    def _section(self) -> Section:
        title = f"New environments: {printable(self.outcome.in_words)}"
        told = bool(self.left_out and FIGURES[self.outcome.predicts])
        return Section(title, tuple(self._sentences()), self._table() if told else ())

    def _table(self) -> tuple[tuple[str, ...], ...]:
        names = [name for name in FIGURES[self.outcome.predicts] if name not in _NOT_TOLD]
        head = ("rows", *(_HEADS.get(name, name) for name in names))
        digits = dict.fromkeys(names, ".4g" if self.outcome.predicts is Predicts.number else ".3f")
        digits |= {"intercept": "+.3f"}
        cells = [
            (f"{left.rows:,}", *(_cell(left.figures[name], digits[name]) for name in names)) for left in self.left_out
        ]
        taken = sum(2 + max(map(display_width, column)) for column in zip(head, *cells, strict=True))
        width = max(min(_LONGEST_LABEL, COLUMNS - 2 - taken), len("environment"))
        labels = name_labels([str(left.environment) for left in self.left_out], width)
        return (("environment", *head), *((label, *row) for label, row in zip(labels, cells, strict=True)))

    def _sentences(self) -> Iterator[str]:
        limit, _ = self.found.limits()
        if limit:
            yield f"{limit[:1].upper()}{limit[1:]}."
        if not self.left_out:
            return
        if not FIGURES[self.outcome.predicts]:
            yield "Predictions are not compared with times that may be censored."
            return
        yield "Each environment is predicted by what was selected and fitted without it."
        yield from self._farthest()
        scale = _SCALES.get(self.outcome.predicts)
        if scale is not None:
            yield (
                f"Intercept: what is missing in all {scale} (0 where predictions are right on average). Slope: by what "
                f"{scale} are to be multiplied (1 where they are right, less where predictions are too extreme)."
            )

    def _farthest(self) -> Iterator[str]:
        """Where the mean is farthest from what is predicted."""
        known = [left for left in self.left_out if not np.isnan(left.figures.get("predicted", np.nan))]
        if known:
            worst = max(known, key=lambda left: abs(left.figures["observed"] - left.figures["predicted"]))
            observed, predicted = worst.figures["observed"], worst.figures["predicted"]
            told = f"{observed:.3g} observed, {predicted:.3g} predicted"
            yield f"The mean is farthest off in {worst.environment!r}: {told}."


def _cell(value: float, digits: str) -> str:
    """Without the sign of what rounds to 0; "–" where nothing is known."""
    return "–" if np.isnan(value) else format(float(format(value, digits)) + 0.0, digits)
