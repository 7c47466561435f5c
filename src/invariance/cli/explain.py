"""The command that says which environment breaks invariance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._tools.text import wrap
from .advice import for_command_line
from .inputs import ModelOptions, SpeechOptions, TableOptions, say_family
from .options import (
    EnvironmentOption,
    FilesArgument,
    JobsOption,
    OutcomeOption,
    SeedOption,
    StreamOption,
    read_names,
    with_option_groups,
)
from .outputs import checked_outputs, deliver_report
from .streaming import Named, fitted, read

if TYPE_CHECKING:
    from .._tools.arrays import Mask
    from ..data.multi_environment import MultiEnvironmentData
    from ..moments.moments import Moments

_EXAMPLES = """\b
Examples:
  invariance explain table.csv --outcome yield --environment site
  invariance explain table.csv --outcome yield --environment site \\
      --subset rain,soil --json diagnosis.json --plot environments.png
  invariance explain table.csv --outcome yield --environment site \\
      --drop-environment dakar --merge lima+cusco=peru --min-rows 20
  invariance explain years/ --outcome yield --environment site
"""


def explain(
    files: FilesArgument,
    outcome: OutcomeOption,
    environment: EnvironmentOption,
    *,
    subset: Annotated[
        str | None,
        typer.Option(metavar="A,B,C", help='Features to look at; "" is none.', show_default="those selected"),
    ] = None,
    leave_out: Annotated[
        bool | None,
        typer.Option(help="Fit again without each environment.", show_default="where all subsets are scored"),
    ] = None,
    table: TableOptions,
    stream: StreamOption = None,
    settings: ModelOptions,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Save the diagnosis as JSON.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot", metavar="PNG", help="Save a picture of p-values by environment and part.", show_default=False
        ),
    ] = None,
    jobs: JobsOption = None,
    seed: SeedOption = 0,
    speech: SpeechOptions,
) -> None:
    """Say which environment breaks invariance, and in what.

    Fits as `invariance fit` does and compares each environment with all others: in the intercept, in the slopes and in
    the variance of the noise. Then: what the result would be without each of them, which feature to move so that the
    leading subsets come apart, and what small environments cost.
    """
    with speech.speaking():
        from ..decisions.diagnosis import as_text
        from ..decisions.plots import save_environments

        named = Named.of(files)
        outputs = checked_outputs(json, plot, source=named.file)
        model = settings.bip(jobs, seed)
        rows = read(named, outcome, environment, table, model, stream)
        data = rows.data
        say_family(model, data)
        chosen = None if subset is None else _named(subset, data)
        diagnosis = fitted(model, rows, environment).diagnose(chosen, "auto" if leave_out is None else leave_out)
        text = "\n\n".join([as_text(diagnosis, for_command_line), *_notes(data.losses)])
        deliver_report(text, "diagnosis", diagnosis.to_json, lambda path: save_environments(diagnosis, path), outputs)


def _named(subset: str, data: MultiEnvironmentData | Moments) -> Mask:
    """(p,) the features that --subset names"""
    from ..data.features import as_mask
    from ..exceptions import SettingError

    names = read_names(subset)
    constant = [name for name in names if name in {*data.constants, *getattr(data, "dropped_features", ())}]
    if constant:
        raise SettingError(f"{constant[0]!r} is constant and no feature: leave it out of --subset.")
    return as_mask(names, data.feature_names)


def _notes(losses: tuple[str, ...]) -> Iterator[str]:
    if losses:
        yield "\n".join(["Notes", *(line for note in losses for line in wrap(for_command_line(note), "  ", "    "))])


def register(app: typer.Typer) -> None:
    app.command(epilog=_EXAMPLES)(with_option_groups(explain))
