"""The options of commands that fit a table, in groups, and what is made of them: the data, and the model."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .console import say
from .names import read_merges, read_names
from .options import (
    CategoricalOption,
    DeltaOption,
    DropEnvironmentOption,
    EventOption,
    ExcludeOption,
    ExposureOption,
    FamilyOption,
    FeaturesOption,
    InferenceOption,
    LevelOption,
    MaxSizeOption,
    MergeOption,
    MinRowsOption,
    Missing,
    MissingOption,
    NumericOption,
    PriorOption,
    SelectOption,
    StrictOption,
    TauOption,
    ThresholdOption,
    WeakLevelOption,
)

if TYPE_CHECKING:
    from ...conditionals.tolerance import Tolerance
    from ...data.multi_environment import MultiEnvironmentData
    from ...estimators.bip import BIP


@dataclass(frozen=True)
class TableOptions:
    """What of a table is used, and as what."""

    event: EventOption = None
    exposure: ExposureOption = None
    features: FeaturesOption = None
    exclude: ExcludeOption = None
    categorical: CategoricalOption = None
    numeric: NumericOption = None
    missing: MissingOption = Missing.error
    min_rows: MinRowsOption = 0
    drop_environment: DropEnvironmentOption = None
    merge: MergeOption = None

    def read(self, file: Path, outcome: str, environment: str) -> MultiEnvironmentData:
        from ...data.multi_environment import MultiEnvironmentData

        _refuse_several(file, outcome, environment)
        return MultiEnvironmentData.from_table(file, outcome, environment, **self.reading())

    def reading(self) -> dict[str, Any]:
        """As `MultiEnvironmentData.from_table` takes them."""
        return {
            "features": None if self.features is None else read_names(self.features),
            "missing": self.missing.value,
            "exclude": read_names(self.exclude),
            "categorical": read_names(self.categorical) or "auto",
            "numeric": read_names(self.numeric),
            "drop_environments": read_names(self.drop_environment),
            "merge_environments": read_merges(self.merge),
            "min_rows": self.min_rows,
            "event": self.event,
            "exposure": self.exposure,
        }


def _refuse_several(file: Path, outcome: str, environment: str) -> None:
    """Raise where several columns are named as the outcome, which is for another command."""
    names = dict.fromkeys(read_names(outcome))
    if len(names) < 2:
        return
    from ...data.reading import column_names
    from ...exceptions import DataError

    columns = column_names(file, warn_unnamed=False)
    if outcome not in columns and all(name in columns for name in names):
        line = ["invariance", "sweep", str(file), "--environment", environment, "--outcomes", outcome, "--out", "sweep"]
        raise DataError(
            f"--outcome {shlex.quote(outcome)} names {len(names)} columns, and this command fits one outcome. For a "
            f"fit of each: {shlex.join(line)}"
        )


def say_family(model: BIP, data: MultiEnvironmentData) -> None:
    """On standard error, where the outcome asks for another model than any number would."""
    from ...conditionals.by_outcome import family_of
    from ...conditionals.registry import AUTO, GAUSSIAN

    choice = family_of(data)
    if model.conditional == AUTO and choice.name != GAUSSIAN:
        name = choice.name.replace("_", " ")
        other = "; --family gaussian overrides" if choice.overridable else ""
        say("note", f"outcome model: {name} ({choice.reason}){other}")


@dataclass(frozen=True)
class ModelOptions:
    """How subsets are weighed and features selected."""

    family: FamilyOption = "auto"
    max_size: MaxSizeOption = None
    prior: PriorOption = "uniform"
    inference: InferenceOption = "auto"
    select: SelectOption = "predictive"
    threshold: ThresholdOption = None
    delta: DeltaOption = None
    tau: TauOption = None
    level: LevelOption = None
    weak_level: WeakLevelOption = None
    strict: StrictOption = False

    def bip(self, jobs: int | None, seed: int) -> BIP:
        from ...conditionals.parsing import parse_family
        from ...estimators.bip import BIP
        from ...inference.parsing import parse_inference
        from ...priors.parsing import parse_prior

        family = parse_family(self.family)
        belief, engine = parse_prior(self.prior, self.max_size), parse_inference(self.inference)
        rule, tolerance = self._rule(), self._tolerance()
        return BIP(family, belief, engine, tolerance=tolerance, n_jobs=jobs or -1, random_state=seed, **rule)

    def _rule(self) -> dict[str, Any]:
        from ...exceptions import SettingError

        if self.threshold is None:
            return {"select": self.select}
        if self.select != "threshold":
            raise SettingError("--threshold is for --select threshold: add that, or leave --threshold out.")
        return {"select": self.select, "threshold": self.threshold}

    def _tolerance(self) -> Tolerance:
        from ...conditionals.tolerance import Tolerance
        from ...exceptions import SettingError

        if self.strict and (self.delta or self.tau):
            raise SettingError("--strict tests exact invariance: leave --delta and --tau out.")
        default = Tolerance() if not self.strict else Tolerance.strict(*() if self.level is None else (self.level,))
        asked = {"delta": self.delta, "tau": self.tau, "level": self.level, "weak_level": self.weak_level}
        return replace(default, **{name: value for name, value in asked.items() if value is not None})
