"""The options that commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ...inference.registry import ENGINES
from ...priors.registry import PRIORS


class Missing(StrEnum):
    error = "error"
    drop = "drop"


JsonOption = Annotated[
    Path | None, typer.Option("--json", metavar="OUT", help="Save the posterior as JSON.", show_default=False)
]
PlotOption = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="PNG",
        help="Save a picture of the inclusion probabilities (.png, .pdf or .svg).",
        show_default=False,
    ),
]
SaveOption = Annotated[
    Path | None,
    typer.Option(
        "--save", metavar="MODEL", help="Save the model as JSON, for `invariance predict`.", show_default=False
    ),
]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="Table: .csv, .tsv (both also .gz) or .parquet.", show_default=False)
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
PriorOption = Annotated[
    str, typer.Option(metavar="PRIOR", help=f"{', '.join(PRIORS.forms)}; numbers for capital letters.")
]
InferenceOption = Annotated[
    str,
    typer.Option(
        metavar="ENGINE",
        help=f'{ENGINES.help}; auto: exact while quick. With settings: "tempering(chains=8, steps=20000)".',
    ),
]
JobsOption = Annotated[int | None, typer.Option(metavar="N", min=1, help="Threads.", show_default="all cores")]
SeedOption = Annotated[int, typer.Option(metavar="N", min=0, help="For engines that draw; exact does not.")]
