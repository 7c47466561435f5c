"""Kinds of outcomes: links, errors of held-out data, names of effects. A new kind is one file."""

from .base import OutcomeKind
from .classes import CLASS
from .count import COUNT
from .number import NUMBER
from .time import TIME

KINDS: dict[str, OutcomeKind] = {kind.name: kind for kind in (NUMBER, CLASS, COUNT, TIME)}
