"""What the predictions of a model are."""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class Predicts(StrEnum):
    """number : the outcome itself; probability : of the second of two classes; rate : events per unit of exposure;
    time : until an event that may be censored"""

    number = "number"
    probability = "probability"
    rate = "rate"
    time = "time"


def predicts_of(conditional: Any) -> Predicts:
    """What a specification declares as `predicts`; without that it is a number."""
    return Predicts(getattr(conditional, "predicts", Predicts.number))
