"""Options in groups: typer sees the options, the command the group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from invariance.cli.options import with_option_groups


@dataclass(frozen=True)
class Journey:
    to: Annotated[str, typer.Option(metavar="TOWN")]
    days: Annotated[int, typer.Option(min=1)] = 3


@dataclass(frozen=True)
class LongJourney(Journey):
    days: Annotated[int, typer.Option(min=1)] = 30


def _said(group: type, *arguments: str) -> str:
    app = typer.Typer(rich_markup_mode=None)

    def travel(who: str, journey: group, alone: bool = False) -> None:  # type: ignore[valid-type]
        typer.echo(f"{who} {journey} {alone}")

    travel.__annotations__["journey"] = group
    app.command()(with_option_groups(travel))
    result = CliRunner().invoke(app, arguments)
    return " ".join((result.stdout + result.stderr).split())


def test_the_command_gets_the_group_with_what_was_typed_and_with_its_defaults() -> None:
    assert _said(Journey, "Ada", "--to", "Rome", "--days", "5") == "Ada Journey(to='Rome', days=5) False"
    assert _said(Journey, "Ada", "--to", "Rome", "--alone") == "Ada Journey(to='Rome', days=3) True"


def test_a_group_may_have_the_options_of_another_with_other_defaults() -> None:
    assert _said(LongJourney, "Ada", "--to", "Rome") == "Ada LongJourney(to='Rome', days=30) False"


def test_options_of_a_group_are_checked_as_others_are() -> None:
    assert "Missing option '--to'" in _said(Journey, "Ada")
    assert "Invalid value for '--days'" in _said(Journey, "Ada", "--to", "Rome", "--days", "0")


def test_help_has_the_options_where_the_group_stands() -> None:
    text = _said(Journey, "--help")
    assert text.index("--to TOWN") < text.index("--days") < text.index("--alone")
