"""Tokens: what is accepted, what is refused, and what a tokens file may say."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from sos_client.serving.access import EVERYTHING, AccessRules, Right, TokenRefusedError, append_token, new_token
from sos_client.settings import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

NOON = 1_900_000_000.0


def tokens_file(tmp_path: Path, **changes: object) -> tuple[Path, bytes]:
    path = tmp_path / "tokens.toml"
    settings: dict[str, object] = {
        "name": "journal",
        "namespaces": ("payments", "test-*"),
        "rights": frozenset({Right.READ, Right.APPEND}),
        "expires": None,
    }
    text, grant = new_token(**(settings | changes))  # type: ignore[arg-type]
    append_token(path, grant)
    return path, bytes.fromhex(text)


def test_a_token_opens_what_it_says_and_nothing_else(tmp_path: Path) -> None:
    path, token = tokens_file(tmp_path)
    grant = AccessRules(path).authenticate(token, now=NOON)
    assert grant.allows(Right.READ, "payments")
    assert grant.allows(Right.APPEND, "test-7")
    assert not grant.allows(Right.FENCE, "payments")
    assert not grant.allows(Right.READ, "payments2")
    assert not grant.reaches("other")


def test_the_file_keeps_the_hash_only(tmp_path: Path) -> None:
    path, token = tokens_file(tmp_path)
    text = path.read_text()
    assert token.hex() not in text
    assert hashlib.sha256(token).hexdigest() in text
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("token", "sentence"), [(None, "needs a token"), (bytes(32), "does not know"), (b"", "know")])
def test_missing_and_wrong_tokens(tmp_path: Path, token: bytes | None, sentence: str) -> None:
    path, _ = tokens_file(tmp_path)
    with pytest.raises(TokenRefusedError, match=sentence):
        AccessRules(path).authenticate(token, now=NOON)


def test_expiry(tmp_path: Path) -> None:
    path, token = tokens_file(tmp_path, expires=NOON)
    access = AccessRules(path)
    grant = access.authenticate(token, now=NOON - 1)
    assert access.current(grant, now=NOON - 1) == grant
    assert access.current(grant, now=NOON) is None
    with pytest.raises(TokenRefusedError, match="expired"):
        access.authenticate(token, now=NOON)


def test_reload_takes_a_removed_token_away_and_survives_a_bad_file(tmp_path: Path) -> None:
    path, token = tokens_file(tmp_path)
    access = AccessRules(path)
    grant = access.authenticate(token, now=NOON)
    path.write_text("[[token]]\nname = 7\n")
    with pytest.raises(SettingsError, match=r"tokens.toml: token 1: name must be"):
        access.reload()
    assert access.authenticate(token, now=NOON) == grant
    path.write_text("")
    access.reload()
    assert access.current(grant, now=NOON) is None
    with pytest.raises(TokenRefusedError):
        access.authenticate(token, now=NOON)


def test_without_a_file_everyone_may_do_everything() -> None:
    access = AccessRules(None)
    assert not access.required
    assert access.authenticate(None, now=NOON) == EVERYTHING
    assert all(EVERYTHING.allows(right, "any") for right in Right)


def test_two_tokens_share_a_file_but_no_name(tmp_path: Path) -> None:
    path, token = tokens_file(tmp_path)
    text, grant = new_token(name="reader", namespaces=("*",), rights=frozenset({Right.READ}), expires=NOON + 60)
    append_token(path, grant)
    access = AccessRules(path)
    assert access.authenticate(bytes.fromhex(text), now=NOON) == grant
    assert access.authenticate(token, now=NOON).name == "journal"
    with pytest.raises(SettingsError, match="already"):
        append_token(path, grant)


GOOD = f'[[token]]\nname = "a"\nsha256 = "{"0" * 64}"\nnamespaces = ["*"]\nrights = ["read"]\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[token", "not a TOML file"),
        (f"token = 1{5000 * '0'}", "not a TOML file"),
        ("tokens = 1", "entries and nothing else"),
        (GOOD + "color = 1", "unknown key 'color'; allowed are"),
        (GOOD.replace('"0', '"x'), "64 hex digits"),
        (GOOD.replace('["*"]', "[]"), "namespaces must be"),
        (GOOD.replace("read", "write"), "unknown right 'write'; allowed are read, append, fence, delete"),
        (GOOD + "expires = 2030-01-01T00:00:00", "with a zone"),
        (GOOD + GOOD, "same name"),
    ],
)
def test_what_a_tokens_file_may_not_say(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=sentence):
        AccessRules(path)
    with pytest.raises(SettingsError, match="cannot read"):
        AccessRules(tmp_path / "missing.toml")
