"""Settings and addresses: what is taken, and errors that name the file, the key and what is allowed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from sos_client.declarations import Setting
from sos_client.net.addresses import Address, parse_address
from sos_client.serving.listener import check_exposure
from sos_client.settings import SettingsError, read_settings, section


@dataclass(frozen=True, slots=True, kw_only=True)
class Kitchen:
    ovens: Annotated[int, Setting("how many", minimum=1, maximum=9)] = 1
    heat: Annotated[float, Setting("degrees", minimum=0)] = 180.0
    name: Annotated[str, Setting("what the log calls it")] = "main"
    open: Annotated[bool, Setting("whether guests come in")] = False
    book: Annotated[Path | None, Setting("where the recipes are")] = None


def test_values_and_defaults() -> None:
    table = {"ovens": 3, "heat": 200, "book": "recipes.toml", "open": True}
    assert section(Kitchen, table, where="f: [kitchen]") == Kitchen(
        ovens=3, heat=200.0, book=Path("recipes.toml"), open=True
    )
    assert section(Kitchen, {}, where="") == Kitchen()


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"oven": 1}, "k.toml: unknown key 'oven'; allowed are book, heat, name, open, ovens"),
        ({"ovens": 0}, "k.toml: ovens: 0 is too small; the least is 1"),
        ({"ovens": 10}, "k.toml: ovens: 10 is too large; the most is 9"),
        ({"ovens": True}, "ovens: must be a whole number, not True"),
        ({"ovens": "3"}, "ovens: must be a whole number, not '3'"),
        ({"heat": "hot"}, "heat: must be a number, not 'hot'"),
        ({"open": 1}, "open: must be true or false, not 1"),
        ({"book": ""}, "book: must be a path, not ''"),
        ({"book": "a\0b"}, "book: must be a path, not 'a\\x00b'"),
        ({"heat": 10**400}, "heat: must be a number, not 1000"),
        ([], "must be a table"),
    ],
)
def test_errors_say_what_is_allowed(table: object, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        section(Kitchen, table, where="k.toml")
    assert sentence in str(caught.value)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read"):
        read_settings(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "content",
    [b"a = ", b"a = '\xff'", b"a = 1" + 5000 * b"0", b"a = " + 10_000 * b"["],
    ids=lambda content: content[:9],
)
def test_a_file_that_is_not_toml(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.toml").write_bytes(content)
    with pytest.raises(SettingsError, match=r"bad\.toml: not a TOML file"):
        read_settings(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:7400", "127.0.0.1", 7400),
        ("[::1]:0", "::1", 0),
        (":1", "", 1),
        ("db-1.example:65535", "db-1.example", 65535),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    address = parse_address(text, what="--listen")
    assert (address.host, address.port) == (host, port)
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "127.0.0.1:", "a:65536", "a:-1", "::1:7400", "a:７", "a..b:1", f"{64 * 'a'}:1"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(SettingsError, match="--listen"):
        parse_address(text, what="--listen")


@pytest.mark.parametrize(
    ("host", "tls", "tokens", "insecure", "allowed"),
    [
        ("127.0.0.1", False, False, False, True),
        ("127.8.8.8", False, False, False, True),
        ("::1", False, False, False, True),
        ("localhost", False, False, False, True),
        ("0.0.0.0", False, False, False, False),
        ("", False, False, False, False),
        ("::", True, False, False, False),
        ("0.0.0.0", False, True, False, False),
        ("0.0.0.0", True, True, False, True),
        ("0.0.0.0", False, False, True, True),
    ],
)
def test_beyond_loopback_only_with_tls_and_tokens(
    *, host: str, tls: bool, tokens: bool, insecure: bool, allowed: bool
) -> None:
    address = Address(host=host, port=7400)
    if allowed:
        check_exposure(address, tls=tls, tokens=tokens, insecure=insecure)
    else:
        with pytest.raises(SettingsError, match="--insecure"):
            check_exposure(address, tls=tls, tokens=tokens, insecure=insecure)
