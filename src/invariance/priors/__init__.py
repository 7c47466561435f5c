"""Priors over subsets of features: stated without data, then bound to the features at hand.

`UniformPrior`, `InclusionPrior` and `BetaBinomialPrior` say what is believed; `bind` ties one of them to the
features at hand and gives a `BoundPrior`, which computes.
"""

from typing import TYPE_CHECKING

from .._tools.registry import on_first_use

if TYPE_CHECKING:
    from .base import BoundPrior, Prior
    from .priors import PRIOR_FORMS, BetaBinomialPrior, InclusionPrior, UniformPrior, parse_prior

__all__ = [
    "PRIOR_FORMS",
    "BetaBinomialPrior",
    "BoundPrior",
    "InclusionPrior",
    "Prior",
    "UniformPrior",
    "parse_prior",
]
__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "BetaBinomialPrior": "priors",
        "BoundPrior": "base",
        "InclusionPrior": "priors",
        "PRIOR_FORMS": "priors",
        "Prior": "base",
        "UniformPrior": "priors",
        "parse_prior": "priors",
    },
)
