"""How different environments may be where a subset still counts as invariant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Self

from ..exceptions import SettingError


@dataclass(frozen=True)
class Tolerance:
    """A subset is compatible with invariance when its p-value for *approximate* invariance is at least `level`.

    delta : share of the residual variance that coefficients which differ between environments may explain
    tau : relative spread that the noise's standard deviation may have between environments
    level : smallest p-value of a compatible subset
    weak_level : the same where no subset reaches `level`: to say that none is invariant takes more evidence than to
        prefer one subset to another

    The defaults keep an invariant subset whose noise has heavy tails. `Tolerance.strict()` tests exact invariance.
    """

    delta: float = 0.02
    tau: float = 0.1
    level: float = 0.2
    weak_level: float = 0.02

    def __post_init__(self) -> None:
        for name in ("delta", "tau"):
            value = getattr(self, name)
            if not _is_number(value) or not 0.0 <= value < float("inf"):
                raise SettingError(f"{name}={value!r} is no tolerance: use a number from 0 on.")
        for name in ("level", "weak_level"):
            value = getattr(self, name)
            if not _is_number(value) or not 0.0 < value < 1.0:
                raise SettingError(f"{name}={value!r} is no level: use a number between 0 and 1.")

    @classmethod
    def strict(cls, level: float = 0.05) -> Self:
        """Exact invariance, rejected at this level."""
        return cls(0.0, 0.0, level, level)

    @property
    def lowest_level(self) -> float:
        """Below it a subset counts as rejected, whatever the others are like."""
        return min(self.level, self.weak_level)

    @property
    def weak(self) -> Self:
        """With the level that counts where no subset reaches the usual one."""
        return replace(self, level=self.lowest_level)

    @property
    def is_strict(self) -> bool:
        return self.delta == 0.0 and self.tau == 0.0

    def __str__(self) -> str:
        if self.is_strict:
            return f"exact invariance at level {self.level:g}"
        return f"invariance up to delta {self.delta:g}, tau {self.tau:g} at level {self.level:g}"

    def told_without_tau(self, what: str) -> str:
        """In words, for models in which `what`, such as "invariance of the mean", has no variance in it."""
        if self.delta == 0.0:
            return f"exact {what} at level {self.level:g}"
        return f"{what} up to delta {self.delta:g} at level {self.level:g}"


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
