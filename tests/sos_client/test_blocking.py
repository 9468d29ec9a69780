"""The blocking client does what the other one does, from any thread, and hands on its errors."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from sos_client.attempts import Deadlines
from sos_client.blocking import connect
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ConnectionLostError, ErrorCode, HistoryError, RefusedError
from tests.system.server_process import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENT = bytes(range(256)) * 10_000
HOLDER = bytes(range(16))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("blocking")) as server:
        yield server.address


def test_a_script(address: str) -> None:
    with connect(address) as client:
        assert client.ping() < 10
        assert len(client.server_identity) == 16
        assert client.use("script", create=True).epoch == 0
        assert client.put("script", "o", CONTENT[:1000]) == 1000
        assert client.put("script", "o", CONTENT) == len(CONTENT)
        assert client.append("script", "o", b"end") == len(CONTENT) + 3
        assert client.get("script", "o", len(CONTENT) - 2) == CONTENT[-2:] + b"end"
        assert client.stat("script", "o").crc == crc32c(CONTENT + b"end")
        assert [info.name for info in client.list_all("script")] == ["o"]
        client.fence("script", 1, HOLDER)
        with pytest.raises(RefusedError) as caught:
            client.append("script", "o", b"more")
        assert caught.value.code is ErrorCode.FENCED
        size = client.append("script", "p", b"x", epoch=1, holder=HOLDER)
        assert client.seal("script", "p", size=size, epoch=1, holder=HOLDER).crc == crc32c(b"x")
        client.delete("script", "p", epoch=1, holder=HOLDER)
        with pytest.raises(HistoryError):
            client.put("script", "o", b"another past")


def test_threads_may_share_it(address: str) -> None:
    def write(number: int) -> None:
        client.put("threads", f"o{number}", bytes([number]) * 1000)

    with connect(address) as client:
        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [info.size for info in client.list_all("threads")] == [1000] * 8


def test_nobody_there() -> None:
    with pytest.raises(ConnectionLostError, match="connection refused"):
        connect("127.0.0.1:9").__enter__()


def test_an_error_in_the_block_ends_the_thread(address: str) -> None:
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), connect(address, deadlines=Deadlines()):
        raise ZeroDivisionError
    assert threading.active_count() <= before
