"""Options of the commands, each declared once, in groups that map to the settings of the Python
interface."""

from __future__ import annotations

import csv
import inspect
import re
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import wraps
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand

from .._tools.names import (
    Baseline,
    BelowLimit,
    Deviations,
    EngineName,
    FamilyName,
    Missing,
    PlotKind,
    RuleName,
)
from ..baselines.registry import METHODS
from ..exceptions import DataError, SettingError
from .completion import TYPED, column, columns, one_of, several_of

if TYPE_CHECKING:
    from .._tools.progress import ProgressMode
    from ..data.reading import TableFile
    from ..data.settings import Columns, Environments, FileFormat
    from ..estimators.bip import BIP
    from ..inference.base import Engine
    from ..models.invariance_test import Tolerance

STANDARD_INPUT = STANDARD_OUTPUT = Path("-")
_RARE = "Further options"
FAMILIES = "auto", "gaussian", "mean", *get_args(FamilyName)[3:]
# {metavar of an option: what a shell completes}
_COMPLETED = {
    "COL": column,
    "A,B,C": columns,
    "A,B|FILE": columns,
    "METHODS": several_of(*METHODS),
    "FAMILY": one_of(*FAMILIES),
    "PRIOR": one_of("uniform", "beta-binomial", "beta-binomial(1,3)", "inclusion(0.2)"),
    "ENGINE": one_of(*get_args(EngineName)),
    "RULE": one_of(*get_args(RuleName), "threshold(0.9)"),
}
ENVIRONMENT = "--environment", "-e"


def option(
    metavar: str | None,
    text: str,
    default: str | bool = False,
    *names: str,
    rare: bool = False,
    **more: Any,
) -> Any:
    """default : what --help says of it, True for the value itself; rare : listed by --help-all
    only"""
    more["autocompletion"] = _COMPLETED.get(metavar or "")
    return typer.Option(
        *names, metavar=metavar, help=text, show_default=default, hidden=rare, **more
    )


_FORMATS = ".csv, .tsv (also .gz), .parquet or .xlsx; - is standard input"
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help=f"Table: {_FORMATS}.", show_default=False)
]
_FILES = f"Table: {_FORMATS}. Or several files, a folder or a quoted pattern."
FilesArgument = Annotated[
    list[Path], typer.Argument(metavar="FILE", help=_FILES, show_default=False)
]
StreamOption = Annotated[
    bool | None,
    option(
        None, "Read in pieces and keep moments.", "large files", "--stream/--no-stream", rare=True
    ),
]
_TIME_LIMIT = "Seconds after which what the selection can do without is left out, and named."
TimeLimitOption = Annotated[
    float | None, option("S", _TIME_LIMIT, "no limit", "--time-limit", min=0.0)
]
PlotKindOption = Annotated[
    PlotKind | None,
    option("KIND", f"Picture of {', '.join(get_args(PlotKind))}.", "inclusion", rare=True),
]


def plot_option(what: str) -> Any:
    return option("PNG", f"Save {what} (.png, .pdf or .svg).", False, "--plot")


def setting(default: Any, *described: Any, **more: Any) -> Any:
    """A field of a group of options; described : as in `option`"""
    return field(default=default, metadata={"option": option(*described, **more)})


@dataclass(frozen=True, kw_only=True)
class SpeechOptions:
    quiet: bool = setting(
        False, None, "Print the result, warnings and errors only.", False, "--quiet", "-q"
    )
    verbose: bool = setting(
        False, None, "Print notes on reading and time.", False, "--verbose", "-v", rare=True
    )

    @property
    def progress(self) -> ProgressMode:
        return False if self.quiet else "auto"


@dataclass(frozen=True, kw_only=True)
class ResultOptions(SpeechOptions):
    json: Path | None = setting(None, "OUT", "Save the result as JSON; - prints it.")


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Format of a file."""

    sep: str | None = setting(None, "SIGN", "Between cells: , ; | or tab.", "detected", rare=True)
    decimal: str | None = setting(None, "SIGN", "Before decimals: . or ,", "detected", rare=True)
    encoding: str | None = setting(None, "NAME", "Encoding of text.", "UTF-8", rare=True)
    sheet: str | None = setting(None, "NAME", "Sheet of an Excel file.", "the only one", rare=True)
    na: str | None = setting(
        None, "X,COL=Y", "Further words for missing values, of all columns or one.", rare=True
    )
    thousands: str | None = setting(
        None, "SIGN", "Between thousands: . , ' or a space.", "nothing", rare=True
    )

    @property
    def form(self) -> FileFormat:
        from ..data.settings import FileFormat

        stated = {field.name: getattr(self, field.name) for field in fields(FileOptions)}
        return FileFormat(
            **stated
            | {"na": [_plain(word) for word in read_names(self.na) if not _of_column(word)]}
        )

    def open(self, file: Path) -> TableFile:
        from ..data.reading import TableFile

        if file != STANDARD_INPUT:
            return TableFile(file.expanduser(), self.form)
        if sys.stdin is None or sys.stdin.isatty():
            raise DataError(
                "- reads standard input, which is empty: pipe a table into the command, or name a "
                "file."
            )
        return TableFile(file, self.form, sys.stdin.buffer.read())


_MISSING = "Missing values. error: stop; drop: leave out rows; level: drop, categories get a level."
_BELOW_LIMIT = "What '<0.5' counts as: half of the limit, the limit, or missing."


@dataclass(frozen=True, kw_only=True)
class TableOptions(FileOptions):
    """Columns, rows and environments of a table."""

    features: str | None = setting(None, "A,B,C", "Columns to choose from.", "all others")
    exclude: str | None = setting(None, "A,B,C", "Columns that are not features.")
    categorical: str | None = setting(None, "A,B,C", "Columns of codes.", "columns of text")
    numeric: str | None = setting(None, "A,B,C", "Columns of text to read as numbers.", rare=True)
    missing: Missing = setting("error", "WAY", _MISSING, True)
    below_limit: BelowLimit | None = setting(None, "WAY", _BELOW_LIMIT, rare=True)
    weight: str | None = setting(
        None, "COL", "Column of how many rows each row counts as.", rare=True
    )
    min_rows: int = setting(0, "N", "Leave out environments with fewer rows.", rare=True, min=0)
    drop_environment: str | None = setting(None, "A,B", "Environments to leave out.", rare=True)
    merge: str | None = setting(
        None, "A+B=C", "Environments to merge, with the new label.", rare=True
    )

    @property
    def columns(self) -> Columns:
        from ..data.settings import Columns

        return Columns(
            features=None if self.features is None else read_names(self.features),
            exclude=read_names(self.exclude),
            categorical=read_names(self.categorical) or "auto",
            numeric=read_names(self.numeric),
            below_limit=self.below_limit,
            na=read_codes(self.na),
            weights=self.weight,
        )

    @property
    def environments(self) -> Environments:
        from ..data.settings import Environments

        drop = read_names(self.drop_environment)
        merge = read_merges(self.merge)
        return Environments(drop=drop, merge=merge, min_rows=self.min_rows)

    def reading(self) -> dict[str, Any]:
        """Return the options as `MultiEnvironmentData.from_table` takes them."""
        return {"columns": self.columns, "select": self.environments, "missing": self.missing}


# Written out, so that --help loads none of them.
_FAMILY = f'Outcome model: {", ".join(FAMILIES)}. With settings: "logistic(pseudo_rows=0)".'
_ENGINE = (
    "exact: all subsets; tempering samples; vi approximates (published: vi-simulation, vi-genes); "
    "auto: exact if "
    'quick. Or "tempering(chains=8)".'
)
PRIOR = "uniform, beta-binomial, beta-binomial(A,B) or inclusion(Q); numbers for capitals."
_SELECT = (
    "predictive: best invariant predictor; mode: most probable subset; threshold or median: "
    "features."
)
_DEVIATIONS = "Of coefficients: free, random (few rows each) or auto."
_BASELINE = "Of environments: shared, free (compare effects only) or auto."
_RHO = "Share of themselves by which coefficients may differ between environments."
_LEVEL = "Smallest p-value of an invariant subset, if some subset reaches it."
_WEAK = "Smallest p-value if no subset reaches --level."


@dataclass(frozen=True, kw_only=True)
class ModelOptions(ResultOptions):
    """Outcome model, prior, engine and rule of selection."""

    family: str = setting("auto", "FAMILY", _FAMILY, True)
    max_size: int | None = setting(
        None, "K", "Most features in a subset.", "what the data allow", min=0
    )
    prior: str = setting("uniform", "PRIOR", PRIOR, True)
    engine: str = setting("auto", "ENGINE", _ENGINE, True)
    chains: int | None = setting(None, "N", "Chains of --engine tempering.", "4", rare=True, min=1)
    steps: int | None = setting(None, "N", "Most steps of each chain.", "auto", rare=True, min=1)
    select: str = setting("predictive", "RULE", _SELECT, True)
    threshold: float | None = setting(
        None, "P", "Of inclusion, for --select threshold.", "0.5", min=0.0, max=1.0
    )
    tolerance: float | None = setting(None, "RHO", _RHO, "0.1")
    tau: float | None = setting(None, "T", "Relative spread of noise tolerated.", "0.1", rare=True)
    level: float | None = setting(None, "P", _LEVEL, "0.2, or 0.05 with --strict", rare=True)
    weak_level: float | None = setting(
        None, "P", _WEAK, "0.02, or --level with --strict", rare=True
    )
    deviations: Deviations = setting("auto", "KIND", _DEVIATIONS, True)
    baseline: Baseline = setting("auto", "KIND", _BASELINE, True)
    strict: bool = setting(
        False, None, "Test exact invariance: no --tolerance, no --tau.", False, "--strict"
    )
    seed: int = setting(0, "N", "Seed of random numbers.", True, rare=True, min=0)

    def bip(self, jobs: int | None = None) -> BIP:
        """jobs : threads; None: all cores"""
        from ..decisions.pipeline import as_baseline
        from ..decisions.rules import Threshold, as_rule
        from ..estimators.bip import BIP
        from ..models.registry import parse_family
        from ..priors import parse_prior

        if self.threshold is not None and self.select != "threshold":
            raise SettingError(
                "--threshold is for --select threshold: add that, or leave --threshold out."
            )
        engine = self._engine()
        select: Any = self.select if self.threshold is None else Threshold(self.threshold)
        as_baseline(self.baseline, as_rule(select), engine)
        return BIP(
            parse_family(self.family),
            parse_prior(self.prior, self.max_size),
            engine,
            tolerance=self._tolerance(),
            deviations=self.deviations,
            baseline=self.baseline,
            select=select,
            n_jobs=jobs or -1,
            random_state=self.seed,
            progress=self.progress,
        )

    def _engine(self) -> EngineName | Engine:
        from ..inference.base import parse_engine
        from ..inference.tempering import Tempering

        engine = parse_engine(self.engine)
        asked = {
            name: value
            for name in ("chains", "steps")
            if (value := getattr(self, name)) is not None
        }
        if not asked:
            return engine
        if engine != "tempering" and not isinstance(engine, Tempering):
            first = next(iter(asked))
            raise SettingError(
                f"--{first} is for --engine tempering: add that, or leave --{first} out."
            )
        return replace(engine, **asked) if isinstance(engine, Tempering) else Tempering(**asked)

    def _tolerance(self) -> Tolerance:
        from ..models.invariance_test import Tolerance

        if self.strict and (self.tolerance or self.tau):
            raise SettingError("--strict tests exact invariance: leave --tolerance and --tau out.")
        default = (
            Tolerance()
            if not self.strict
            else Tolerance.strict(*() if self.level is None else (self.level,))
        )
        asked = {
            "rho": self.tolerance,
            "tau": self.tau,
            "level": self.level,
            "weak_level": self.weak_level,
        }
        return replace(
            default, **{name: value for name, value in asked.items() if value is not None}
        )


@dataclass(frozen=True, kw_only=True)
class FitOptions(ModelOptions, TableOptions):
    """One fit: what `fit`, `compare`, `explain` and the page ask for."""

    outcome: str = setting(MISSING, "COL", "Column to predict.", False, "--outcome", "-o")
    environment: list[str] = setting(
        (), "COL", "Column of environments, or several.", False, *ENVIRONMENT
    )
    along: str | None = setting(None, "COL", "Column of numbers or dates.")
    ar: int = setting(
        0, "Q", "Rows before, in the order of --along, that noise depends on.", rare=True, min=0
    )
    within: str | None = setting(
        None, "COL", "What has a sequence of its own, with --ar.", rare=True
    )
    event: str | None = setting(
        None, "COL", "Column of 0 and 1: whether a time ended with the event."
    )
    exposure: str | None = setting(None, "COL", "Column of exposures of counts: years, persons.")
    jobs: int | None = setting(None, "N", "Threads.", "all cores", rare=True, min=1)

    @property
    def compared(self) -> Any:
        """Return the environment as `MultiEnvironmentData.from_table` takes it."""
        from ..data.structure import along

        if self.along is None and (self.ar or self.within):
            raise SettingError("--ar and --within are for sequences along a column: add --along.")
        variable = [] if self.along is None else [along(self.along, self.ar, self.within)]
        parts = [
            *([self.environment] if isinstance(self.environment, str) else self.environment or ()),
            *variable,
        ]
        if not parts:
            raise SettingError("environments are missing: add --environment COL, or --along COL.")
        return parts[0] if len(parts) == 1 else parts

    def reading(self) -> dict[str, Any]:
        return super().reading() | {"event": self.event, "exposure": self.exposure}


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each option group among its parameters replaced by its options: first those
    of which one is required, last how much is said."""
    groups: dict[str, Any] = {
        name: kind for name, kind in get_type_hints(command).items() if is_dataclass(kind)
    }
    places = dict.fromkeys(("out", "outcome", "environment", "along"), 0) | dict.fromkeys(
        ("quiet", "verbose"), 2
    )
    required = inspect.Parameter.empty
    options = sorted(
        _options(command), key=lambda one: 0 if one.default is required else places.get(one.name, 1)
    )

    @wraps(command)
    def grouping(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    grouping.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    grouping.__annotations__ = {option.name: option.annotation for option in options}
    return grouping


def _options(taker: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """Yield the options of a command or of a group."""
    hints = get_type_hints(taker, include_extras=True)
    described = (
        {field.name: field.metadata["option"] for field in fields(taker)}
        if is_dataclass(taker)
        else {}
    )
    for name, parameter in inspect.signature(taker).parameters.items():
        if is_dataclass(hints[name]):
            yield from _options(hints[name])
        else:
            kind: Any = (
                Annotated[hints[name], described[name]] if name in described else hints[name]
            )
            yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=kind)


class Command(TyperCommand):
    """Lists everyday options by --help and all by --help-all; refuses an option that is given
    twice."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--help-all" in args:
            ctx.meta[_RARE] = True
            typer.echo(self.get_help(ctx))
            ctx.exit()
        ctx.meta[TYPED] = (ctx.info_name, *args)
        given = self.make_parser(ctx).parse_args(list(args))[2]
        for one in () if ctx.resilient_parsing else given:
            if (
                not getattr(one, "is_flag", True)
                and not one.multiple
                and sum(other is one for other in given) > 1
            ):
                a_list = f", a list as {one.metavar}" if "," in str(one.metavar) else ""
                raise typer.BadParameter(
                    f"{one.opts[0]} is given more than once: give it once{a_list}.", ctx=ctx
                )
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], _RARE: []}
        params: list[Any] = self.get_params(ctx)
        for one in params:
            if one.param_type_name == "argument":
                groups["Arguments"].append((one.metavar or one.name.upper(), one.help or ""))
                continue
            rare = one.hidden
            one.hidden = False
            groups[_RARE if rare else "Options"].append(one.get_help_record(ctx))
            one.hidden = rare
        if groups[_RARE] and not ctx.meta.get(_RARE):
            groups["Options"].append(("--help-all", "List all options and exit."))
            del groups[_RARE]
        for title, rows in groups.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def read_names(text: str | None) -> list[str]:
    """The names in an argument a,"b,c": those that hold a comma are quoted."""
    rows = csv.reader(StringIO(text or ""), skipinitialspace=True)
    return [name.strip() for row in rows for name in row if name.strip()]


def write_names(names: Iterable[str]) -> str:
    """The argument that `read_names` splits into these names."""
    written = StringIO()
    csv.writer(written).writerow(names)
    return written.getvalue().removesuffix("\r\n")


# What ends the name of a column before a code; \\= is part of the name.
_SIGN = re.compile(r"(?<!\\)=")


def _of_column(word: str) -> list[str]:
    """[column, value] of bmi=999; [] of a word for all columns"""
    name, *value = (part.strip() for part in _SIGN.split(word, 1))
    return [_plain(name), *value] if name and any(value) else []


def _plain(name: str) -> str:
    return name.replace("\\=", "=")


def write_codes(codes: Mapping[str, Iterable[Any]]) -> list[str]:
    """The words that `read_codes` reads as {column: values}."""
    from ..data.labels import level_of

    escaped = {name: name.replace("=", "\\=") for name in codes}
    return [f"{escaped[name]}={level_of(code)}" for name, found in codes.items() for code in found]


def read_codes(text: str | None) -> dict[str, list[str]]:
    """{column: values} of an argument bmi=999,bmi=888; words for all columns are left out"""
    codes: dict[str, list[str]] = {}
    for name, value in filter(None, map(_of_column, read_names(text))):
        codes.setdefault(name, []).append(value)
    return codes


def read_merges(text: str | None) -> dict[Hashable, list[str]]:
    """{new label: labels} of an argument a+b=c,d+e=f"""
    merges: dict[Hashable, list[str]] = {}
    for part in read_names(text):
        old, _, new = (piece.strip() for piece in part.partition("="))
        labels = [label.strip() for label in old.split("+")]
        if len(labels) < 2 or not all((*labels, new)) or "=" in new or new in merges:
            raise SettingError(
                f"cannot merge environments by {text!r}: write a+b=c or a+b=c,d+e=f, each new "
                "label once."
            )
        merges[new] = labels
    return merges
