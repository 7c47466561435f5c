"""Small data sets whose truth is known."""

from .hospitals import make_example, make_new_hospital

__all__ = ["make_example", "make_new_hospital"]
