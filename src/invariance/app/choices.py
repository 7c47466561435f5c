"""What is chosen on the page, as the options of `invariance fit`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..cli.options import Missing, ModelOptions, TableOptions, read_names, write_names
from ..exceptions import SettingError

if TYPE_CHECKING:
    from ..estimators.bip import BIP

_MOST_DIGITS = 18


@dataclass(frozen=True)
class Choices:
    """features: None is all columns that have no other role; written: how the file is, as `FileOptions` has it;
    drop_environment, merge: as they are typed"""

    outcome: str
    environment: str
    event: str | None = None
    exposure: str | None = None
    features: list[str] | None = None
    categorical: list[str] = field(default_factory=list)
    numeric: list[str] = field(default_factory=list)
    family: str = "auto"
    prior: str = "uniform"
    max_size: int | None = None
    engine: str = "auto"
    select: str = "predictive"
    strict: bool = False
    drop_missing: bool = False
    min_rows: int = 0
    seed: int = 0
    written: dict[str, str] = field(default_factory=dict)
    drop_environment: str = ""
    merge: str = ""

    def table(self) -> TableOptions:
        return TableOptions(
            **self.written,
            event=self.event,
            exposure=self.exposure,
            features=None if self.features is None else write_names(self.features),
            categorical=write_names(self.categorical) or None,
            numeric=write_names(self.numeric) or None,
            missing=Missing.drop if self.drop_missing else Missing.error,
            min_rows=self.min_rows,
            drop_environment=self.drop_environment or None,
            merge=self.merge or None,
        )

    def settings(self) -> ModelOptions:
        return ModelOptions(
            family=self.family,
            max_size=self.max_size,
            prior=self.prior,
            engine=self.engine,
            select=self.select,
            strict=self.strict,
        )

    def model(self) -> BIP:
        """As the options make it, with None where that means the same."""
        from ..models.invariance_test import Tolerance
        from ..priors.priors import UniformPrior

        model = self.settings().bip(None, self.seed)
        meant_by_none = {"prior": UniformPrior(), "tolerance": Tolerance()}
        plain = {name: None for name, value in meant_by_none.items() if getattr(model, name) == value}
        model.set_params(**plain)
        return model


def read_choices(form: Iterable[tuple[str, str]], columns: Sequence[str], rest: Iterable[str] = ()) -> Choices:
    """From the fields of the form, in which columns are named by their positions; rest: those that one tick stands
    for."""
    fields = list(form)
    given = dict(fields)
    roles = {role: _column(given.get(role, ""), columns) for role in ("outcome", "environment", "event", "exposure")}
    outcome, environment = roles["outcome"], roles["environment"]
    for role, name in (("outcome", outcome), ("environment", environment)):
        if name is None:
            raise SettingError(f"Choose the column of the {role}.")
    taken = set(roles.values())
    ticked = {_column(value, columns) for name, value in fields if name == "feature"}
    ticked |= set(rest) if "rest" in given else set()
    others = [name for name in columns if name not in taken]
    features = [name for name in others if name in ticked]
    if not features:
        raise SettingError("Tick at least one feature that is neither the outcome nor the environment.")

    for position, name in enumerate(columns):
        if name in taken and given.get(f"as{position}"):
            raise SettingError(f"'Read as' is for features, and {name!r} is none: choose 'it is' in its line.")

    def read_as(kind: str) -> list[str]:
        stated = {name for position, name in enumerate(columns) if given.get(f"as{position}") == kind}
        return [name for name in features if name in stated]

    assert outcome is not None
    assert environment is not None
    return Choices(
        outcome,
        environment,
        roles["event"],
        roles["exposure"],
        None if features == others else features,
        read_as("category"),
        read_as("number"),
        family=given.get("family", "auto"),
        prior=given.get("prior") or "uniform",
        max_size=_whole(given, "max_size", "Most features in a subset"),
        engine=given.get("engine", "auto"),
        select=given.get("select", "predictive"),
        strict="strict" in given,
        drop_missing="drop_missing" in given,
        min_rows=_whole(given, "min_rows", "Fewest rows of an environment") or 0,
        seed=_whole(given, "seed", "Seed") or 0,
        drop_environment=given.get("drop_environment", "").strip(),
        merge=given.get("merge", "").strip(),
    )


def _column(position: str, columns: Sequence[str]) -> str | None:
    place = place_in(columns, position)
    return None if place is None else columns[place]


def place_in(columns: Sequence[Any], position: str) -> int | None:
    """Of a column whose position was sent, if there is one."""
    sent = int(position) if position.isdecimal() and len(position) <= _MOST_DIGITS else len(columns)
    return sent if sent < len(columns) else None


def _whole(given: Mapping[str, str], name: str, label: str) -> int | None:
    text = given.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise SettingError(f"{label}: {text!r} is no whole number from 0 on.")
    if len(text) > _MOST_DIGITS:
        raise SettingError(f"{label}: a number of {len(text)} digits is too large. Use {_MOST_DIGITS} or fewer.")
    return int(text)


REPORT, SCRIPT = "report.html", "reproduce.py"


def script(file: str, choices: Choices) -> str:
    """For a table of this name in the folder where the script is run."""
    from ..data.multi_environment import MultiEnvironmentData

    usual = inspect.signature(MultiEnvironmentData.from_table).parameters
    reading = choices.table().reading()
    # An empty list says as much as an empty tuple.
    stated = {k: v for k, v in reading.items() if v != usual[k].default and (v or usual[k].default)}
    arguments = {"outcome": choices.outcome, "environment": choices.environment, **stated}
    settings = _settings(choices)
    classes = {type(value) for value in settings.values() if type(value).__module__.startswith("invariance.")}
    rules = sorted(kind.__name__ for kind in classes if kind.__module__.startswith("invariance.decisions"))
    imported = sorted({"BIP", "MultiEnvironmentData", *(kind.__name__ for kind in classes)} - set(rules))
    lines = [
        f"# What the page of invariance {__version__} did with {file!r}: run this in the folder of that file.",
        f"from invariance import {', '.join(imported)}",
        *([f"from invariance.decisions import {', '.join(rules)}"] if rules else []),
        *(["from invariance.data.reading import TableFile"] if choices.written else []),
        "",
        "data = MultiEnvironmentData.from_table(",
        f"    {_opened(file, choices.written)},",
        *(f"    {name}={value!r}," for name, value in arguments.items()),
        ")",
        f"model = BIP({', '.join(f'{name}={value!r}' for name, value in settings.items())})",
        "model.fit(data)",
        "print(model.summary())",
        f"model.report({REPORT!r})",
    ]
    return "\n".join(lines) + "\n"


def _opened(file: str, written: Mapping[str, str]) -> str:
    if not written:
        return repr(file)
    stated = {name: read_names(value) if name == "na" else value for name, value in written.items()}
    return f"TableFile.of({', '.join([repr(file), *(f'{name}={value!r}' for name, value in stated.items())])})"


def _settings(choices: Choices) -> dict[str, Any]:
    """Those in which the model differs from BIP()."""
    from ..estimators.bip import BIP

    usual, given = BIP().get_params(deep=False), choices.model().get_params(deep=False)
    return {name: value for name, value in given.items() if value != usual[name]}
