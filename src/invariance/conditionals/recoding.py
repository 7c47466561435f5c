"""Specifications that make columns of their own from those of the data."""

from __future__ import annotations

from typing import Protocol, cast

from ..data.multi_environment import MultiEnvironmentData
from ..moments.moments import Moments
from .base import Conditional


class Recoding(Conditional, Protocol):
    """A specification that makes columns of its own from those of the data."""

    def prepared(self, data: MultiEnvironmentData | Moments) -> tuple[Conditional, MultiEnvironmentData]:
        """The specification that takes these columns as they are, and the data with them."""
        ...


def prepared(
    conditional: Conditional, data: MultiEnvironmentData | Moments
) -> tuple[Conditional, MultiEnvironmentData | Moments]:
    """What fits and predicts must share: the columns are made once, whatever rows are left out later."""
    return cast(Recoding, conditional).prepared(data) if hasattr(conditional, "prepared") else (conditional, data)
