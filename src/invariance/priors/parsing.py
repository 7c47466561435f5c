"""From text to a prior: the forms that the command line accepts."""

from __future__ import annotations

import re

from ..exceptions import SettingError
from .base import Prior
from .beta_binomial import BetaBinomialPrior
from .inclusion import InclusionPrior
from .uniform import UniformPrior

PRIOR_FORMS = "uniform, beta-binomial, beta-binomial(A,B), inclusion(Q)"


def parse_prior(text: str, max_size: int | None) -> Prior:
    """The prior that a short text names: one of `PRIOR_FORMS`, with numbers for A, B and Q."""
    number = r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*"
    plain = text.strip().lower()
    if plain == "uniform":
        return UniformPrior(max_size)
    if plain == "beta-binomial":
        return BetaBinomialPrior(max_size=max_size)
    if match := re.fullmatch(rf"beta-binomial\s*\({number},{number}\)", plain):
        return BetaBinomialPrior(float(match[1]), float(match[2]), max_size)
    if match := re.fullmatch(rf"inclusion\s*\({number}\)", plain):
        return InclusionPrior(float(match[1]), max_size)
    raise SettingError(
        f"cannot read the prior {text!r}; the accepted forms are {PRIOR_FORMS}, "
        "for example beta-binomial(1,3) or inclusion(0.1)"
    )
