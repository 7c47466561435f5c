"""The options that commands share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from ..decisions.rules import RULES
from ..exceptions import SettingError
from ..inference.registry import ENGINES
from ..models.invariance_test import Tolerance
from ..models.registry import FAMILIES
from ..priors.priors import PRIORS

STANDARD_INPUT = "-"
_TOLERANCE, _STRICT = Tolerance(), Tolerance.strict()


class PlotKind(StrEnum):
    inclusion = "inclusion"
    coefficients = "coefficients"
    subsets = "subsets"
    environments = "environments"
    frontier = "frontier"


class Missing(StrEnum):
    error = "error"
    drop = "drop"


JsonOption = Annotated[
    Path | None, typer.Option("--json", metavar="OUT", help="Save posterior and decision as JSON.", show_default=False)
]
PlotOption = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="PNG",
        help="Save a picture (.png, .pdf or .svg).",
        show_default=False,
    ),
]
PlotKindOption = Annotated[
    PlotKind | None,
    typer.Option(
        help="Of what: inclusion probabilities, coefficients by environment, compatible subsets, deviations "
        "of environments, or the frontier of R² against p_inv.",
        show_default=PlotKind.inclusion.value,
    ),
]
SelectOption = Annotated[str, typer.Option(metavar="RULE", help=f"{RULES.help}.")]
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        min=0.0,
        max=1.0,
        help="Inclusion probability that --select threshold asks for.",
        show_default="0.5",
    ),
]
DeltaOption = Annotated[
    float | None,
    typer.Option(
        metavar="D",
        help="Share of the residual variance that coefficients may explain by differing between environments.",
        show_default=f"{_TOLERANCE.delta:g}",
    ),
]
TauOption = Annotated[
    float | None,
    typer.Option(
        metavar="T",
        help="Relative spread that the noise may have between environments.",
        show_default=f"{_TOLERANCE.tau:g}",
    ),
]
LevelOption = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="Smallest p-value of a subset that counts as invariant, if some subset reaches it.",
        show_default=f"{_TOLERANCE.level:g}, or {_STRICT.level:g} with --strict",
    ),
]
WeakLevelOption = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="The same where no subset reaches --level; as high as that: no second chance.",
        show_default=f"{_TOLERANCE.weak_level:g}, or --level with --strict",
    ),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Test exact invariance: no --delta, no --tau.")]
SaveOption = Annotated[
    Path | None,
    typer.Option(
        "--save", metavar="MODEL", help="Save the model as JSON, for `invariance predict`.", show_default=False
    ),
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="HTML",
        help="Save a page for people: answer, caveats, tables, pictures.",
        show_default=False,
    ),
]
ComparedOption = Annotated[
    str | None,
    typer.Option(
        "--compare",
        metavar="A,B,C",
        help="Methods beside it in the report, as of `invariance compare`.",
        show_default="none",
    ),
]
FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Table: .csv, .tsv (both also .gz), .parquet or .xlsx; - is standard input.",
        show_default=False,
    ),
]
FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="Table: .csv, .tsv (both also .gz), .parquet or .xlsx; - is standard input. Or several files of one kind, "
        "a folder or a quoted pattern, 'data/*.parquet': they are read in pieces.",
        show_default=False,
    ),
]
StreamOption = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Read in pieces and keep moments, not rows.",
        show_default="several files, and files from 500 MB on or too large for memory",
    ),
]
SepOption = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="What separates cells: , ; | or tab.", show_default="what the file shows"),
]
DecimalOption = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="What begins decimals: . or ,", show_default="what the file shows, and it says"),
]
ThousandsOption = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="What separates thousands: . , ' or a space.", show_default="nothing"),
]
EncodingOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of a text file, such as latin-1.", show_default="UTF-8")
]
SheetOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of an Excel file.", show_default="its only sheet")
]
NaOption = Annotated[
    str | None,
    typer.Option(metavar="A,B,C", help="Words that stand for missing values too.", show_default="NA and the like"),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No notes and no progress: the result, warnings and errors alone.")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Also say what was read, and what took how long.")]
ChainsOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Chains of --engine tempering.", show_default="4")
]
StepsOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Most steps of each of them.", show_default="3000")
]
OutcomeOption = Annotated[str, typer.Option(metavar="COL", help="Column to predict.", show_default=False)]
EnvironmentOption = Annotated[
    str, typer.Option(metavar="COL", help="Column that says which environment a row is from.", show_default=False)
]
FeaturesOption = Annotated[
    str | None, typer.Option(metavar="A,B,C", help="Columns to choose from.", show_default="all others")
]
ExcludeOption = Annotated[
    str | None, typer.Option(metavar="A,B,C", help="Columns that are not features.", show_default="none")
]
CategoricalOption = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,C", help="Columns of codes: each value is a level, as of text.", show_default="columns of text"
    ),
]
NumericOption = Annotated[
    str | None, typer.Option(metavar="A,B,C", help="Columns of text to read as numbers.", show_default="none")
]
MissingOption = Annotated[Missing, typer.Option(help="Rows with missing values: stop, or leave them out.")]
MaxSizeOption = Annotated[
    int | None,
    typer.Option(metavar="K", min=0, help="Most features in a subset.", show_default="what the data allow"),
]
EventOption = Annotated[
    str | None,
    typer.Option(
        metavar="COL",
        help="Column of 0 and 1: whether the time that --outcome is ended with the event, or was censored.",
        show_default="none",
    ),
]
ExposureOption = Annotated[
    str | None,
    typer.Option(metavar="COL", help="Column of what --outcome counts events in: years, persons.", show_default="none"),
]
FamilyOption = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"Model of the outcome: {', '.join(FAMILIES)}. auto: by the outcome, and it says why. With settings: "
        '"logistic(pseudo_rows=0)".',
    ),
]
PriorOption = Annotated[
    str, typer.Option(metavar="PRIOR", help=f"{', '.join(PRIORS.forms)}; numbers for capital letters.")
]
EngineOption = Annotated[
    str,
    typer.Option(
        metavar="ENGINE",
        help=f'{ENGINES.help}; auto: exact while quick. With settings: "tempering(chains=8, steps=20000)".',
    ),
]
ProcessesOption = Annotated[int | None, typer.Option(metavar="N", min=1, help="Processes.", show_default="all cores")]
DaskOption = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Send the work to this Dask scheduler instead.", show_default=False),
]
JobsOption = Annotated[int | None, typer.Option(metavar="N", min=1, help="Threads.", show_default="all cores")]
SeedOption = Annotated[int, typer.Option(metavar="N", min=0, help="For engines that draw; exact does not.")]
MinRowsOption = Annotated[
    int, typer.Option(metavar="N", min=0, help="Leave out environments with fewer rows.", show_default="none")
]
DropEnvironmentOption = Annotated[
    str | None, typer.Option(metavar="A,B", help="Environments to leave out.", show_default="none")
]
MergeOption = Annotated[
    str | None, typer.Option(metavar="A+B=C", help="Environments that become one, with its label.", show_default="none")
]


def refuse_both(jobs: int | None, dask: str | None) -> None:
    if dask is not None and jobs is not None:
        raise typer.BadParameter("--jobs is for this machine and --dask for a cluster: use one of them.")


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer reads it: each group among its parameters is replaced by its options, in its place."""
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
    for name, parameter in inspect.signature(taker).parameters.items():
        if is_dataclass(hints[name]):
            yield from _options(hints[name])
        else:
            yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])


_NAME = re.compile(r'\s*(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^,]*?))\s*(?:,|$)')

_LABEL = re.compile(r'\s*(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^,+="]*?))\s*(?P<next>[,+=]|$)')


def read_names(text: str | None) -> list[str]:
    """The names in an argument; empty ones, without quotes, are left out."""
    names, position = [], 0
    while text and position < len(text):
        match = _NAME.match(text, position)
        assert match is not None
        names.append(_unquoted(match))
        position = match.end()
    return [name for name in names if name]


def write_names(names: Iterable[str]) -> str:
    """The argument that `read_names` takes apart into these names."""
    return ",".join(map(_written, names))


def read_merges(text: str | None) -> dict[Hashable, list[str]]:
    """{new label: labels} of an argument a+b=c,d+e=f"""
    if not text:
        return {}
    labels, signs, position = [], "", 0
    while position < len(text) and (match := _LABEL.match(text, position)) is not None:
        labels.append(_unquoted(match))
        signs, position = signs + match["next"], match.end()
    well_formed = re.fullmatch(r"\++=(,\++=)*", signs) and len(labels) == len(signs) + 1
    if position < len(text) or not all(labels) or not well_formed:
        raise SettingError(
            f"cannot read --merge {text!r}: write a+b=c, or a+b=c,d+e=f, with the new label last; a label that holds "
            "a comma, + or = goes in double quotes."
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


def _unquoted(match: re.Match[str]) -> str:
    quoted: str | None = match["quoted"]
    return str(match["plain"]) if quoted is None else quoted.replace('""', '"')


def _written(name: str) -> str:
    if "," in name or name.startswith('"') or name != name.strip():
        doubled = name.replace('"', '""')
        return f'"{doubled}"'
    return name
