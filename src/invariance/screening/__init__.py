"""Fewer features first: the Lasso screen on pooled rows."""

from .lasso_screen import LassoScreen, Screening

__all__ = ["LassoScreen", "Screening"]
