"""What a report asks of a comparison of methods, which is made by who stands above it: `invariance.compare`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class ComparedMethod(Protocol):
    """What one method said; see `invariance.compare`."""

    @property
    def name(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def selected(self) -> Any: ...
    @property
    def status(self) -> Any: ...
    @property
    def evidence(self) -> tuple[str, Any] | None: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def verdict(self) -> str | None: ...
    @property
    def pooled(self) -> bool: ...
    @property
    def as_number(self) -> bool: ...


class Compared(Protocol):
    """What `invariance.compare` returns."""

    @property
    def feature_names(self) -> tuple[str, ...]: ...
    @property
    def outcome_name(self) -> str: ...
    @property
    def methods(self) -> Sequence[ComparedMethod]: ...
