"""What is declared of a setting is what its option says, takes and leaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner

from sos_client.command.connecting import decorated
from sos_client.command.parameters import Age, Size, age_text, size_text_exact
from sos_client.command.setting_flags import flag_options
from sos_client.declarations import Form, Setting, declared, said, values_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Bakery:
    open_for: Annotated[int, Setting("bake for this long", flag="--open-for", form=Form.AGE)] = 7200
    flour: Annotated[int, Setting("use this much flour", flag="--flour-max", form=Form.SIZE)] = 3 << 20
    street: Annotated[str, Setting("where it is", flag="--street", form=Form.ADDRESS)] = ""
    recipes: Annotated[Path | None, Setting("what is baked", flag="--recipes", form=Form.FILE)] = None
    sweet: Annotated[bool, Setting("cakes, too", flag="--sweet", form=Form.SWITCH)] = False
    secret: Annotated[int, Setting("nobody is asked")] = 5
    plain: int = 1


def ran(*arguments: str, otherwise: str | None = None) -> tuple[str, dict[str, Any]]:
    found: dict[str, Any] = {}

    def bake(**options: Any) -> None:
        found.update(options)

    command = click.command()(decorated(bake, flag_options(Bakery, otherwise=otherwise)))
    ended = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return " ".join(ended.output.split()), found


def test_what_is_not_said_stays_as_it_is_declared() -> None:
    _, options = ran()
    assert said(Bakery, options) == {}
    assert Bakery(**said(Bakery, options)) == Bakery()


def test_what_is_said_is_read_in_its_form() -> None:
    _, options = ran("--open-for", "2d", "--flour-max", "5M", "--street", "a:1", "--recipes", "r", "--sweet")
    assert said(Bakery, options) == {
        "open_for": 172_800, "flour": 5 << 20, "street": "a:1", "recipes": Path("r"), "sweet": True
    }  # fmt: skip


def test_help_has_meaning_form_and_default() -> None:
    text, _ = ran("--help")
    assert "--open-for TIME Bake for this long (default: 2h)." in text
    assert "--flour-max SIZE Use this much flour (default: 3M)." in text
    assert "--street HOST:PORT Where it is." in text
    assert "--sweet Cakes, too." in text
    assert "nobody" not in text
    assert "Bake for this long (default: as ever)." in ran("--help", otherwise="as ever")[0]


def test_only_what_is_annotated_is_a_setting() -> None:
    assert list(declared(Bakery)) == ["open_for", "flour", "street", "recipes", "sweet", "secret"]
    assert values_of(Bakery())["plain"] == 1


@pytest.mark.parametrize(("seconds", "text"), [(604_800, "7d"), (5400, "90m"), (61, "61s"), (3600, "1h")])
def test_a_length_of_time_as_it_is_typed(seconds: int, text: str) -> None:
    assert age_text(seconds) == text
    assert Age().convert(text, None, None) == seconds


@pytest.mark.parametrize(("size", "text"), [(64 << 20, "64M"), (1500, "1500"), (20 << 30, "20G"), (3 << 10, "3K")])
def test_a_size_as_it_is_typed(size: int, text: str) -> None:
    assert size_text_exact(size) == text
    assert Size().convert(text, None, None) == size
