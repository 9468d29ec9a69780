"""The contract of client and server: sessions over a store in memory, and a server process over TCP and over TLS."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
import trustme

from sos_client.client import open_client
from tests.contracts.sos_contract import CHECKS, Check, Open
from tests.sos_client.memory_server import memory_server
from tests.system.server_process import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = [check.__name__.removeprefix("check_") for check in CHECKS]


@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
async def test_in_memory(check: Check) -> None:
    async with memory_server() as server:
        await check(server.client)


@pytest.fixture(scope="module")
def tcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    with serving(tmp_path_factory.mktemp("tcp")) as server:
        yield lambda: open_client(server.address)


@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
async def test_over_tcp(check: Check, tcp: Open) -> None:
    await check(tcp)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(str(folder / "server-key"))
    certificate.cert_chain_pems[0].write_to_path(str(folder / "server-chain"))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    flags = ["--tls-cert", str(folder / "server-chain"), "--tls-key", str(folder / "server-key")]
    with serving(folder, *flags) as server:
        yield lambda: open_client(server.address, tls=context)


@pytest.mark.parametrize("check", CHECKS, ids=NAMES)
async def test_over_tls(check: Check, tls: Open) -> None:
    await check(tls)
