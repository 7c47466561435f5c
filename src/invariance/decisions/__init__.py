"""From a posterior to what a person does: which features to use."""

from typing import TYPE_CHECKING

from .._tools.registry import on_first_use

if TYPE_CHECKING:
    from .decision import Decision
    from .rules import BestCompatible, Median, Mode, Threshold

__all__ = ["BestCompatible", "Decision", "Median", "Mode", "Threshold"]
_HOMES = {
    "BestCompatible": "rules",
    "Decision": "decision",
    "Median": "rules",
    "Mode": "rules",
    "Threshold": "rules",
}
__getattr__, __dir__ = on_first_use(__name__, _HOMES)
