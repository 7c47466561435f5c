"""What this package raises or warns of on purpose.

A message says what is wrong and where; its remedies are data, which each face words in its own way:

    raise DataError("'age' is missing in 3 rows", use(missing="drop"), use(exclude=["age"]))

reads "'age' is missing in 3 rows: use missing='drop' or exclude=['age']." in Python, and "… use
--missing drop or --exclude age." on the command line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Remedy:
    """Settings that mend a fault. settings : parameter and value; note : what they do, said after
    them."""

    settings: tuple[tuple[str, Any], ...]
    note: str = ""


def use(note: str = "", /, **settings: Any) -> Remedy:
    return Remedy(tuple(settings.items()), note)


class Message(str):
    """Text with remedies. As a string it words them for Python; `worded` for another face."""

    what: str
    remedies: tuple[Remedy, ...]

    def __new__(cls, what: str, *remedies: Remedy) -> Message:
        message = super().__new__(cls, _sentence(what, remedies, _in_python))
        message.what = what
        message.remedies = remedies
        return message

    def __reduce__(self) -> tuple[type[Message], tuple[Any, ...]]:
        return Message, (self.what, *self.remedies)

    def worded(self, setting: Callable[[str, Any], str], between: str = ", ") -> str:
        """The sentence with each setting as `setting(name, value)` writes it. between : settings of
        one remedy"""
        return _sentence(self.what, self.remedies, setting, between)


_LISTED = "invariance check lists all of it."


class Messages(Message):
    """Several messages, one after the other."""

    parts: tuple[Message, ...]

    def __new__(cls, *parts: Message) -> Self:
        message = str.__new__(cls, " ".join((*parts, _LISTED)))
        told = (f"{part.what[:1].upper()}{part.what[1:].rstrip('.')}." for part in parts)
        message.what = " ".join(told)
        message.parts = parts
        message.remedies = tuple(remedy for part in parts for remedy in part.remedies)
        return message

    def __reduce__(self) -> tuple[type[Message], tuple[Any, ...]]:
        return Messages, self.parts

    def worded(self, setting: Callable[[str, Any], str], between: str = ", ") -> str:
        return " ".join([*(part.worded(setting, between) for part in self.parts), _LISTED])


def _in_python(name: str, value: Any) -> str:
    return f"{name}={value!r}"


def _sentence(
    what: str, remedies: tuple[Remedy, ...], setting: Callable[[str, Any], str], between: str = ", "
) -> str:
    if not remedies:
        return what
    typed = [
        between.join(setting(*pair) for pair in remedy.settings) + remedy.note
        for remedy in remedies
    ]
    return f"{what}{' Use' if what.endswith('?') else ': use'} {' or '.join(dict.fromkeys(typed))}."


class InvarianceError(Exception):
    """Base of the errors of this package: something that was requested or passed cannot be used.

    Parameters
    ----------
    what : str, default=""
        What is wrong, and in which column, row or setting.
    *remedies : Remedy
        Settings that correct it.

    Attributes
    ----------
    args : tuple
        The message, which has the fields `what` and `remedies`.
    """

    def __init__(self, what: str = "", *remedies: Remedy) -> None:
        super().__init__(what if isinstance(what, Message) else Message(what, *remedies))


class DataError(InvarianceError, ValueError):
    """Report data that cannot be used as given.

    Parameters
    ----------
    what : str, default=""
        What is wrong, and in which column, row or environment.
    *remedies : Remedy
        Settings that correct it.
    """


def or_why_not(ask: Callable[[], object]) -> str:
    """Return the answer as text, or why a setting makes it impossible."""
    try:
        return str(ask())
    except SettingError as error:
        return str(error)[:1].upper() + str(error)[1:]


def raise_all(*checks: Callable[[], object]) -> None:
    """Run all of the checks; where several complain, raise one DataError about all of it."""
    errors = []
    for check in checks:
        try:
            check()
        except DataError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise DataError(Messages(*(error.args[0] for error in errors)))


class SettingError(InvarianceError, ValueError):
    """Report a parameter with an unknown or impossible value.

    Parameters
    ----------
    what : str, default=""
        The parameter and its value.
    *remedies : Remedy
        Settings that correct it.
    """


class WrongTypeError(InvarianceError, TypeError):
    """Report an argument of the wrong type.

    Parameters
    ----------
    what : str, default=""
        The argument and its type.
    *remedies : Remedy
        Settings that correct it.
    """


class FileError(InvarianceError, OSError):
    """Report a file that is missing, damaged or cannot be written.

    Parameters
    ----------
    what : str, default=""
        The file and the reason.
    *remedies : Remedy
        Settings that correct it.
    """


class EngineError(InvarianceError, RuntimeError):
    """Report a computation that an engine, study or sweep cannot do.

    Parameters
    ----------
    what : str, default=""
        The computation and the reason.
    *remedies : Remedy
        Settings that correct it.
    """


class InvarianceWarning(UserWarning):
    """Base of the warnings of this package."""


class DataWarning(InvarianceWarning):
    """Warn that something was dropped from the data."""


class NotInvariantWarning(InvarianceWarning):
    """Warn that the selection is not invariant, or that its invariance cannot be tested."""


class PredictionWarning(InvarianceWarning):
    """Warn that predictions extrapolate, lack calibrated intervals or do not use any feature."""


class ApproximationWarning(InvarianceWarning):
    """Warn that a numerical or sampling approximation is poor."""
