"""Tables in: one validated data set from several environments, and every complaint about bad
input."""

from .basis import spline
from .multi_environment import MultiEnvironmentData
from .reading import read_table
from .settings import Columns, Environments, FileFormat

__all__ = ["Columns", "Environments", "FileFormat", "MultiEnvironmentData", "read_table", "spline"]
