"""What commands that take a table make of their options: the data, and the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .names import read_merges, read_names
from .options import Missing

if TYPE_CHECKING:
    from ...conditionals.tolerance import Tolerance
    from ...data.multi_environment import MultiEnvironmentData
    from ...estimators.bip import BIP


def bip_of(prior: str, max_size: int | None, inference: str, choice: Choice, jobs: int | None, seed: int) -> BIP:
    from ...estimators.bip import BIP
    from ...inference.parsing import parse_inference
    from ...priors.parsing import parse_prior

    belief, engine = parse_prior(prior, max_size), parse_inference(inference)
    return BIP(prior=belief, inference=engine, n_jobs=jobs or -1, random_state=seed, **choice.settings())


@dataclass(frozen=True)
class Choice:
    """How features are selected, as the options are typed."""

    select: str
    threshold: float | None
    delta: float | None
    tau: float | None
    level: float | None
    weak_level: float | None
    strict: bool

    def settings(self) -> dict[str, Any]:
        """Of the estimator."""
        from ...exceptions import SettingError

        rule: dict[str, Any] = {"select": self.select}
        if self.threshold is not None:
            if self.select != "threshold":
                raise SettingError("--threshold is for --select threshold: add that, or leave --threshold out.")
            rule["threshold"] = self.threshold
        return rule | {"tolerance": self._tolerance()}

    def _tolerance(self) -> Tolerance:
        from ...conditionals.tolerance import Tolerance
        from ...exceptions import SettingError

        if self.strict and (self.delta or self.tau):
            raise SettingError("--strict tests exact invariance: leave --delta and --tau out.")
        default = Tolerance() if not self.strict else Tolerance.strict(*() if self.level is None else (self.level,))
        asked = {"delta": self.delta, "tau": self.tau, "level": self.level, "weak_level": self.weak_level}
        return replace(default, **{name: value for name, value in asked.items() if value is not None})


@dataclass(frozen=True)
class Table:
    """Options as they are typed."""

    file: Path
    outcome: str
    environment: str
    missing: Missing
    features: str | None
    exclude: str | None
    categorical: str | None
    numeric: str | None
    min_rows: int
    drop_environment: str | None
    merge: str | None

    def read(self) -> MultiEnvironmentData:
        from ...data.multi_environment import MultiEnvironmentData

        return MultiEnvironmentData.from_table(
            self.file,
            self.outcome,
            self.environment,
            features=None if self.features is None else read_names(self.features),
            missing=self.missing.value,
            exclude=read_names(self.exclude),
            categorical=read_names(self.categorical) or "auto",
            numeric=read_names(self.numeric),
            drop_environments=read_names(self.drop_environment),
            merge_environments=read_merges(self.merge),
            min_rows=self.min_rows,
        )
