"""Several methods on one data set, side by side, as a table, in words and as a picture."""

from .comparison import METHODS, Comparison, MethodResult, compare, named_methods

__all__ = ["METHODS", "Comparison", "MethodResult", "compare", "named_methods"]
