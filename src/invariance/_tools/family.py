"""Families of interchangeable parts: members by name, each loaded when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple


class Member(NamedTuple):
    """home: "room.module:Class"; help: what it does, to follow its name; forms: how it is typed, if not by name."""

    home: str
    help: str
    forms: tuple[str, ...] = ()


@cache
def load(home: str) -> Any:
    """The class at "room.module:Class"."""
    module, _, found = home.partition(":")
    return getattr(import_module("." + module, __name__.partition(".")[0]), found)


class Family(Mapping[str, Any]):
    """{name: class}; names and help are known before anything is loaded."""

    def __init__(self, members: Mapping[str, Member]) -> None:
        self.members = dict(members)

    def __getitem__(self, name: str) -> Any:
        return load(self.members[name].home)

    def __contains__(self, name: object) -> bool:
        return name in self.members

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    @property
    def class_names(self) -> dict[str, str]:
        """{name of the class: name}"""
        return {member.home.partition(":")[2]: name for name, member in self.members.items()}

    @property
    def forms(self) -> list[str]:
        """All ways to type a member."""
        return [form for name, member in self.members.items() for form in member.forms or (name,)]

    @property
    def help(self) -> str:
        """ "exact scores all subsets, tempering samples" """
        return ", ".join(f"{name} {member.help}" for name, member in self.members.items())
