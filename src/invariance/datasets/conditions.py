"""What the columns of the yeast text files compare: `swd1-del vs. wt`, `wt-tl035 vs. wt`."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

_VERSUS = re.compile(r"[\s.\-_]+vs\b[\s.\-_]*", re.IGNORECASE)
_DELETION = re.compile(r"[\-_. ]del(?![a-z])", re.IGNORECASE)
_WILD_TYPE = re.compile(r"(wt|refpool)\b", re.IGNORECASE)
_OTHER_CONDITION = re.compile(r"wt[\-_. ](mata|by4743|ypd)\b", re.IGNORECASE)  # mating type, ploidy and medium


class Kind(Enum):
    WILD_TYPE = "wild types"
    DELETION = "deletions"
    DOUBLE = "with two genes deleted"
    CONTROL = "wild types under another condition"
    UNKNOWN = "neither a wild type nor a deletion against a wild type"


class Condition(NamedTuple):
    kind: Kind
    gene: str | None = None  # the name of the deleted gene, as written


def understand(condition: str) -> Condition:
    """What a column compares, from its name."""
    sample, _, reference = _VERSUS.sub("\t", condition.strip(), count=1).partition("\t")
    if reference and not _WILD_TYPE.match(reference):
        return Condition(Kind.UNKNOWN)
    name, *more = _DELETION.split(sample)
    if more:
        return Condition(Kind.DELETION, name) if len(more) == 1 else Condition(Kind.DOUBLE)
    if _OTHER_CONDITION.match(sample):
        return Condition(Kind.CONTROL)
    return Condition(Kind.WILD_TYPE if _WILD_TYPE.match(sample) else Kind.UNKNOWN)
