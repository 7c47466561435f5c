"""The commands `sweep`, every column as the outcome of all others, and `edges`, its findings with
control of errors."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._tools.files import check_writable
from ..exceptions import DataError
from .console import messages, say
from .options import (
    ENVIRONMENT,
    PRIOR,
    FilesArgument,
    ModelOptions,
    ResultOptions,
    TableOptions,
    option,
    read_names,
    setting,
)

if TYPE_CHECKING:
    from ..sweeps.data import SweepData
    from .inputs import InputFiles


@dataclass(frozen=True, kw_only=True)
class SweepOptions(ModelOptions, TableOptions):
    """Hold the options of a sweep, with defaults for many features."""

    environment: str = setting(MISSING, "COL", "Column of environments.", False, *ENVIRONMENT)
    max_size: int | None = setting(
        None, "K", "Most features in a subset.", "20, or what the data allow", min=0
    )
    family: str = setting(
        "auto", "FAMILY", "Outcome model: auto (gaussian), mean or bayesian_linear_gaussian.", True
    )
    prior: str = setting("beta-binomial", "PRIOR", PRIOR, True)
    jobs: int | None = setting(None, "N", "Processes.", "all cores", min=1)


def sweep(
    files: FilesArgument,
    out: Annotated[Path, option("DIR", "Folder for the results.")],
    *,
    outcomes: Annotated[
        str, option("A,B|FILE", "Columns to predict, or a file with one name a line.", True)
    ] = "all",
    perturbed: Annotated[
        str | None,
        option(
            "COL", "Column that names what a row perturbs (A or A;B), left out for these outcomes."
        ),
    ] = None,
    allow_unmeasured: Annotated[
        bool,
        option(
            None, "Use rows that perturb what is no column.", False, "--allow-unmeasured", rare=True
        ),
    ] = False,
    given: SweepOptions,
    top: Annotated[
        int, option("N", "Features to keep of each outcome; 0 is all.", True, rare=True, min=0)
    ] = 20,
    device: Annotated[str | None, option("cuda", "Send the work to a GPU instead.")] = None,
    dask: Annotated[
        str | None, option("ADDRESS", "Send the work to this Dask scheduler instead.")
    ] = None,
) -> None:
    """Fit every column as the outcome of all others.

    Writes a Parquet data set: outcome, feature, inclusion probability, whether it is selected, and
    the verdict.
    """
    with messages(given):
        if dask is not None and given.jobs is not None:
            raise typer.BadParameter(
                "--jobs is for this machine and --dask for a cluster: use one of them."
            )
        from .outputs import checked_outputs, deliver

        folder = out.expanduser()
        check_writable(folder / "manifest.json")
        outputs = checked_outputs({"json": given.json}, None)
        model = given.bip()
        chosen = _outcomes(outcomes)

        from ..priors import parse_prior
        from ..sweeps.sweep import checked_model, largest_subset, run_sweep
        from .inputs import InputFiles

        checked_model(model, device, dask)
        data = _read(InputFiles(files), given, perturbed, allow_unmeasured)
        if given.max_size is None:
            model.set_params(prior=parse_prior(given.prior, largest_subset(data, given.deviations)))
        try:
            asked = (
                data,
                model,
                chosen,
                folder,
                top or None,
                given.jobs or -1,
                dask,
                given.seed,
                given.progress,
            )
            run = run_sweep(*asked, device)
        except KeyboardInterrupt:
            say("note", f"what is finished is in {str(folder)!r}; the same command continues")
            raise
        deliver(run, outputs, {"json": run.to_json}, f"Saved to {folder}")


def edges(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder of a sweep.", show_default=False)
    ],
    *,
    fdr: Annotated[
        float, option("RATE", "Most outcomes with a false edge among those with edges.", True)
    ] = 0.1,
    of: Annotated[
        str | None, option("COL", "Show all pairs of one column, with p-values.", False)
    ] = None,
    checks: Annotated[
        Path | None, option("CSV", "Verdicts to show beside them, by outcome and feature.", False)
    ] = None,
    plot: Annotated[Path | None, option("FILE", "Save the picture of these pairs.", False)] = None,
    csv: Annotated[
        Path | None, option("CSV", "Save all edges, or these pairs, as a table.")
    ] = None,
    speech: ResultOptions,
) -> None:
    """List the direct causes that a sweep found, with control of false ones.

    A feature is one where no subset without it is invariant.
    """
    with messages(speech):
        if of is None and (checks is not None or plot is not None):
            raise typer.BadParameter(
                "--checks and --plot are for the pairs of one column: add --of COL."
            )
        from .._tools.json import written
        from .._tools.sections import as_text
        from ..data.reading import read_table
        from ..sweeps import edges as found_by
        from ..sweeps.edge_page import edges_of
        from ..sweeps.store import read_sweep
        from .outputs import Files, checked_outputs, deliver

        outputs = checked_outputs({"csv": csv, "json": speech.json, "plot": plot}, checks)
        table = read_sweep(folder)
        content = {
            "format": "invariance.edges/1",
            "fdr": fdr,
            "n_outcomes": table["outcome"].nunique(),
        }
        if of is None:
            found = found_by.edges(table, fdr)
            text = as_text(found_by.edges_sections(table, found, fdr))
            files: Files = {}
        else:
            page = edges_of(table, of, fdr, None if checks is None else read_table(checks))
            found = page.table
            text = str(page)
            content["of"] = of
            files = {"plot": page.save_plot}
        tables: Files = {
            "csv": partial(found.to_csv, index=False),
            "json": partial(written, content | {"edges": found.to_dict("records")}),
        }
        deliver(text, outputs, {**tables, **files})


def _read(
    named: InputFiles, given: SweepOptions, perturbed: str | None, unmeasured: bool
) -> SweepData:
    """Return the data of a sweep: of several files moments, not rows."""
    from ..sweeps.data import moments_of_columns, read_sweep_data

    columns = given.columns
    environments = given.environments
    missing = given.missing
    if named.file is not None:
        table = given.open(named.file)
        return read_sweep_data(
            table, given.environment, perturbed, columns, environments, missing, unmeasured
        )
    if perturbed is not None:
        raise DataError(
            "--perturbed leaves out other rows for each outcome: write them to one file."
        )
    from ..data.sources import source_of

    source = source_of(named.rows, form=given.form)
    asked = given.environment, columns, environments, missing, given.jobs or -1, given.progress
    moments = moments_of_columns(source, *asked)
    say("note", f"read {moments.n_rows:,} rows of {source.name} in pieces, and kept their moments")
    return read_sweep_data(moments)


def _outcomes(text: str) -> list[str] | None:
    """The names in a list or in a file; None for all columns."""
    if text == "all":
        return None
    path = Path(text).expanduser()
    if not path.is_file():
        return read_names(text)
    # Names that are not UTF-8 are not found among the columns.
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    return [line.strip() for line in lines if line.strip()]
