"""What a linear model needs of the rows: centred second moments per environment and pooled."""

from .moments import Moments

__all__ = ["Moments"]
