"""Who may read and append on a volume's namespace, but not fence, finds nowhere what its owner writes with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from journal.owner.opening import open_journal
from journal.records.settings import Surroundings
from journal.takeover.volume_creation import create_volume
from sos_client.serving.access import Right, append_token, new_token
from sos_client.wire import messages as m
from sos_client.wire.errors import ErrorCode
from tests.system.server_process import serving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fakes.scripted_client import ScriptedClient

VOLUME = "payments"


def make_token(path: Path, name: str, *rights: Right) -> bytes:
    text, grant = new_token(name=name, namespaces=("*",), rights=frozenset(rights), expires=None)
    append_token(path, grant)
    return bytes.fromhex(text)


async def all_that_is_shown(client: ScriptedClient) -> tuple[int, list[bytes]]:
    """The epoch, and everything that this client is told of the namespace, names in hexadecimal as bytes, too."""
    using = await client.use(VOLUME)
    shown = [using.holder]
    refused = await client.refused(m.Seal(object="x", size=0, epoch=0, holder=b""))
    told = refused.fields["holder"]
    assert isinstance(told, bytes)
    shown.append(told)
    listing = await client.ask(m.List(after="", limit=100), m.Listing)
    for entry in listing.entries:
        shown += [bytes.fromhex(digits) for digits in re.findall(r"[0-9a-f]{32}", entry.name)]
        await client.send(m.Get(object=entry.name, offset=0, length=None, follow=False))
        while isinstance(message := await client.receive(), m.Data):
            shown.append(bytes(message.payload))
    return using.epoch, shown


async def test_a_holder_is_found_nowhere(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    owner = make_token(tokens, "owner", *Right)
    weak = make_token(tokens, "weak", Right.READ, Right.APPEND)
    with serving(tmp_path, "--tokens", str(tokens)) as server:
        surroundings = Surroundings(token=owner)
        await create_volume(VOLUME, servers=[server.address], acknowledgements=1, surroundings=surroundings)
        async with open_journal(VOLUME, servers=[server.address], surroundings=surroundings) as journal:
            await journal.put("a", b"content")
            client = await server.client()
            await client.hello(weak)
            epoch, shown = await all_that_is_shown(client)
            log = server.log_path.read_bytes()
            shown += [log, *(bytes.fromhex(digits.decode()) for digits in re.findall(rb"[0-9a-f]{32}", log))]
            guesses = {text[at : at + 16] for text in shown for at in range(len(text) - 15)}
            assert len(guesses) > 500
            assert journal.holder not in guesses
            for guess in guesses:
                refused = await client.refused(m.Seal(object="x", size=0, epoch=epoch, holder=guess))
                assert refused.code is ErrorCode.FENCED
            known = await client.refused(m.Seal(object="x", size=0, epoch=epoch, holder=journal.holder))
            assert known.code is ErrorCode.NOT_FOUND, "which is what the guesses were for"
            await journal.put("b", b"goes on")
