"""The result: a posterior over subsets, its tables, words and pictures. Knows nothing of engines."""

from ..exceptions import PosteriorError
from .posterior import Posterior, SubsetSource, table_order

__all__ = ["Posterior", "PosteriorError", "SubsetSource", "table_order"]
