"""A token that may do nothing but claim, or pin, leaves room for the claims and pins of others, in a real service."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest
import trio

from journal.errors import JournalCode, JournalError
from journal.gateway.client.client import open_volume
from journal.image.image import PINS_MAX
from journal.image.path_claims import CLAIMS_MAX
from journal.volume import PathClaim
from sos_client.serving.access import Right, append_token, new_token
from tests.system.service_process import VOLUME, running_cluster

if TYPE_CHECKING:
    from pathlib import Path

CONNECTIONS: Final = 16
pytestmark = pytest.mark.slow


def make_token(path: Path, name: str, *rights: Right) -> bytes:
    text, grant = new_token(name=name, namespaces=("*",), rights=frozenset(rights), expires=None)
    append_token(path, grant)
    return bytes.fromhex(text)


async def claim_as_much_as_goes(addresses: list[str], token: bytes, claim: PathClaim) -> tuple[int, list[JournalError]]:
    """How many were granted, and the refusal that ended each connection's attempts."""
    granted, refusals = 0, []

    async def one(connection: int) -> None:
        nonlocal granted
        async with open_volume(addresses, VOLUME, token=token) as volume:
            for number in range(CLAIMS_MAX):
                try:
                    await volume.claim(f"junk/{connection}/{number}", claim, operation=volume.new_operation())
                except JournalError as error:
                    refusals.append(error)
                    return
                granted += 1

    async with trio.open_nursery() as nursery:
        for connection in range(CONNECTIONS):
            nursery.start_soon(one, connection)
    return granted, refusals


async def test_a_token_that_may_only_claim_leaves_room(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    weak, driver = make_token(tokens, "weak", Right.FENCE), make_token(tokens, "driver", *Right)
    claim = PathClaim(application="app", start_time=int(time.time() * 1000))
    async with running_cluster(tmp_path, servers=1) as cluster:
        service = cluster.service
        assert service.terminate() == 0
        service.flags += ["--tokens", str(tokens)]
        service.start()
        granted, refusals = await claim_as_much_as_goes([service.address], weak, claim)
        assert granted == CLAIMS_MAX // 2
        assert {error.code for error in refusals} == {JournalCode.TOO_LARGE}
        assert "with the token 'weak'" in refusals[0].message
        async with open_volume([service.address], VOLUME, token=driver) as volume:
            await volume.claim("q", claim, operation=volume.new_operation())
            await volume.put("q/offsets/0", b"{}", overwrite=False, operation=volume.new_operation(), claim=claim)


async def pin_as_much_as_goes(address: str, token: bytes) -> tuple[int, JournalError]:
    async with open_volume([address], VOLUME, token=token) as volume:
        for number in range(PINS_MAX + 1):
            try:
                await volume.pin(f"junk-{number}", lsn=0, seconds=3600, operation=volume.new_operation())
            except JournalError as error:
                return number, error
    pytest.fail("there was room without end")


async def test_a_token_that_may_only_append_leaves_room_for_pins(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    weak, reader = make_token(tokens, "weak", Right.APPEND), make_token(tokens, "reader", *Right)
    async with running_cluster(tmp_path, servers=1) as cluster:
        service = cluster.service
        assert service.terminate() == 0
        service.flags += ["--tokens", str(tokens)]
        service.start()
        granted, refusal = await pin_as_much_as_goes(service.address, weak)
        assert granted == PINS_MAX // 2
        assert refusal.code is JournalCode.TOO_LARGE
        assert "with the token 'weak'" in refusal.message
        async with open_volume([service.address], VOLUME, token=reader) as volume:
            await volume.pin("fork", lsn=0, seconds=3600, operation=volume.new_operation())
