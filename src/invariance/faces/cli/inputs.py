"""What commands that take a table make of their options: the data, and the model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .names import read_merges, read_names
from .options import Missing

if TYPE_CHECKING:
    from ...conditionals.tolerance import Tolerance
    from ...data.multi_environment import MultiEnvironmentData
    from ...estimators.bip import BIP


def bip_of(prior: str, max_size: int | None, inference: str, jobs: int | None, seed: int) -> BIP:
    from ...estimators.bip import BIP
    from ...inference.parsing import parse_inference
    from ...priors.parsing import parse_prior

    belief, engine = parse_prior(prior, max_size), parse_inference(inference)
    return BIP(prior=belief, inference=engine, n_jobs=jobs or -1, random_state=seed)


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


def tolerance_of(delta: float | None, tau: float | None, level: float | None, strict: bool) -> Tolerance:
    from dataclasses import replace

    from ...conditionals.tolerance import Tolerance
    from ...exceptions import SettingError

    if strict and (delta or tau):
        raise SettingError("--strict tests exact invariance: leave --delta and --tau out.")
    if strict:
        return Tolerance.strict() if level is None else Tolerance.strict(level)
    given = {"delta": delta, "tau": tau, "level": level}
    return replace(Tolerance(), **{name: value for name, value in given.items() if value is not None})
