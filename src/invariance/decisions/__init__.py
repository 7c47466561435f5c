"""From a posterior to what a person does: which features to use."""

from typing import TYPE_CHECKING

from .._tools.lazy import on_first_use

if TYPE_CHECKING:
    from .best_compatible import BestCompatible
    from .median import Median
    from .mode import Mode
    from .threshold import Threshold

__all__ = ["BestCompatible", "Median", "Mode", "Threshold"]
__getattr__, __dir__ = on_first_use(
    __name__, {"BestCompatible": "best_compatible", "Median": "median", "Mode": "mode", "Threshold": "threshold"}
)
