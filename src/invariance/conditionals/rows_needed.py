"""Which models second moments are enough for."""

from __future__ import annotations

from .additive import Additive
from .base import Conditional
from .likelihood import ByLikelihood
from .regression import Regression


def needs_rows(conditional: Conditional) -> bool:
    """Whether a conditional of this package, which is not to be chosen by the outcome, needs all rows."""
    return isinstance(conditional, Regression | ByLikelihood | Additive)
