"""A token goes to other hosts inside TLS only: in the clients, in both commands, and wherever a service points."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
import trio
from click.testing import CliRunner

from journal.cli import command
from journal.gateway.client.client import open_volume
from journal.gateway.client.service_pool import Addresses
from sos_client.clear_text import check_token_stays, leaves_this_host
from sos_client.cli import main
from sos_client.client import open_client
from sos_client.wire.errors import ExitCode, MisuseError

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = bytes(range(32))
THERE = "192.0.2.1:7400"  # an address that nobody has


@pytest.mark.parametrize("address", ["localhost:1", "LOCALHOST", "127.0.0.1:7400", "127.9.9.9:1", "[::1]:7400"])
def test_what_stays_on_this_host(address: str) -> None:
    assert not leaves_this_host(address)
    check_token_stays([address], token=TOKEN, encrypted=False)


@pytest.mark.parametrize(
    "address", ["a:1", THERE, "127.0.0.1.evil.example:1", "localhost.evil.example:1", "[::2]:1", "128.0.0.1:1", ""]
)
def test_what_does_not(address: str) -> None:
    assert leaves_this_host(address)
    with pytest.raises(MisuseError, match="--insecure"):
        check_token_stays(["localhost:1", address], token=TOKEN, encrypted=False)
    check_token_stays([address], token=TOKEN, encrypted=True)
    check_token_stays([address], token=None, encrypted=False)


async def test_clients_refuse_before_they_connect() -> None:
    with trio.fail_after(300):
        with pytest.raises(MisuseError, match="in clear"):
            async with open_client(THERE, token=TOKEN):
                pass
        with pytest.raises(MisuseError, match="in clear"):
            async with open_volume(["127.0.0.1:1", THERE], "v", token=TOKEN):
                pass
        async with open_volume([THERE], "v", token=TOKEN, tls=ssl.create_default_context()):
            pass
        async with open_volume([THERE], "v", token=TOKEN, insecure=True):
            pass


def test_an_owner_elsewhere_is_not_followed_with_a_token_in_clear() -> None:
    addresses = Addresses(configured=("127.0.0.1:1", "127.0.0.1:2"), only_this_host=True)
    addresses.turn_from("127.0.0.1:1", THERE)
    assert addresses.current == "127.0.0.1:2"
    addresses.turn_from("127.0.0.1:2", "127.0.0.1:3")
    assert addresses.current == "127.0.0.1:3"
    free = Addresses(configured=("127.0.0.1:1",))
    free.turn_from("127.0.0.1:1", THERE)
    assert free.current == THERE


def test_sos_refuses(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SOS_TOKEN", TOKEN.hex())
    for arguments in (["ping"], ["bench", "ns"]):
        monkeypatch.setattr("sys.argv", ["sos", *arguments, "--server", THERE])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == ExitCode.USAGE
        assert "say --insecure" in capfd.readouterr().err


def test_sos_journal_refuses(tmp_path: Path) -> None:
    environment = {"SOS_TOKEN": TOKEN.hex(), "SOS_SERVICE": None, "SOS_SERVERS": None, "SOS_TLS_CA": None}
    serve = ["serve", "--volume", "v", "--dir", str(tmp_path), "--listen", "127.0.0.1:0"]
    for arguments in (
        ["ls", "sos://v", "--service", THERE],
        ["verify", "v", "--servers", THERE],
        [*serve, "--servers", THERE],
    ):
        ended = CliRunner().invoke(command, arguments, env=environment)
        assert isinstance(ended.exception, MisuseError), ended.output
        assert "say --insecure" in str(ended.exception)
