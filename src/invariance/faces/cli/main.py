"""The command line. Commands import what they need when they run, so that --help answers at once."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from ..._tools.files import check_writable, replacing
from ..._version import __version__
from ...baselines.registry import listing, remarks
from ...exceptions import OutputError
from ...inference.registry import ENGINES
from ...priors.registry import PRIORS
from .advice import comparison_for_command_line, posterior_for_command_line
from .console import plain_speech, say, show
from .studies import register

if TYPE_CHECKING:
    from ...data.multi_environment import MultiEnvironmentData
    from ...estimators.bip import BIP
    from ...posterior.posterior import Posterior

_PICTURES = (".png", ".pdf", ".svg")


class Missing(StrEnum):
    error = "error"
    drop = "drop"


class OneLineErrors(TyperGroup):
    """Says usage errors as one line, like every other error."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except Exception as error:
            # Depending on its version typer raises click's classes or a copy of them: know them by their shape.
            if not standalone_mode or not hasattr(error, "format_message"):
                raise
            context = getattr(error, "ctx", None)
            hint = f" Try '{context.command_path} --help'." if context else ""
            message = error.format_message().replace("Value error, ", "")
            say("error", f"{message}{'' if message.endswith(('.', '?')) else '.'}{hint}")
            sys.exit(2)
        return sys.exit(code) if standalone_mode else code


_EXAMPLES = """\b
Examples:
  invariance demo
  invariance fit table.csv --outcome yield --environment site
"""

_FIT_EXAMPLES = """\b
Examples:
  invariance fit table.csv --outcome yield --environment site
  invariance fit table.csv --outcome yield --environment site \\
      --features rain,soil,seed --max-size 2 --prior "inclusion(0.1)" \\
      --missing drop --json posterior.json --plot inclusion.png
"""

_COMPARE_HELP = f"""Run several methods on one table and show their selections side by side.

\b
{listing("")}

BIP is that of `invariance fit`: --max-size, --prior, --inference, --jobs and --seed are its options. {remarks()}
"""

_COMPARE_EXAMPLES = """\b
Examples:
  invariance compare table.csv --outcome yield --environment site
  invariance compare table.csv --outcome yield --environment site \\
      --methods BIP,ICP,Lasso --json comparison.json --plot comparison.png
"""

_DEMO_EXAMPLES = """\b
Examples:
  invariance demo
  invariance demo --json posterior.json --plot inclusion.png
  invariance demo --csv example.csv
"""

app = typer.Typer(
    cls=OneLineErrors,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

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


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"invariance {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=_EXAMPLES)
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Find the features that predict an outcome the same way in every environment.

    Bayesian invariant prediction: from a table with an outcome, features and an environment column to the posterior
    probability of every subset of the features.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


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


@app.command(epilog=_FIT_EXAMPLES)
def fit(
    file: FileArgument,
    outcome: OutcomeOption,
    environment: EnvironmentOption,
    features: FeaturesOption = None,
    max_size: MaxSizeOption = None,
    prior: PriorOption = "uniform",
    inference: InferenceOption = "auto",
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How many subsets to list.")] = 10,
    missing: MissingOption = Missing.error,
    json: JsonOption = None,
    plot: PlotOption = None,
    jobs: JobsOption = None,
    seed: SeedOption = 0,
) -> None:
    """Fit the posterior over invariant subsets to a table.

    Prints the probability that each feature belongs to the invariant subset, the most probable subsets, and what they
    mean in words.
    """
    with plain_speech():
        outputs = _checked_outputs(json, plot, source=file)
        model = _bip(prior, max_size, inference, jobs, seed)
        data = _table(file, outcome, environment, features, missing)
        _deliver(model.fit_data(data).posterior_, top, outputs)


@app.command(help=_COMPARE_HELP, epilog=_COMPARE_EXAMPLES)
def compare(
    file: FileArgument,
    outcome: OutcomeOption,
    environment: EnvironmentOption,
    features: FeaturesOption = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help='Methods to run, out of those above. With settings: "ICP(max_size=3),Lasso".',
            show_default="all but Oracle",
        ),
    ] = None,
    max_size: MaxSizeOption = None,
    prior: PriorOption = "uniform",
    inference: InferenceOption = "auto",
    missing: MissingOption = Missing.error,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Save the comparison as JSON.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="PNG", help="Save a picture, methods by features.", show_default=False),
    ] = None,
    jobs: JobsOption = None,
    seed: SeedOption = 0,
) -> None:
    with plain_speech():
        outputs = _checked_outputs(json, plot, source=file)
        bip = _bip(prior, max_size, inference, jobs, seed)
        data = _table(file, outcome, environment, features, missing)

        from ...comparison.comparison import compare as run_methods

        result = run_methods(data, methods, bip)
        saved = []
        try:
            if outputs.json is not None:
                _save(outputs.json, result.to_json)
                saved.append(f"Saved the comparison to {outputs.json}")
            if outputs.plot is not None:
                from ...comparison.plot import save_comparison

                _save(outputs.plot, lambda path: save_comparison(result, path))
                saved.append(f"Saved the picture to {outputs.plot}")
        finally:
            show(str(comparison_for_command_line(result)))
        if saved:
            show("\n" + "\n".join(saved))


def _bip(prior: str, max_size: int | None, inference: str, jobs: int | None, seed: int) -> BIP:
    from ...estimators.bip import BIP
    from ...inference.parsing import parse_inference
    from ...priors.parsing import parse_prior

    belief, engine = parse_prior(prior, max_size), parse_inference(inference)
    return BIP(prior=belief, inference=engine, n_jobs=jobs or -1, random_state=seed)


def _table(file: Path, outcome: str, environment: str, features: str | None, missing: Missing) -> MultiEnvironmentData:
    from ...data.multi_environment import MultiEnvironmentData

    names = None if features is None else [name.strip() for name in features.split(",") if name.strip()]
    return MultiEnvironmentData.from_table(file, outcome, environment, features=names, missing=missing.value)


@app.command(epilog=_DEMO_EXAMPLES)
def demo(
    json: JsonOption = None,
    plot: PlotOption = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Save the data as a table that fit can read.", show_default=False)
    ] = None,
) -> None:
    """Show the method at work on invented data whose truth is known."""
    with plain_speech():
        outputs = _checked_outputs(json, plot, csv)

        from ...datasets import make_example
        from ...estimators.bip import BIP
        from ...posterior.summary import format_probability, format_subset

        data = make_example()
        show(
            f"Invented blood pressures in {data.n_environments} hospitals: age, exercise and smoking cause them\n"
            "alike everywhere; the other five features result from them, differently in each.\n"
        )
        posterior = BIP(n_jobs=-1).fit_data(data).posterior_
        assert data.truth is not None
        truth = format_subset([name for name, true in zip(data.feature_names, data.truth, strict=True) if true])
        probability = format_probability(posterior.probability(data.truth))
        found = bool((posterior.mode_mask == data.truth).all())
        verdict = "was found: it is the most probable" if found else "was not found: it is not the most probable"
        _deliver(posterior, 10, outputs, f"The true subset {truth}\n{verdict} ({probability}).", data)
        if csv is not None:
            names = f"--outcome {data.outcome_name} --environment {data.environment_name}"
            show(f"\nNow try\n  invariance fit {shlex.quote(str(csv))} {names}")


@dataclass(frozen=True)
class _Outputs:
    """Files to write, in this order; None where none was asked for."""

    json: Path | None
    plot: Path | None
    csv: Path | None


def _checked_outputs(
    json: Path | None, plot: Path | None, csv: Path | None = None, source: Path | None = None
) -> _Outputs:
    """Complete the paths and refuse, before any long computation, those that cannot be written."""
    json, plot, csv = (None if path is None else Path(os.path.expanduser(path)) for path in (json, plot, csv))
    if plot is not None:
        plot = plot if plot.suffix else plot.with_name(plot.name + ".png")
        if plot.suffix.lower() not in _PICTURES:
            raise OutputError(f"cannot write a picture as {plot.suffix!r}: use {', '.join(_PICTURES)}")
    if csv is not None and csv.suffix.lower() != ".csv":
        raise OutputError(f"cannot write a table as {csv.name!r}: use a name that ends in .csv")
    taken = set() if source is None else {os.path.realpath(os.path.expanduser(source))}
    for path in (json, plot, csv):
        if path is None:
            continue
        with _write_errors(path):
            check_writable(path)
        if os.path.realpath(path) in taken:
            raise OutputError(f"cannot write {str(path)!r}: the same file is named twice, choose another name")
        taken.add(os.path.realpath(path))
    return _Outputs(json, plot, csv)


def _deliver(
    posterior: Posterior, top: int, outputs: _Outputs, closing: str = "", data: MultiEnvironmentData | None = None
) -> None:
    """Save what was asked for, print the result (also when saving fails) and say where the files are."""
    saved = []
    try:
        if outputs.json is not None:
            _save(outputs.json, posterior.to_json)
            saved.append(f"Saved the posterior to {outputs.json}")
        if outputs.plot is not None:
            from ...posterior.plots import save_inclusion

            truth = None if data is None else data.truth
            _save(outputs.plot, lambda path: save_inclusion(posterior, path, truth=truth))
            saved.append(f"Saved the picture to {outputs.plot}")
        if outputs.csv is not None and data is not None:
            _save(outputs.csv, lambda path: data.to_frame().to_csv(path, index=False))
            saved.append(f"Saved the data to {outputs.csv}")
    finally:
        show(posterior_for_command_line(posterior).summary(top))
    for paragraph in (closing, "\n".join(saved)):
        if paragraph:
            show(f"\n{paragraph}")


def _save(path: Path, write: Callable[[Path], object]) -> None:
    with _write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            write(temporary)


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


register(app)
