"""Priors over subsets of features: stated without data; `bind` ties one to the features at hand."""

from .base import BoundPrior, Prior
from .priors import BetaBinomialPrior, InclusionPrior, UniformPrior

__all__ = ["BetaBinomialPrior", "BoundPrior", "InclusionPrior", "Prior", "UniformPrior"]
