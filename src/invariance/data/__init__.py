"""Tables in: one validated data set from several environments, and every complaint about bad
input."""

from .multi_environment import MultiEnvironmentData
from .reading import read_table
from .settings import Columns, Environments, FileFormat
from .terms import spline

__all__ = ["Columns", "Environments", "FileFormat", "MultiEnvironmentData", "read_table", "spline"]
