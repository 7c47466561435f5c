"""The result of an engine: a posterior over subsets, its tables, texts and plots."""

from .posterior import Posterior, SubsetSource, table_order

__all__ = ["Posterior", "SubsetSource", "table_order"]
