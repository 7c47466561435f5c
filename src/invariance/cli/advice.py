"""Remedies in the words of the command line.

Messages name remedies as Python writes them: missing='drop', engine=Tempering(chains=8). In a shell the same
remedies are options. Here, and nowhere else, the one is turned into the other, when a message is printed.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from ..baselines.registry import class_names
from ..inference.registry import ENGINES
from ..models.registry import SHORT
from .options import write_names

if TYPE_CHECKING:
    from ..baselines.comparison import Comparison
    from ..posterior.posterior import Posterior

Rule = tuple[str, Callable[[re.Match[str]], str]]
AnyPosterior = TypeVar("AnyPosterior", bound="Posterior")

_ENGINES = ENGINES.class_names
_METHODS = class_names()
_FIT = "fit that outcome by itself with `invariance fit`"
_LITERAL = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""


def _engine(match: re.Match[str]) -> str:
    settings = re.sub(r"(?<=\d)_(?=\d)|['\"]", "", match["engine_settings"])
    name = _ENGINES[match["engine"]]
    return f"--engine '{name}({settings})'" if settings else f"--engine {name}"


def _method(match: re.Match[str]) -> str:
    return f"--methods '{_METHODS.get(match['method'], match['method'])}({match['method_settings']})'"


def _screened(match: re.Match[str]) -> str:
    name = f"{_METHODS.get(match['screened'], match['screened'])}-screen"
    return f"--methods '{name}({match['screen_settings']})'" if match["screen_settings"] else f"--methods {name}"


def _columns(match: re.Match[str]) -> str:
    names = ast.literal_eval(match["columns"])
    return f"--{match['columns_as']} {shlex.quote(write_names(names))}"


def _dropped(match: re.Match[str]) -> str:
    return f"--drop-environment {shlex.quote(write_names(ast.literal_eval(match['dropped'])))}"


def _family(match: re.Match[str]) -> str:
    short = {name: typed for typed, name in SHORT.items()}
    return f"--family {short.get(match['family'], match['family'])}"


def _option(name: str, literal: str) -> str:
    return f"--{name} {shlex.quote(ast.literal_eval(literal))}"


def _compared(match: re.Match[str]) -> str:
    column = ast.literal_eval(match["compared"])
    return f"write a column of 0 and 1 into the file, 1 where {column} is {match['value']}, and name that one"


# The first rule that fits a place wins, and what it puts there is not looked at again. A quoted name is a column's.
_RULES: tuple[Rule, ...] = (
    # What a folder says about its results is no remedy.
    (r"(?s:results of other settings \(.*\))(?=\. Name another folder)", lambda match: match[0]),
    (rf"(?:engine=)?(?P<engine>{'|'.join(_ENGINES)})\((?P<engine_settings>[^()]*)\)", _engine),
    (r"Screened\((?P<screened>\w+)\(\)(?:, screen=LassoScreen\((?P<screen_settings>[^()]*)\))?\)", _screened),
    (r"(?P<method>ICP|EILLS|Oracle|LassoSelection)\((?P<method_settings>[^()]+)\)", _method),
    (r"(?:prior=)?UniformPrior\(max_size=(?P<largest>\d+)\)", lambda match: f"--max-size {match['largest']}"),
    (r"engine='(?P<inference>\w+)'", lambda match: f"--engine {match['inference']}"),
    (r"(?:BIP\()?family='(?P<family>\w+)'\)?", _family),
    (rf"table\[(?P<compared>{_LITERAL})\] = table\[(?:{_LITERAL})\] == (?P<value>.*)$", _compared),
    (
        rf"read_table\(path, (?P<file_option>sep|decimal|thousands|encoding|sheet)=(?P<file_value>{_LITERAL})\)",
        lambda match: _option(match["file_option"], match["file_value"]),
    ),
    (
        rf"(?:read_table\(path, )?(?<!\w)na=(?P<na>\[(?:{_LITERAL}|, )+\])\)?",
        lambda match: f"--na {shlex.quote(write_names(ast.literal_eval(match['na'])))}",
    ),
    (
        rf"(?P<stated>sep|decimal|thousands|encoding|sheet)=(?P<stated_value>{_LITERAL})(?= is )",
        lambda match: _option(match["stated"], match["stated_value"]),
    ),
    (r"(?<=leave )(?P<left>event|exposure)= out", lambda match: f"--{match['left']} out"),
    (r"(?<!['\"\w])(?P<given>event|exposure)=(?=[ ,])", lambda match: f"--{match['given']}"),
    (r"read the whole table with MultiEnvironmentData\.from_table\(.*?\), and fit that", lambda match: _FIT),
    (r"(?<=by itself), BIP\(\)\.fit_data\(.*?\)\)", lambda match: " with `invariance fit`"),
    (r"missing='(?P<missing>\w+)'", lambda match: f"--missing {match['missing']}"),
    (rf"(?P<columns_as>exclude|categorical|numeric)=(?P<columns>\[(?:{_LITERAL}|, )+\])", _columns),
    (r"(?P<said_in>categorical|numeric)=(?=[\s,.:])", lambda match: f"--{match['said_in']}"),
    (rf"drop_environments=(?P<dropped>\[(?:{_LITERAL}|, )+\])", _dropped),
    (r"(?<!['\"\w])min_rows=(?P<fewest>\d+)", lambda match: f"--min-rows {match['fewest']}"),
    (r"leave_out=True", lambda match: "--leave-out"),
    (r"leave them out, merge them with similar ones", lambda match: f"{match[0]} (--min-rows 3, --merge a+b=c)"),
    (r"leave that environment out or merge it with another", lambda match: f"{match[0]} (--drop-environment, --merge)"),
    (r"features=\[\.\.\.\]", lambda match: "--features A,B,C"),
    (r"pass features=None", lambda match: "leave --features out"),
    (r"(?<!['\"\w])max_size=(?P<size>\d+)", lambda match: f"--max-size {match['size']}"),
    (r"(?<!['\"\w])max_size(?!['\"\w])", lambda match: "--max-size"),
    (r"set model\.handle_unknown = 'ignore'", lambda match: "let `invariance predict` use --unknown ignore"),
    (r"convert it with \.\w+\(float\)", lambda match: "store it as numbers"),
    (r"[Nn]ame another folder", lambda match: f"{match[0]} with --out"),
    (r", or pass simulated data, which carry their truth, to fit_data\(\)", lambda match: ""),
    (r"with fewer jobs", lambda match: "with fewer --jobs"),
    (r"without dask=", lambda match: "without --dask"),
    (r"n_jobs=(?P<processes>\d+)", lambda match: f"--jobs {match['processes']}"),
    (r"device='(?P<device>\w+)'", lambda match: f"--device {match['device']}"),
    (r"pass outcomes=None for all", lambda match: "leave --outcomes out"),
    (r"model\.report\('report\.html'\)", lambda match: "`invariance fit` with --report report.html"),
    (r"leave device= out", lambda match: "leave --device out"),
    (r"device= is for this machine and dask= for", lambda match: "--device is for this machine and --dask for"),
)
_ANY = re.compile("|".join(f"(?P<rule_{i}>{pattern})" for i, (pattern, _) in enumerate(_RULES)))


def for_command_line(message: str) -> str:
    """The message with every remedy as it is typed in a shell."""
    return _ANY.sub(lambda match: _RULES[int(str(match.lastgroup).removeprefix("rule_"))][1](match), message)


def posterior_for_command_line(posterior: AnyPosterior) -> AnyPosterior:
    from dataclasses import replace

    return replace(posterior, notes=_all(posterior.notes), model_reason=for_command_line(posterior.model_reason))


def comparison_for_command_line(comparison: Comparison) -> Comparison:
    from dataclasses import replace

    return replace(comparison, methods=tuple(replace(m, notes=_all(m.notes)) for m in comparison.methods))


def _all(notes: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(for_command_line, notes))
