"""The command line. Commands import what they need when they run, so that --help answers at once."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .._version import __version__
from ..app.server import register as register_app
from ..baselines.registry import listing, remarks
from .advice import comparison_for_command_line
from .console import say, show, shown_progress
from .explain import register as register_explain
from .inputs import ModelOptions, SpeechOptions, TableOptions, say_family, say_prior
from .options import (
    ComparedOption,
    EnvironmentOption,
    FilesArgument,
    JobsOption,
    JsonOption,
    OutcomeOption,
    PlotKindOption,
    PlotOption,
    ReportOption,
    SaveOption,
    SeedOption,
    StreamOption,
    with_option_groups,
)
from .outputs import checked_outputs, deliver, deliver_report, save
from .predict import register as register_predict
from .reporting import TYPED, again, check_compared, write_page
from .streaming import ALL_METHODS, Named, fitted, read, read_rows
from .studies import register
from .sweep import register as register_sweep


class OneLineErrors(TyperGroup):
    """Says usage errors as one line, like every other error, and takes no option twice: the first would be lost."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not ctx.resilient_parsing:
            near = _closest(args[0], list(self.commands))
            ctx.fail(f"No such command {args[0]!r}.{f' Did you mean {near!r}?' if near else ''}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            ctx.meta[TYPED] = (name, *rest)
            inside = type(ctx)(command, info_name=name, parent=ctx)
            _refuse_repeated(command.make_parser(inside).parse_args(list(rest))[2], inside)
        return name, command, rest

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
            say("error", f"{_message_of(error)}{hint}")
            sys.exit(2)
        return sys.exit(code) if standalone_mode else code


def _closest(name: str, known: list[str]) -> str | None:
    from ..data.checks import closest

    return closest(name, known)


def _message_of(error: Any) -> str:
    """One sentence about wrong usage, with the nearest option where one is unknown."""
    unknown, known = getattr(error, "option_name", None), getattr(error, "possibilities", None)
    if unknown is not None and known is not None:
        near = _closest(unknown, list(known))
        return f"No such option: {unknown}.{f' Did you mean {near}?' if near else ''}"
    message = str(error.format_message()).replace("Value error, ", "")
    return message if message.endswith((".", "?")) else f"{message}."


def _refuse_repeated(given: list[Any], context: Any) -> None:
    """Raise where an option that has one value is given more than once; given: the parameters in their order."""
    for option in given:
        single = not getattr(option, "is_flag", True) and not option.multiple
        if single and sum(other is option for other in given) > 1:
            name = option.opts[0]
            several = _LISTS.get(option.metavar)
            once = "give it once" if several is None else f"write one list, {name} {several}"
            raise typer.BadParameter(f"{name} is given more than once: {once}.", ctx=context)


_LISTS = {"A,B": "a,b", "A,B,C": "a,b,c", "A+B=C": "a+b=c,d+e=f"}
_EXAMPLES = """\b
Examples:
  invariance demo
  invariance fit table.csv --outcome yield --environment site
"""

_FIT_EXAMPLES = """\b
Examples:
  invariance fit table.csv --outcome yield --environment site
  invariance fit patients.csv --outcome pressure --environment hospital \\
      --exclude patient_id,date --categorical ward --min-rows 20
  invariance fit table.csv --outcome yield --environment site \\
      --features rain,soil,seed --max-size 2 --prior "inclusion(0.1)" \\
      --missing drop --json posterior.json --plot inclusion.png
  invariance fit patients.csv --outcome died --environment hospital
  invariance fit patients.csv --outcome years --event died \\
      --environment hospital
  invariance fit sites.csv --outcome accidents --exposure hours \\
      --environment site --family poisson
  invariance fit table.csv --outcome yield --environment site --strict \\
      --plot forest.png --plot-kind coefficients
  zcat yields.csv.gz | invariance fit - --outcome yield --environment site
  invariance fit 'years/*.parquet' --outcome yield --environment site
  invariance fit table.csv --outcome yield --environment site \\
      --report report.html --compare ICP,Lasso
"""

_COMPARE_EXAMPLES = f"""\b
Methods:
{listing("  ")}

{remarks()}

\b
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
  invariance demo --csv patients.csv --new-csv new_patients.csv
"""

app = typer.Typer(
    cls=OneLineErrors,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


@app.command(epilog=_FIT_EXAMPLES)
@with_option_groups
def fit(
    files: FilesArgument,
    outcome: OutcomeOption,
    environment: EnvironmentOption,
    *,
    context: typer.Context,
    table: TableOptions,
    stream: StreamOption = None,
    settings: ModelOptions,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How many subsets to list.")] = 10,
    json: JsonOption = None,
    plot: PlotOption = None,
    plot_kind: PlotKindOption = None,
    save_to: SaveOption = None,
    report: ReportOption = None,
    compared: ComparedOption = None,
    jobs: JobsOption = None,
    seed: SeedOption = 0,
    speech: SpeechOptions,
) -> None:
    """Find the features of a table that predict alike in every environment.

    Prints what was decided and why, feature by feature; then the posterior over invariant subsets: how probable each
    feature and each subset is, and what that means in words.

    The model of the outcome follows from its values: two of them, counts, times with --event, or any numbers. Which one
    it is, and why, is said; --family chooses another.
    """
    with speech.speaking():
        named = Named.of(files)
        outputs = checked_outputs(json, plot, source=named.file, model=save_to, plot_kind=plot_kind, report=report)
        check_compared(compared, outputs.report)
        model = settings.bip(jobs, seed)
        rows = read(named, outcome, environment, table, model, stream, None if compared is None else ALL_METHODS)
        say_family(model, rows.data)
        say_prior(settings, rows.data)
        deliver(fitted(model, rows, environment), top, outputs)
        if outputs.model is not None:
            save(outputs.model, model.save)
            show(f"\n{model.new_environments()}")
            show(f"\nSaved the model to {outputs.model}")
        if outputs.report is not None:
            typed = context.meta.get(TYPED, ())
            source = again(named, outcome, environment, table, rows.data, typed)
            write_page(outputs.report, model, rows.data, compared, source)


@app.command(epilog=_COMPARE_EXAMPLES)
@with_option_groups
def compare(
    files: FilesArgument,
    outcome: OutcomeOption,
    environment: EnvironmentOption,
    *,
    table: TableOptions,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help='Methods to run, out of those below. With settings: "ICP(max_size=3),Lasso".',
            show_default="all but those for simulations",
        ),
    ] = None,
    settings: ModelOptions,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Save the comparison as JSON.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="PNG", help="Save a picture, methods by features.", show_default=False),
    ] = None,
    jobs: JobsOption = None,
    seed: SeedOption = 0,
    speech: SpeechOptions,
) -> None:
    """Run several methods on one table and show their selections side by side.

    BIP is that of `invariance fit`: --family, --max-size, --prior, --engine, --jobs, --seed, and those from --select
    to --strict, are its options.
    """
    with speech.speaking():
        named = Named.of(files)
        outputs = checked_outputs(json, plot, source=named.file)
        bip = settings.bip(jobs, seed)
        data = read_rows(named, outcome, environment, table, ALL_METHODS if named.file is None else None)
        say_family(bip, data)
        say_prior(settings, data)

        from ..baselines.comparison import compare as run_methods
        from ..baselines.comparison import save_comparison

        result = run_methods(data, methods, bip)
        text = str(comparison_for_command_line(result))
        deliver_report(
            text, "comparison", result.to_json, lambda path: save_comparison(result, path), outputs
        )


register_explain(app)
register_sweep(app)


@app.command(epilog=_DEMO_EXAMPLES)
@with_option_groups
def demo(
    *,
    json: JsonOption = None,
    plot: PlotOption = None,
    plot_kind: PlotKindOption = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="CSV", help="Save the data as a table that fit can read.", show_default=False)
    ] = None,
    new_csv: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV", help="Save a fifth hospital, which the fit has not seen, for predict.", show_default=False
        ),
    ] = None,
    speech: SpeechOptions,
) -> None:
    """Show the method at work on invented data whose truth is known."""
    with speech.speaking():
        outputs = checked_outputs(json, plot, csv, plot_kind=plot_kind, new_csv=new_csv)

        from ..datasets import make_example, make_new_hospital
        from ..estimators.bip import BIP
        from ..posterior.summary import format_probability, format_subset

        data = make_example()
        show(
            f"Invented blood pressures in {data.n_environments} hospitals: age, exercise and smoking cause them\n"
            "alike everywhere; the other five features result from them, differently in each.\n"
        )
        model = BIP(n_jobs=-1, progress=shown_progress()).fit_data(data)
        posterior = model.posterior_
        assert data.truth is not None
        truth = format_subset([name for name, true in zip(data.feature_names, data.truth, strict=True) if true])
        probability = format_probability(posterior.probability(data.truth))
        found = bool((posterior.mode_mask == data.truth).all())
        verdict = "was found: it is the most probable" if found else "was not found: it is not the most probable"
        closing = f"The true subset {truth}\n{verdict} ({probability})."
        deliver(model, 10, outputs, closing=closing, data=data, new=make_new_hospital())
        if csv is not None:
            names = f"--outcome {data.outcome_name} --environment {data.environment_name}"
            show(f"\nNow try\n  invariance fit {shlex.quote(str(csv))} {names}{_then_predict(new_csv)}")


def _then_predict(new: Path | None) -> str:
    if new is None:
        return ""
    return f" \\\n      --save model.json\n  invariance predict model.json {shlex.quote(str(new))} --out predicted.csv"


register(app)
register_predict(app)
register_app(app)
