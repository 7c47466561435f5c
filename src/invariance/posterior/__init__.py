"""The result: a posterior over subsets, its tables, words and pictures. Knows nothing of engines."""

from ..exceptions import PosteriorError
from .arrays import table_order
from .posterior import Posterior, SubsetSource

__all__ = ["Posterior", "PosteriorError", "SubsetSource", "table_order"]
