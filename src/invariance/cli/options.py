"""Options of the commands, each declared once, in groups that map to the settings of the Python interface."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from ..exceptions import DataError, SettingError
from .console import loudness, plain_speech, shown_progress

if TYPE_CHECKING:
    from ..data.reading import TableFile
    from ..data.settings import Columns, Environments
    from ..estimators.bip import BIP
    from ..inference.base import Engine
    from ..models.invariance_test import Tolerance

STANDARD_INPUT = Path("-")
TYPED = "typed"  # in the context of a command: its name and arguments
_FURTHER = "Further options"


def option(
    metavar: str | None, text: str, default: str | bool = False, *names: str, rare: bool = False, **more: Any
) -> Any:
    """default : what --help says of it, True for the value itself; rare : listed by --help-all only"""
    panel = _FURTHER if rare else None
    return typer.Option(*names, metavar=metavar, help=text, show_default=default, rich_help_panel=panel, **more)


class Missing(StrEnum):
    error = "error"
    drop = "drop"


class PlotKind(StrEnum):
    inclusion = "inclusion"
    coefficients = "coefficients"
    subsets = "subsets"
    environments = "environments"
    frontier = "frontier"


_FORMATS = ".csv, .tsv (also .gz), .parquet or .xlsx; - is standard input"
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help=f"Table: {_FORMATS}.", show_default=False)]
_FILES = f"Table: {_FORMATS}. Or several files, a folder or a quoted pattern."
FilesArgument = Annotated[list[Path], typer.Argument(metavar="FILE", help=_FILES, show_default=False)]
OutcomeOption = Annotated[str, option("COL", "Column to predict.")]
EnvironmentOption = Annotated[str, option("COL", "Column of environments.")]
StreamOption = Annotated[
    bool | None, option(None, "Read in pieces and keep moments.", "large files", "--stream/--no-stream", rare=True)
]
PlotKindOption = Annotated[
    PlotKind | None, option("KIND", f"Picture of {', '.join(PlotKind)}.", PlotKind.inclusion.value, rare=True)
]
JobsOption = Annotated[int | None, option("N", "Threads.", "all cores", rare=True, min=1)]
ProcessesOption = Annotated[int | None, option("N", "Processes.", "all cores", min=1)]
DaskOption = Annotated[str | None, option("ADDRESS", "Send the work to this Dask scheduler instead.")]
SeedOption = Annotated[int, option("N", "Seed of random numbers.", True, rare=True, min=0)]


def json_option(what: str) -> Any:
    return option("OUT", f"Save {what} as JSON.", False, "--json")


def plot_option(what: str) -> Any:
    return option("PNG", f"Save {what} (.png, .pdf or .svg).", False, "--plot")


def setting(default: Any, *described: Any, **more: Any) -> Any:
    """A field of a group of options; described : as in `option`"""
    return field(default=default, metadata={"option": option(*described, **more)})


@dataclass(frozen=True)
class SpeechOptions:
    quiet: bool = setting(False, None, "Print the result, warnings and errors only.", False, "--quiet", "-q")
    verbose: bool = setting(False, None, "Print notes on reading and time.", False, "--verbose", "-v", rare=True)

    @contextmanager
    def speaking(self) -> Iterator[None]:
        with plain_speech(), loudness(self.quiet, self.verbose):
            yield


@dataclass(frozen=True)
class FileOptions:
    """The format of a file."""

    sep: str | None = setting(None, "SIGN", "Between cells: , ; | or tab.", "detected", rare=True)
    decimal: str | None = setting(None, "SIGN", "Before decimals: . or ,", "detected", rare=True)
    encoding: str | None = setting(None, "NAME", "Encoding of text.", "UTF-8", rare=True)
    sheet: str | None = setting(None, "NAME", "Sheet of an Excel file.", "the only one", rare=True)
    na: str | None = setting(None, "A,B,C", "Further words for missing values.", rare=True)
    thousands: str | None = setting(None, "SIGN", "Between thousands: . , ' or a space.", "nothing", rare=True)

    def format(self) -> dict[str, Any]:
        """As `source_of` takes it."""
        return {field.name: getattr(self, field.name) for field in fields(FileOptions)} | {"na": read_names(self.na)}

    def open(self, file: Path) -> TableFile:
        from ..data.reading import TableFile
        from ..data.settings import FileFormat

        content = _standard_input() if file == STANDARD_INPUT else None
        return TableFile.of(file, FileFormat(**self.format()), content)


def _standard_input() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        raise DataError("- reads standard input, which is empty: pipe a table into the command, or name a file.")
    return sys.stdin.buffer.read()


@dataclass(frozen=True)
class TableOptions(FileOptions):
    """Columns, rows and environments of a table."""

    features: str | None = setting(None, "A,B,C", "Columns to choose from.", "all others")
    exclude: str | None = setting(None, "A,B,C", "Columns that are not features.")
    categorical: str | None = setting(None, "A,B,C", "Columns of codes.", "columns of text")
    numeric: str | None = setting(None, "A,B,C", "Columns of text to read as numbers.", rare=True)
    missing: Missing = setting(  # noqa: RUF009
        Missing.error, "error|drop", "Rows with missing values: stop, or leave out.", "error"
    )
    event: str | None = setting(None, "COL", "Column of 0 and 1: whether a time ended with the event.")
    exposure: str | None = setting(None, "COL", "Column of exposures of counts: years, persons.")
    min_rows: int = setting(0, "N", "Leave out environments with fewer rows.", rare=True, min=0)
    drop_environment: str | None = setting(None, "A,B", "Environments to leave out.", rare=True)
    merge: str | None = setting(None, "A+B=C", "Environments to merge, with the new label.", rare=True)

    def columns(self) -> Columns:
        from ..data.settings import Columns

        return Columns(
            features=None if self.features is None else read_names(self.features),
            exclude=read_names(self.exclude),
            categorical=read_names(self.categorical) or "auto",
            numeric=read_names(self.numeric),
        )

    def environments(self) -> Environments:
        from ..data.settings import Environments

        drop, merge = read_names(self.drop_environment), read_merges(self.merge)
        return Environments(drop=drop, merge=merge, min_rows=self.min_rows)

    def reading(self) -> dict[str, Any]:
        """As `MultiEnvironmentData.from_table` takes it."""
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


# Written out, so that --help loads none of them.
_FAMILY = (
    "Outcome model: auto, gaussian, mean, bayesian_linear_gaussian, logistic, poisson, negative_binomial, "
    'piecewise_exponential or additive. With settings: "logistic(pseudo_rows=0)".'
)
_ENGINE = (
    "exact scores all subsets, tempering samples, vi approximates; auto: exact while quick. With settings: "
    '"tempering(chains=8)".'
)
PRIOR = "uniform, beta-binomial, beta-binomial(A,B) or inclusion(Q); numbers for capitals."
_SELECT = "predictive: the best invariant predictor; mode: the most probable subset; threshold or median: features."
_DELTA = "Share of residual variance that differences of coefficients may explain."
_LEVEL = "Smallest p-value of an invariant subset, if some subset reaches it."
_WEAK = "Smallest p-value if no subset reaches --level."


@dataclass(frozen=True)
class ModelOptions:
    """Outcome model, prior, engine and rule of selection."""

    family: str = setting("auto", "NAME", _FAMILY, True)
    max_size: int | None = setting(None, "K", "Most features in a subset.", "what the data allow", min=0)
    prior: str = setting("uniform", "PRIOR", PRIOR, True)
    engine: str = setting("auto", "ENGINE", _ENGINE, True)
    chains: int | None = setting(None, "N", "Chains of --engine tempering.", "4", rare=True, min=1)
    steps: int | None = setting(None, "N", "Most steps of each chain.", "3000", rare=True, min=1)
    select: str = setting("predictive", "RULE", _SELECT, True, rare=True)
    threshold: float | None = setting(
        None, "P", "Inclusion probability for --select threshold.", "0.5", rare=True, min=0.0, max=1.0
    )
    delta: float | None = setting(None, "D", _DELTA, "0.02", rare=True)
    tau: float | None = setting(None, "T", "Relative spread of noise tolerated.", "0.1", rare=True)
    level: float | None = setting(None, "P", _LEVEL, "0.2, or 0.05 with --strict", rare=True)
    weak_level: float | None = setting(None, "P", _WEAK, "0.02, or --level with --strict", rare=True)
    strict: bool = setting(False, None, "Test exact invariance: no --delta, no --tau.", False, "--strict")

    def bip(self, jobs: int | None, seed: int) -> BIP:
        from ..decisions.rules import Threshold
        from ..estimators.bip import BIP
        from ..models.registry import parse_family
        from ..priors.priors import parse_prior

        if self.threshold is not None and self.select != "threshold":
            raise SettingError("--threshold is for --select threshold: add that, or leave --threshold out.")
        return BIP(
            parse_family(self.family),
            parse_prior(self.prior, self.max_size),
            self._engine(),
            tolerance=self._tolerance(),
            select=self.select if self.threshold is None else Threshold(self.threshold),
            n_jobs=jobs or -1,
            random_state=seed,
            progress=shown_progress(),
        )

    def _engine(self) -> str | Engine:
        from ..inference.registry import parse_engine
        from ..inference.tempering.engine import Tempering

        engine = parse_engine(self.engine)
        asked = {name: value for name in ("chains", "steps") if (value := getattr(self, name)) is not None}
        if not asked:
            return engine
        if engine != "tempering" and not isinstance(engine, Tempering):
            first = next(iter(asked))
            raise SettingError(f"--{first} is for --engine tempering: add that, or leave --{first} out.")
        twice = [name for name in asked if re.search(rf"\b{name}\s*=", self.engine)]
        if twice:
            raise SettingError(f"--engine {self.engine!r} states {twice[0]} already: leave --{twice[0]} out.")
        return replace(engine, **asked) if isinstance(engine, Tempering) else Tempering(**asked)

    def _tolerance(self) -> Tolerance:
        from ..models.invariance_test import Tolerance

        if self.strict and (self.delta or self.tau):
            raise SettingError("--strict tests exact invariance: leave --delta and --tau out.")
        default = Tolerance() if not self.strict else Tolerance.strict(*() if self.level is None else (self.level,))
        asked = {"delta": self.delta, "tau": self.tau, "level": self.level, "weak_level": self.weak_level}
        return replace(default, **{name: value for name, value in asked.items() if value is not None})


def refuse_both(jobs: int | None, dask: str | None) -> None:
    if dask is not None and jobs is not None:
        raise typer.BadParameter("--jobs is for this machine and --dask for a cluster: use one of them.")


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each option group among its parameters replaced by its options."""
    groups: dict[str, Any] = {name: kind for name, kind in get_type_hints(command).items() if is_dataclass(kind)}
    options = list(_options(command))

    @wraps(command)
    def grouping(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    grouping.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    grouping.__annotations__ = {option.name: option.annotation for option in options}
    return grouping


def _options(taker: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """Of a command or of a group."""
    hints = get_type_hints(taker, include_extras=True)
    described = {field.name: field.metadata["option"] for field in fields(taker)} if is_dataclass(taker) else {}
    for name, parameter in inspect.signature(taker).parameters.items():
        if is_dataclass(hints[name]):
            yield from _options(hints[name])
        else:
            kind: Any = Annotated[hints[name], described[name]] if name in described else hints[name]
            yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=kind)


class Command(TyperCommand):
    """Lists everyday options by --help and all by --help-all; refuses an option that is given twice."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--help-all" in args:
            ctx.meta[_FURTHER] = True
            typer.echo(self.get_help(ctx))
            ctx.exit()
        ctx.meta[TYPED] = (ctx.info_name, *args)
        given = self.make_parser(ctx).parse_args(list(args))[2]
        for one in given:
            single = not getattr(one, "is_flag", True) and not one.multiple
            if single and sum(other is one for other in given) > 1:
                several = _LISTS.get(one.metavar or "")
                once = "give it once" if several is None else f"write one list, {one.opts[0]} {several}"
                raise typer.BadParameter(f"{one.opts[0]} is given more than once: {once}.", ctx=ctx)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        shown = [one for one in self.get_params(ctx) if not getattr(one, "hidden", False)]
        arguments: list[Any] = [one for one in shown if one.param_type_name == "argument"]
        options = [one for one in shown if one not in arguments]
        rare = [one for one in options if getattr(one, "rich_help_panel", None) == _FURTHER]
        rows = {
            "Arguments": [(one.metavar or one.name.upper(), one.help or "") for one in arguments],
            "Options": [_row(one) for one in options if one not in rare],
        }
        if rare and ctx.meta.get(_FURTHER):
            rows[_FURTHER] = [_row(one) for one in rare]
        elif rare:
            rows["Options"].append(("--help-all", "List all options and exit."))
        for title, lines in rows.items():
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)


_LISTS = {"A,B": "a,b", "A,B,C": "a,b,c", "A+B=C": "a+b=c,d+e=f"}


def _row(one: Any) -> tuple[str, str]:
    names = " / ".join(", ".join(sorted(part, key=len)) for part in (one.opts, one.secondary_opts) if part)
    typed = f"{names} {one.metavar}" if one.metavar else names
    told = one.default if one.show_default is True and not one.is_flag else one.show_default or None
    more = "  [required]" if one.required else "" if told is None or told is True else f"  [default: {told}]"
    return typed, f"{one.help or ''}{more}"


_NAME = re.compile(r'\s*(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^,]*?))\s*(?:,|$)')
_LABEL = re.compile(r'\s*(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^,+="]*?))\s*(?P<next>[,+=]|$)')


def _unquoted(match: re.Match[str]) -> str:
    quoted: str | None = match["quoted"]
    return str(match["plain"]) if quoted is None else quoted.replace('""', '"')


def read_names(text: str | None) -> list[str]:
    """The names in an argument a,"b,c": those that hold a comma are quoted."""
    names, position = [], 0
    while text and position < len(text) and (match := _NAME.match(text, position)) is not None:
        names.append(_unquoted(match))
        position = match.end()
    return [name for name in names if name]


def write_names(names: Iterable[str]) -> str:
    """The argument that `read_names` splits into these names."""
    return ",".join(map(_quoted, names))


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"' if "," in name or name.startswith('"') or name != name.strip() else name


def read_merges(text: str | None) -> dict[Hashable, list[str]]:
    """{new label: labels} of an argument a+b=c,d+e=f"""
    labels, signs, position = [], "", 0
    while text and position < len(text) and (match := _LABEL.match(text, position)) is not None:
        labels.append(_unquoted(match))
        signs, position = signs + match["next"], match.end()
    if not text:
        return {}
    well_formed = re.fullmatch(r"\++=(,\++=)*", signs) and len(labels) == len(signs) + 1
    if position < len(text) or not all(labels) or not well_formed:
        raise SettingError(
            f"cannot read --merge {text!r}: write a+b=c, or a+b=c,d+e=f; quote a label that holds a comma, + or =."
        )
    merges: dict[Hashable, list[str]] = {}
    rest = iter(labels)
    for group in signs.split(","):
        members = [next(rest) for _ in group]
        name = next(rest)
        if name in merges:
            raise SettingError(f"--merge {text!r} makes {name!r} twice: write all its labels before one = sign.")
        merges[name] = members
    return merges


def write_merges(merges: Mapping[Hashable, Iterable[Hashable]]) -> str:
    def label(value: Hashable) -> str:
        text = str(value)
        doubled = text.replace('"', '""')
        return f'"{doubled}"' if re.search(r'[,+="]', text) or text != text.strip() else text

    return ",".join(f"{'+'.join(map(label, old))}={label(new)}" for new, old in merges.items())
