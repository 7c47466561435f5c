"""Data sets: small ones whose truth is known, and readers of published ones."""

from typing import TYPE_CHECKING

from .._tools.registry import on_first_use

if TYPE_CHECKING:
    from .hospitals import make_example, make_new_hospital
    from .yeast import load_yeast
    from .yeast_panels import YeastPanel, load_yeast_panels

__all__ = ["YeastPanel", "load_yeast", "load_yeast_panels", "make_example", "make_new_hospital"]
__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "YeastPanel": "yeast_panels",
        "load_yeast": "yeast",
        "load_yeast_panels": "yeast_panels",
        "make_example": "hospitals",
        "make_new_hospital": "hospitals",
    },
)
