"""From text to a prior: the forms that the command line accepts."""

from __future__ import annotations

import re

from ..exceptions import SettingError
from .base import Prior
from .registry import PRIORS
from .uniform import UniformPrior

PRIOR_FORMS = ", ".join(PRIORS.forms)
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"


def parse_prior(text: str, max_size: int | None) -> Prior:
    """The prior that a short text names: one of `PRIOR_FORMS`, with a number for each capital letter."""
    found = re.fullmatch(rf"([a-z-]+)\s*(?:\(\s*({_NUMBER}(?:\s*,\s*{_NUMBER})*)\s*\))?", text.strip().lower())
    if found is not None:
        numbers = [float(number) for number in (found[2] or "").split(",") if number]
        if (found[1], len(numbers)) in {_shape(form) for form in PRIORS.forms}:
            prior: Prior = PRIORS[found[1]](*numbers, max_size=max_size)
            return prior
    raise SettingError(
        f"cannot read the prior {text!r}; the accepted forms are {PRIOR_FORMS}, "
        "for example beta-binomial(1,3) or inclusion(0.1)"
    )


def as_prior(given: str | Prior | None) -> Prior:
    """The prior that is given, or that a text names; None is uniform over all subsets."""
    if given is None:
        return UniformPrior()
    if isinstance(given, str):
        return parse_prior(given, None)
    if not isinstance(given, Prior):
        raise SettingError(f"prior={given!r} is not a prior: use one such as UniformPrior(), or a text: {PRIOR_FORMS}.")
    return given


def _shape(form: str) -> tuple[str, int]:
    """The name that a form begins with, and how many numbers it takes."""
    name, _, arguments = form.partition("(")
    return name, len(re.findall("[A-Z]", arguments))
