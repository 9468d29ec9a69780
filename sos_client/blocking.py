"""The client for scripts without trio: the same calls, one after the other, from any thread."""

from __future__ import annotations

import contextlib
import threading
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import trio

from sos_client import transfers
from sos_client.append_stream import AppendTarget
from sos_client.client import NamespaceInfo, ObjectInfo, SosClient, open_client
from sos_client.wire.errors import SosError

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from sos_client.attempts import Deadlines
    from sos_client.wire.messages import Sealed

P = ParamSpec("P")
T = TypeVar("T")

CHUNK_BYTES = 1 << 20


@contextlib.contextmanager
def connect(
    address: str,
    *,
    token: bytes | None = None,
    tls: ssl.SSLContext | None = None,
    insecure: bool = False,
    deadlines: Deadlines | None = None,
) -> Iterator[BlockingClient]:
    """As `open_client`, with an event loop in a thread of its own until the block ends. Errors are `SosClient`'s."""
    opened: SimpleQueue[BlockingClient | BaseException] = SimpleQueue()
    done = trio.Event()

    async def serve() -> None:
        async with open_client(address, token=token, tls=tls, insecure=insecure, deadlines=deadlines) as client:
            opened.put(BlockingClient(client, trio.lowlevel.current_trio_token(), done))
            await done.wait()

    def run() -> None:
        try:
            trio.run(serve)
        except BaseException as error:
            opened.put(error)
            if not isinstance(error, SosError):
                raise

    thread = threading.Thread(target=run, name=f"sos client of {address}", daemon=True)
    thread.start()
    client = opened.get()
    if not isinstance(client, BlockingClient):
        raise client
    try:
        yield client
    finally:
        client.stop()
        thread.join()


class BlockingClient:
    """What most scripts need of `SosClient`; see there for what each call promises."""

    def __init__(self, client: SosClient, token: trio.lowlevel.TrioToken, done: trio.Event) -> None:
        self._client = client
        self._token = token
        self._done = done

    def stop(self) -> None:
        """Let the event loop end; `connect` does so."""
        self._token.run_sync_soon(self._done.set)

    @property
    def server_identity(self) -> bytes:
        return self._client.server_identity

    def ping(self) -> float:
        return self._run(self._client.ping)

    def use(self, namespace: str, *, create: bool = False) -> NamespaceInfo:
        return self._run(self._client.use, namespace, create=create)

    def fence(self, namespace: str, epoch: int, holder: bytes) -> None:
        self._run(self._client.fence, namespace, epoch, holder)

    def stat(self, namespace: str, object: str) -> ObjectInfo:
        return self._run(self._client.stat, namespace, object)

    def list_all(self, namespace: str) -> list[ObjectInfo]:
        async def collect() -> list[ObjectInfo]:
            return [info async for info in self._client.list_all(namespace)]

        return self._run(collect)

    def get(self, namespace: str, object: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._run(self._client.get, namespace, object, offset, length)

    def put(self, namespace: str, object: str, content: bytes, *, epoch: int = 0, holder: bytes = b"") -> int:
        """Make the object have exactly this content; returns its size. See `transfers.put`."""
        return self._transfer(transfers.put, namespace, object, content, epoch, holder)

    def append(self, namespace: str, object: str, content: bytes, *, epoch: int = 0, holder: bytes = b"") -> int:
        """Add to the end of the object; returns its size. See `transfers.append`."""
        return self._transfer(transfers.append, namespace, object, content, epoch, holder)

    def seal(self, namespace: str, object: str, *, size: int, epoch: int = 0, holder: bytes = b"") -> Sealed:
        return self._run(self._client.seal, namespace, object, size=size, epoch=epoch, holder=holder)

    def delete(self, namespace: str, object: str, *, epoch: int = 0, holder: bytes = b"") -> None:
        self._run(self._client.delete, namespace, object, epoch=epoch, holder=holder)

    def _transfer(self, transfer: Any, namespace: str, object: str, content: bytes, epoch: int, holder: bytes) -> int:
        target = AppendTarget(namespace=namespace, object=object, epoch=epoch, holder=holder)
        done: transfers.Transferred = self._run(transfer, self._client, target, _chunks(content))
        return done.size

    def _run(self, call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        return trio.from_thread.run(partial(call, *args, **kwargs), trio_token=self._token)


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), CHUNK_BYTES):
        yield content[start : start + CHUNK_BYTES]
