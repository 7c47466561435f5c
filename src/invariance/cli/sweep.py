"""The command that fits every column as the outcome of all others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._tools.files import check_writable
from ..exceptions import DataError
from .console import say, show, shown_progress
from .inputs import ModelOptions, SpeechOptions, TableOptions
from .options import (
    DaskOption,
    EnvironmentOption,
    FilesArgument,
    PriorOption,
    ProcessesOption,
    SeedOption,
    read_names,
    refuse_both,
    with_option_groups,
)
from .streaming import Named, form_of, where

if TYPE_CHECKING:
    from ..sweeps.source import Reading

_EXAMPLES = """\b
Examples:
  invariance sweep table.csv --environment site --out sweep
  invariance sweep genes.parquet --environment kind --perturbed deleted \\
      --outcomes targets.txt --out sweep --jobs 8
  invariance sweep genes.parquet --environment kind --out sweep \\
      --engine "tempering(chains=2)" --dask tcp://10.0.0.1:8786
  invariance sweep genes.parquet --environment kind --out sweep \\
      --engine "vi(starts=['uninformative'])" --device cuda

After an interruption the same command goes on where it stopped. In Python, invariance.read_sweep("sweep") gives the
table.
"""


@dataclass(frozen=True)
class SweepOptions(ModelOptions):
    """With defaults for many features."""

    max_size: Annotated[
        int | None,
        typer.Option(metavar="K", min=0, help="Most features in a subset.", show_default="20, or what the data allow"),
    ] = None
    family: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Model of all outcomes: gaussian, mean or bayesian_linear_gaussian; auto: gaussian, for counts too.",
        ),
    ] = "auto"
    prior: PriorOption = "beta-binomial"


@dataclass(frozen=True)
class SweepTableOptions(TableOptions):
    """What comes with one outcome is no option of a sweep, which refuses it with the reason."""

    event: Annotated[str | None, typer.Option(hidden=True)] = None
    exposure: Annotated[str | None, typer.Option(hidden=True)] = None


@with_option_groups
def sweep(
    files: FilesArgument,
    environment: EnvironmentOption,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.", show_default=False)],
    *,
    outcomes: Annotated[
        str, typer.Option(metavar="A,B|FILE", help="Columns to predict, or a file with one name a line.")
    ] = "all",
    perturbed: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="Column with the name of the column that was intervened on in a row: it is not used for that outcome.",
            show_default="none",
        ),
    ] = None,
    table: SweepTableOptions,
    settings: SweepOptions,
    top: Annotated[
        int, typer.Option(metavar="N", min=0, help="Features to keep of each outcome; 0 is all of them.")
    ] = 20,
    jobs: ProcessesOption = None,
    device: Annotated[
        str | None, typer.Option(metavar="cuda", help="Send the work to a GPU instead.", show_default=False)
    ] = None,
    dask: DaskOption = None,
    seed: SeedOption = 0,
    speech: SpeechOptions,
) -> None:
    """Fit every column as the outcome of all others.

    Second moments are computed once. Each result is written to a Parquet data set soon after it is there: outcome,
    feature, inclusion probability, whether it is selected, and the verdict on what is selected.
    """
    with speech.speaking():
        refuse_both(jobs, dask)
        folder = out.expanduser()
        check_writable(folder / "manifest.json")
        model = settings.bip(None, seed)
        chosen = _outcomes(outcomes)

        from ..priors.priors import parse_prior
        from ..sweeps.sweep import checked_model, largest_subset, run_sweep
        from ..sweeps.sweep import refuse_both as refuse_device_and_dask
        from ..sweeps.text import sweep_lines

        refuse_device_and_dask(device, dask)
        checked_model(model)
        reading = _read(Named.of(files), table, environment, perturbed, jobs)
        if settings.max_size is None:
            model.set_params(prior=parse_prior(settings.prior, largest_subset(reading.source)))
        try:
            run = run_sweep(
                reading,
                model,
                chosen,
                folder,
                top or None,
                jobs or -1,
                dask,
                seed,
                shown_progress(),
                lambda s: say("note", s),
                device,
            )
        except KeyboardInterrupt:
            say("note", f"what is finished is in {str(folder)!r}; the same command goes on from there")
            raise
        show("\n".join([*sweep_lines(run), "", f"Saved to {folder}"]))


def register(app: typer.Typer) -> None:
    app.command(epilog=_EXAMPLES)(sweep)


def _read(named: Named, table: SweepTableOptions, environment: str, perturbed: str | None, jobs: int | None) -> Reading:
    """Of several files moments are kept, not rows."""
    from ..sweeps.source import read_source

    if named.file is not None:
        return read_source(table.open(named.file), environment, None, perturbed, **table.reading())
    if perturbed is not None:
        raise DataError(
            "--perturbed leaves rows out, one outcome after the other, for which they must all be in one file: write "
            "them to one and name that."
        )
    from ..data.outcomes import refuse
    from ..data.sources import source_of
    from ..sweeps.source import moments_of_columns

    options = table.reading()
    refuse("a sweep", event=options.pop("event"), exposure=options.pop("exposure"))
    source = source_of(named.rows, **form_of(table))
    moments = moments_of_columns(source, environment, options, jobs or -1, shown_progress())
    say("note", f"read {moments.n_rows:,} rows of {where(source)} in pieces, and kept their moments")
    return read_source(moments)


def _outcomes(text: str) -> list[str] | None:
    """The names in a list or in a file; None for all columns."""
    if text == "all":
        return None
    path = Path(text).expanduser()
    if not path.is_file():
        return read_names(text)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"--outcomes {text}: the file is not UTF-8 text. Save it as UTF-8.") from None
    return [line.strip() for line in lines if line.strip()]
