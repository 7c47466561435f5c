"""The result: a posterior over subsets, its tables, words and pictures. Knows nothing of
engines."""

from .posterior import Posterior, SubsetSource, table_order

__all__ = ["Posterior", "SubsetSource", "table_order"]
