"""The form of the page as the options of a fit, with buttons for remedies."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from starlette.datastructures import ImmutableMultiDict

from .._tools.arrays import Fields
from ..cli.options import FitOptions, read_names, write_codes, write_names
from ..exceptions import Message, Remedy, SettingError
from ..models.registry import SHORT

Form: TypeAlias = ImmutableMultiDict[str, str]

# How a file is written, where it does not show: {field: what it is}
WRITTEN = {
    "sep": "Sign between cells",
    "decimal": "Sign before decimals",
    "thousands": "Sign between thousands",
    "encoding": "Encoding",
    "sheet": "Sheet of an Excel file",
    "na": "Words for missing values",
}
# Columns that have a part of their own: {field: (what it is, what stands there where none is
# chosen)}
ROLES = {
    "outcome": ("Outcome", "choose the column to predict"),
    "environment": ("Environment", "choose the column of the groups"),
    "event": ("Event, for times", "none"),
    "exposure": ("Exposure, for counts", "none"),
    "weight": ("Frequency weight", "none"),
}
NEEDED = ("outcome", "environment")
# Ways to treat values: {field: {value: in words}}
WAYS = {
    "missing": {
        "error": "Stop at missing values",
        "drop": "Leave out rows with missing values",
        "level": "Give missing categories a category, leave out rows that lack numbers",
    },
    "below_limit": {
        "half": "Count values such as <0.5 as half the limit",
        "limit": "Count values such as <0.5 as the limit",
        "missing": "Count values such as <0.5 as missing",
    },
}
# Form that hold a word as `FitOptions` takes it: {field: what it is}
WORDS = {
    "family": "Model of the outcome",
    "prior": "Prior",
    "engine": "Engine",
    "select": "How features are selected",
    "deviations": "Deviations of coefficients between environments",
    "baseline": "Baselines of environments",
    "drop_environment": "Leave out environments",
    "merge": "Make one environment of several",
}
# {value of the field: in words}
BASELINES = {
    "auto": "automatic: the same, or free if no subset allows that",
    "shared": "the same in all",
    "free": "free: each has its own, effects are compared",
}
NUMBERS = {
    "min_rows": "Leave out environments with fewer rows than",
    "max_size": "Most features in a subset",
    "seed": "Seed, for engines that draw",
}
# Of predictions: {setting: {value: in words}}
PREDICTING = {
    "missing": {
        "error": "Stop at missing values",
        "empty": "Leave predictions of rows with missing values empty",
    },
    "handle_unknown": {
        "error": "Stop at new categories",
        "ignore": "Count new categories as the reference",
    },
    "predict_with": {
        "auto": "Predict as the fit advises",
        "selected": "Predict by the selected features",
        "everything": "Predict by all features",
        "average": "Predict by an average of subsets",
    },
    "new_site": {
        "apart": "Predict each row by itself",
        "together": "The rows are those of one new site: predict them together",
    },
}
_SIGNS = {
    ",": "comma",
    ".": "point",
    ";": "semicolon",
    "tab": "tab",
    "\t": "tab",
    " ": "space",
    "|": "bar",
    "'": "'",
}
_TICKED = {"categorical": ("category", "categories"), "numeric": ("number", "numbers")}
# Settings that buttons can change: of a fit, and of a prediction
OF_FIT = {
    *WRITTEN,
    *_TICKED,
    *WAYS,
    *WORDS,
    *NUMBERS,
    "exclude",
    "features",
    "event",
    "exposure",
    "strict",
}
OF_FIT |= {"drop_environments", "merge_environments"}
OF_PREDICTION = {*WRITTEN, *PREDICTING}


def in_words(name: str, value: Any) -> str:
    """Return what a setting does, as a button says it; "" if the page does not have it."""
    listed = ", ".join(map(str, value)) if isinstance(value, list | tuple) else ""
    match name, value:
        case "exclude", list() | tuple():
            return f"Leave out {listed}"
        case "features", None:
            return "Tick all features"
        case (("event" | "exposure"), None):
            return f"Choose no {name}"
        case "na", list() | tuple():
            return f"Count {', '.join(map(repr, value))} as missing"
        case "na", dict():
            told = (
                f"Count {', '.join(map(_plain, codes))} in {each} as missing"
                for each, codes in value.items()
            )
            return "; ".join(told)
        case (("decimal" | "thousands" | "sep"), str()):
            return f"{WRITTEN[name]}: {_SIGNS.get(value, value)}"
        case (("categorical" | "numeric"), list() | tuple()):
            return f"Read {listed} as {_TICKED[name][1]}"
        case "drop_environments", list() | tuple():
            return f"Leave out the environment{'' if len(value) == 1 else 's'} {listed}"
        case "merge_environments", dict():
            return "; ".join(
                f"Make {', '.join(map(repr, old))} one environment, {new}"
                for new, old in value.items()
            )
        case "min_rows", int():
            return f"Leave out environments with fewer than {value} rows"
        case "strict", bool():
            return "Test exact invariance" if value else "Test invariance with tolerance"
        case "baseline", str():
            return f"{WORDS[name]}: {BASELINES.get(value, value).partition(':')[0]}"
        case _, str() if name in WAYS or name in PREDICTING:
            return (PREDICTING.get(name, {}) | WAYS.get(name, {})).get(value, "")
        case _, str() | int() | float() if name in WRITTEN | WORDS | NUMBERS:
            return f"{(WRITTEN | WORDS | NUMBERS)[name]}: {SHORTENED.get(str(value), value)}"
    return ""


SHORTENED = {long: short for short, long in SHORT.items()}


class Button(NamedTuple):
    """Describe a button.

    text : what it does; settings : as JSON; set : whether they are set already
    """

    text: str
    settings: str
    set: bool = False


class Said(NamedTuple):
    """Hold a sentence with buttons.

    more : remedies without a button
    """

    what: str
    buttons: tuple[Button, ...] = ()
    more: str = ""


def said(message: str, of: Collection[str] = OF_FIT) -> Said:
    """of : settings that buttons can change here"""
    if not isinstance(message, Message):
        return Said(_sentence(message))
    buttons: dict[Button, None] = {}
    more: dict[str, None] = {}
    for remedy in message.remedies:
        text = _text(remedy)
        if text and all(name in of for name, _ in remedy.settings):
            buttons[Button(text, json.dumps(dict(remedy.settings), default=str))] = None
        elif text:
            more[text] = None
    return Said(_sentence(message.what), tuple(buttons), f"{' Or: '.join(more)}." if more else "")


def worded(message: str) -> str:
    """Return a sentence as text without buttons, as in a report."""
    if not isinstance(message, Message):
        return message.replace("family='linear_gaussian'", f"{WORDS['family']}: gaussian")
    texts = [f"“{text}”" for text in map(_text, message.remedies) if text]
    return (
        f"{_sentence(message.what)} On the page: {' or '.join(texts)}."
        if texts
        else _sentence(message.what)
    )


def _plain(code: object) -> str:
    return f"{code:g}" if isinstance(code, float) else str(code)


def _text(remedy: Remedy) -> str:
    texts = [in_words(name, value) for name, value in remedy.settings]
    return "; ".join(texts) + remedy.note if all(texts) else ""


def _sentence(text: str) -> str:
    if "." not in text.split(" ")[0]:  # no name of a file
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."


# ---------------------------------------------------------------- settings that a button carries


def read_settings(text: str, of: Collection[str] = OF_FIT) -> Fields:
    """Return the settings of a button; {} if there are none that the page has."""
    try:
        settings = json.loads(text)
    except ValueError:
        return {}
    known = isinstance(settings, dict) and all(name in of for name in settings)
    return settings if known else {}


def rewritten(written: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, str]:
    """Return how a file is written, with the settings; words for missing values are added."""
    new = {name: str(value) for name, value in settings.items() if name in WRITTEN and name != "na"}
    words = settings.get("na", ())
    if isinstance(words, dict):
        words = write_codes(words)
    na = [*read_names(written.get("na")), *map(str, words)]
    return {**written, **new} | ({"na": write_names(dict.fromkeys(na))} if na else {})


def changed(form: Form, settings: Mapping[str, Any], columns: Sequence[str]) -> Form:
    """Return the form as a remedy sets it; columns are ticked by their positions.

    Raises if a label cannot be merged.
    """
    places = {name: str(place) for place, name in enumerate(columns)}
    new = {name: form.getlist(name) for name in form}
    for name, value in settings.items():
        named = (
            [places[str(each)] for each in value if str(each) in places]
            if isinstance(value, list)
            else []
        )
        match name, value:
            case "exclude", list():
                new["feature"] = [place for place in new.get("feature", []) if place not in named]
            case "features", _:
                new["feature"] = named if isinstance(value, list) else list(places.values())
            case (("categorical" | "numeric"), list()):
                new |= {f"as{place}": [_TICKED[name][0]] for place in named}
            case "drop_environments", list():
                listed = [*read_names(form.get("drop_environment")), *map(str, value)]
                new["drop_environment"] = [write_names(dict.fromkeys(listed))]
            case "merge_environments", dict():
                merges = [
                    f"{'+'.join(map(_mergeable, old))}={_mergeable(label)}"
                    for label, old in value.items()
                ]
                new["merge"] = [
                    write_names(dict.fromkeys([*read_names(form.get("merge")), *merges]))
                ]
            case "strict", _:
                new["strict"] = ["on"] if value else []
            case _ if name not in WRITTEN:
                new[name] = [] if value is None else [str(SHORTENED.get(str(value), value))]
    return Form([(name, value) for name, values in new.items() for value in values])


def _mergeable(label: object) -> str:
    if {"+", "="}.intersection(str(label)):
        raise SettingError(
            f"{label!r} holds + or =, which stand between labels to merge: rename it in the table."
        )
    return str(label)


# ---------------------------------------------------------------- the form as options


def read_choices(
    form: Form, columns: Sequence[str], rest: Iterable[str], written: Mapping[str, Any]
) -> FitOptions:
    """form : columns by their positions; rest : columns that one tick stands for; written : as
    `FileOptions` has it"""
    given = {name: value.strip() for name, value in form.items()}
    roles = {role: sent(columns, given.get(role, "")) for role in ROLES}
    for role in NEEDED:
        if roles[role] is None:
            raise SettingError(f"Choose the column of the {role}.")
    ticked = {
        *(sent(columns, position) for position in form.getlist("feature")),
        *(rest if "rest" in given else ()),
    }
    others = [name for name in columns if name not in roles.values()]
    features = [name for name in others if name in ticked]
    if not features:
        raise SettingError("Tick at least one feature.")
    read_as = {name: given.get(f"as{position}") for position, name in enumerate(columns)}
    typed: Fields = {name: given[name] for name in WORDS if given.get(name)}
    typed |= {name: given[name] for name, ways in WAYS.items() if given.get(name) in ways}
    whole = {name: _whole(given, name, label) for name, label in NUMBERS.items()}
    return FitOptions(
        **written,
        **typed,
        **roles,
        features=None if features == others else write_names(features),
        categorical=write_names(name for name in features if read_as[name] == "category") or None,
        numeric=write_names(name for name in features if read_as[name] == "number") or None,
        min_rows=whole["min_rows"] or 0,
        max_size=whole["max_size"],
        strict="strict" in given,
        seed=whole["seed"] or 0,
    )


_WHOLE_NUMBER = re.compile(r"\d{1,18}", re.ASCII)


def sent(columns: Sequence[Any], position: str) -> Any:
    """Return the column whose position was sent; None if there is none."""
    place = int(position) if _WHOLE_NUMBER.fullmatch(position) else len(columns)
    return columns[place] if place < len(columns) else None


def _whole(given: Mapping[str, str], name: str, label: str) -> int | None:
    text = given.get(name, "")
    if text and not _WHOLE_NUMBER.fullmatch(text):
        raise SettingError(f"{label}: {text[:40]!r} is no whole number of at most 18 digits.")
    return int(text) if text else None
