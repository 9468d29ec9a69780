"""Profiles: what a name stands for, what wins over it, and what is wrong with a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from sos_client.command.connecting import INSECURE_OPTION, TLS_OPTION, TOKEN_FILE_OPTION
from sos_client.command.profiles import PROFILE_OPTION, WayIn, chosen_profile, way_in_of_options
from sos_client.settings import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

PROFILES = """
default = "home"

[home]
servers = "127.0.0.1:7400"

[prod]
servers = ["a:7400", "b:7400", "c:7400"]
services = ["s:7420"]
tls_ca = "ca.crt"
token_file = "both.token"
server = { token_file = "journal.token", tls_cert = "me.crt", tls_key = "me.key" }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("SOS_TOKEN", "SOS_TOKEN_FILE", "SOS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "sos").mkdir()
    (tmp_path / "sos" / "profiles.toml").write_text(PROFILES)
    return tmp_path / "sos"


def test_a_name_stands_for_places_and_ways_in(folder: Path) -> None:
    prod = chosen_profile("prod")
    assert prod.servers == ("a:7400", "b:7400", "c:7400")
    assert prod.services == ("s:7420",)
    assert prod.to_services == WayIn(token_file=folder / "both.token", tls_ca=folder / "ca.crt")
    assert prod.to_servers == WayIn(
        token_file=folder / "journal.token",
        tls_ca=folder / "ca.crt",
        tls_cert=folder / "me.crt",
        tls_key=folder / "me.key",
    )


def test_the_default_counts_when_nothing_is_named(folder: Path) -> None:
    assert chosen_profile(None).servers == ("127.0.0.1:7400",)
    assert chosen_profile(None).name == "home"
    (folder / "profiles.toml").unlink()
    assert chosen_profile(None).servers == ()


@pytest.mark.parametrize(
    ("text", "named", "said"),
    [
        ("", "prod", "there is no profile 'prod'; there are: none"),
        ("[prod]\nserver = 7", "prod", "profile prod: server: must be a table"),
        ("[prod]\nservers = 7", "prod", "profile prod: servers: must be a list of HOST:PORT"),
        ("[prod]\nservers = ['a:99999']", "prod", "profile prod: servers: "),
        ("[prod]\ntoken = 'abc'", "prod", "unknown key 'token'"),
        ("[prod]\ntls = 'yes'", "prod", "tls: must be true or false"),
        ("[prod]\ntls_ca = true", "prod", "tls_ca: must be a path"),
        ("default = 'gone'", None, "there is no profile 'gone'"),
        ("[prod", "prod", "not a TOML file"),
    ],
)
def test_what_is_wrong_is_said(folder: Path, text: str, named: str | None, said: str) -> None:
    (folder / "profiles.toml").write_text(text)
    with pytest.raises(SettingsError, match=said.replace("(", r"\(")):
        chosen_profile(named)


def test_a_profile_that_is_named_needs_a_file(folder: Path) -> None:
    (folder / "profiles.toml").unlink()
    with pytest.raises(SettingsError, match="does not exist"):
        chosen_profile("prod")


@pytest.mark.parametrize(
    ("arguments", "environment", "token_file"),
    [
        (["--profile", "prod"], {}, "both.token"),
        (["--profile", "prod"], {"SOS_TOKEN_FILE": "env"}, "both.token"),
        ([], {"SOS_PROFILE": "prod", "SOS_TOKEN_FILE": "env"}, "env"),
        ([], {"SOS_PROFILE": "prod"}, "both.token"),
        (["--profile", "prod", "--token-file", "line"], {"SOS_TOKEN_FILE": "env"}, "line"),
        ([], {"SOS_TOKEN_FILE": "env"}, "env"),
    ],
)
def test_what_wins(folder: Path, arguments: list[str], environment: dict[str, str], token_file: str) -> None:
    ways: list[WayIn] = []

    @click.command()
    @PROFILE_OPTION
    @TOKEN_FILE_OPTION
    @TLS_OPTION
    @INSECURE_OPTION
    def verb(**options: object) -> None:
        profile = chosen_profile(options["profile"])  # type: ignore[arg-type]
        ways.append(way_in_of_options(options, profile.to_services, named=profile.named))

    done = CliRunner().invoke(verb, arguments, env=environment, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (way,) = ways
    assert way.token_file is not None
    assert way.token_file.name == token_file


def test_a_token_in_the_environment_takes_the_profiles_place(folder: Path) -> None:
    said = WayIn(token="00").over(WayIn(token_file=folder / "x", insecure=True))
    assert (said.token, said.token_file, said.insecure) == ("00", None, True)
