"""Options of a command line made of settings that are declared elsewhere, so that each is said once."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import click

from sos_client.command.parameters import DIRECTORY, FILE, Age, Size, age_text, size_text_exact
from sos_client.declarations import Form, Setting, declared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sos_client.command.connecting import Verb

_TYPES: Final[Mapping[Form, Any]] = {Form.FILE: FILE, Form.DIRECTORY: DIRECTORY, Form.AGE: Age(), Form.SIZE: Size()}
_TEXTS: Final[Mapping[Form | None, Callable[[Any], str]]] = {Form.AGE: age_text, Form.SIZE: size_text_exact}


def flag_option(setting: Setting, *, otherwise: str = "") -> Callable[[Verb], Verb]:
    """The option of a setting. The command gets None where nothing is said; `otherwise`: what holds then, in words."""
    assert setting.flag, "only what has a flag is an option"
    given: dict[str, Any] = {"default": None, "help": _sentence(setting.meaning, otherwise)}
    if setting.form is Form.SWITCH:
        given["is_flag"] = True
    elif setting.form is not None:
        given["type"] = _TYPES.get(setting.form)
        given["metavar"] = str(setting.form)
    return click.option(setting.flag, **given)


def flag_options(kind: type[Any], *, otherwise: str | None = None) -> tuple[Callable[[Verb], Verb], ...]:
    """The options of a group of settings. `otherwise`: what holds where nothing is said; else each one's default."""
    defaults = {field.name: field.default for field in dataclasses.fields(kind)}
    return tuple(
        flag_option(one, otherwise=_default_text(one, defaults[name]) if otherwise is None else otherwise)
        for name, one in declared(kind).items()
        if one.flag
    )


def _sentence(meaning: str, otherwise: str) -> str:
    text = f"{meaning[0].upper()}{meaning[1:]}"
    return f"{text} (default: {otherwise})." if otherwise else f"{text}."


def _default_text(setting: Setting, default: object) -> str:
    return _TEXTS.get(setting.form, str)(default) if default not in (None, "", False, 0) else ""
