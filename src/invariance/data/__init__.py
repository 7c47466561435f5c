"""Tables in: one validated data set from several environments, and every complaint about bad input."""

from ..exceptions import DataError, DataWarning
from .checks import check_max_size, check_scale, check_spread, check_whole, largest_size
from .environments import Environments
from .multi_environment import MultiEnvironmentData
from .reading import read_table
from .settings import Columns, FileFormat
from .terms import spline

__all__ = [
    "Columns",
    "DataError",
    "DataWarning",
    "Environments",
    "FileFormat",
    "MultiEnvironmentData",
    "check_max_size",
    "check_scale",
    "check_spread",
    "check_whole",
    "largest_size",
    "read_table",
    "spline",
]
