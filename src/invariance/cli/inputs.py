"""The options of commands that fit a table, in groups, and what is made of them: the data, and the model."""

from __future__ import annotations

import re
import shlex
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .console import detail, loudness, plain_speech, say, shown_progress
from .options import (
    STANDARD_INPUT,
    CategoricalOption,
    ChainsOption,
    DecimalOption,
    DeltaOption,
    DropEnvironmentOption,
    EncodingOption,
    EngineOption,
    EventOption,
    ExcludeOption,
    ExposureOption,
    FamilyOption,
    FeaturesOption,
    LevelOption,
    MaxSizeOption,
    MergeOption,
    MinRowsOption,
    Missing,
    MissingOption,
    NaOption,
    NumericOption,
    PriorOption,
    QuietOption,
    SelectOption,
    SepOption,
    SheetOption,
    StepsOption,
    StrictOption,
    TauOption,
    ThousandsOption,
    ThresholdOption,
    VerboseOption,
    WeakLevelOption,
    read_merges,
    read_names,
)

if TYPE_CHECKING:
    from ..data.multi_environment import MultiEnvironmentData
    from ..data.reading import TableFile
    from ..estimators.bip import BIP
    from ..inference.base import Engine
    from ..models.invariance_test import Tolerance
    from ..moments.moments import Moments

_PATIENCE = 0.5
_BETWEEN_LOOKS = 0.05
_MESSAGE = "loading libraries …"


@contextmanager
def loading_announced(wanted: bool) -> Iterator[None]:
    """Inside the block: a line on the terminal that is gone when the libraries are there."""
    if not (wanted and sys.stderr.isatty()):
        yield
        return
    left = threading.Event()
    announcer = threading.Thread(target=_announce, args=(left,), daemon=True)
    announcer.start()
    try:
        yield
    finally:
        left.set()
        announcer.join()


def _announce(left: threading.Event) -> None:
    if left.wait(_PATIENCE) or _loaded():
        return
    sys.stderr.write(_MESSAGE)
    sys.stderr.flush()
    while not (left.wait(_BETWEEN_LOOKS) or _loaded()):
        pass
    sys.stderr.write(f"\r{' ' * len(_MESSAGE)}\r")
    sys.stderr.flush()


def _loaded() -> bool:
    """Whether the last of them is there, with the name that it defines in the end."""
    return hasattr(sys.modules.get("invariance.estimators.bip"), "BIP")


# From here on half of all features, which the uniform prior expects, are more than anyone means.
MANY_FEATURES = 30


@dataclass(frozen=True)
class SpeechOptions:
    """How much is said beside the result."""

    quiet: QuietOption = False
    verbose: VerboseOption = False

    @contextmanager
    def speaking(self) -> Iterator[None]:
        with plain_speech(), loudness(self.quiet, self.verbose), loading_announced(not self.quiet):
            yield


@dataclass(frozen=True)
class FileOptions:
    """How a file is written, where it does not show."""

    sep: SepOption = None
    decimal: DecimalOption = None
    encoding: EncodingOption = None
    sheet: SheetOption = None
    na: NaOption = None
    thousands: ThousandsOption = None

    def open(self, file: Path) -> TableFile:
        from ..data.reading import TableFile
        from ..data.settings import FileFormat

        content = _standard_input() if str(file) == STANDARD_INPUT else None
        form = FileFormat(
            sep=self.sep,
            decimal=self.decimal,
            thousands=self.thousands,
            encoding=self.encoding,
            sheet=self.sheet,
            na=read_names(self.na),
        )
        return TableFile.of(file, form, content)

    def stated(self, file: Path) -> Path | TableFile:
        """The file, with how it is written where that was said."""
        said = (self.sep, self.decimal, self.encoding, self.sheet, self.na, self.thousands)
        return file if str(file) == STANDARD_INPUT or said == (None,) * len(said) else self.open(file)


def _standard_input() -> bytes:
    from ..exceptions import DataError

    if sys.stdin is None or sys.stdin.isatty():
        raise DataError(
            "- reads the table from standard input, and nothing is sent there: write cat table.csv | before the "
            "command, or the name of a file instead of -."
        )
    return sys.stdin.buffer.read()


@dataclass(frozen=True)
class TableOptions(FileOptions):
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
        from ..data.multi_environment import MultiEnvironmentData

        source = self.open(file)
        if len(read_names(outcome)) > 1:
            from ..data.reading import column_names

            refuse_several(column_names(source, warn_unnamed=False), [source.path], outcome, environment)
        data = MultiEnvironmentData.from_table(source, outcome, environment, **self.reading())
        detail(
            f"read {data.n_rows:,} rows, {data.n_features} features and {data.n_environments} environments from "
            f"{source.name}"
        )
        return data

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


def refuse_several(columns: Sequence[str], files: Sequence[Path], outcome: str, environment: str) -> None:
    """Raise where several of the columns are named as the outcome, which is for another command."""
    names = dict.fromkeys(read_names(outcome))
    if len(names) > 1 and outcome not in columns and all(name in columns for name in names):
        from ..exceptions import DataError

        named = ["--environment", environment, "--outcomes", outcome, "--out", "sweep"]
        line = ["invariance", "sweep", *map(str, files), *named]
        raise DataError(
            f"--outcome {shlex.quote(outcome)} names {len(names)} columns, and this command fits one outcome. For a "
            f"fit of each: {shlex.join(line)}"
        )


def say_family(model: BIP, data: MultiEnvironmentData | Moments) -> None:
    _say(_family_note(model, data))


def say_prior(settings: ModelOptions, data: MultiEnvironmentData | Moments) -> None:
    _say(_prior_note(settings, data))


def notes(model: BIP, settings: ModelOptions, data: MultiEnvironmentData) -> list[str]:
    """What is said of a fit before it begins."""
    return [note for note in (_family_note(model, data), _prior_note(settings, data)) if note]


def _say(note: str) -> None:
    if note:
        say("note", note)


def _family_note(model: BIP, data: MultiEnvironmentData | Moments) -> str:
    """Where the outcome asks for another model than any number would."""
    from ..models.registry import AUTO, GAUSSIAN, family_of

    choice = family_of(data)
    if model.family != AUTO or choice.name == GAUSSIAN:
        return ""
    other = "; --family gaussian overrides" if choice.overridable else ""
    return f"outcome model: {choice.name.replace('_', ' ')} ({choice.reason}){other}"


def _prior_note(settings: ModelOptions, data: MultiEnvironmentData | Moments) -> str:
    """Where the uniform prior means more features than anyone expects."""
    if settings.prior != "uniform" or settings.max_size is not None or data.n_features <= MANY_FEATURES:
        return ""
    return (
        f"the uniform prior expects about half of the {data.n_features} features to be invariant; if you expect few, "
        "--prior beta-binomial favours small subsets, and --max-size 10 sets a limit"
    )


@dataclass(frozen=True)
class ModelOptions:
    """How subsets are weighed and features selected."""

    family: FamilyOption = "auto"
    max_size: MaxSizeOption = None
    prior: PriorOption = "uniform"
    engine: EngineOption = "auto"
    chains: ChainsOption = None
    steps: StepsOption = None
    select: SelectOption = "predictive"
    threshold: ThresholdOption = None
    delta: DeltaOption = None
    tau: TauOption = None
    level: LevelOption = None
    weak_level: WeakLevelOption = None
    strict: StrictOption = False

    def bip(self, jobs: int | None, seed: int) -> BIP:
        from ..estimators.bip import BIP
        from ..models.registry import parse_family
        from ..priors.priors import parse_prior

        family = parse_family(self.family)
        belief, engine = parse_prior(self.prior, self.max_size), self._engine()
        rule, tolerance = self._rule(), self._tolerance()
        options: dict[str, Any] = {"n_jobs": jobs or -1, "random_state": seed, "progress": shown_progress()}
        return BIP(family, belief, engine, tolerance=tolerance, **options, **rule)

    def _engine(self) -> str | Engine:
        from ..exceptions import SettingError
        from ..inference.registry import parse_engine
        from ..inference.tempering.engine import Tempering

        engine = parse_engine(self.engine)
        asked = {name: value for name in ("chains", "steps") if (value := getattr(self, name)) is not None}
        if not asked:
            return engine
        first = next(iter(asked))
        if engine != "tempering" and not isinstance(engine, Tempering):
            raise SettingError(f"--{first} is for --engine tempering, which samples: add that, or leave --{first} out.")
        twice = [name for name in asked if re.search(rf"\b{name}\s*=", self.engine)]
        if twice:
            raise SettingError(f"--engine {self.engine!r} states {twice[0]} already: leave --{twice[0]} out.")
        return replace(engine, **asked) if isinstance(engine, Tempering) else Tempering(**asked)

    def _rule(self) -> dict[str, Any]:
        from ..exceptions import SettingError

        if self.threshold is None:
            return {"select": self.select}
        if self.select != "threshold":
            raise SettingError("--threshold is for --select threshold: add that, or leave --threshold out.")
        from ..decisions.rules import Threshold

        return {"select": Threshold(self.threshold)}

    def _tolerance(self) -> Tolerance:
        from ..exceptions import SettingError
        from ..models.invariance_test import Tolerance

        if self.strict and (self.delta or self.tau):
            raise SettingError("--strict tests exact invariance: leave --delta and --tau out.")
        default = Tolerance() if not self.strict else Tolerance.strict(*() if self.level is None else (self.level,))
        asked = {"delta": self.delta, "tau": self.tau, "level": self.level, "weak_level": self.weak_level}
        return replace(default, **{name: value for name, value in asked.items() if value is not None})
