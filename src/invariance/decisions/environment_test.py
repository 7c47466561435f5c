"""One environment against all others."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from .deviation import Deviation


@dataclass(frozen=True)
class EnvironmentTest:
    """One environment against the rows of all others together; deviation is None where the fits cannot be decided."""

    environment: Hashable
    rows: int
    deviation: Deviation | None
