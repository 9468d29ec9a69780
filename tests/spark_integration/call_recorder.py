"""Stands between Spark and the journal service, passes everything on, and writes down each call."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from journal.gateway.wire.decoding import decode_request, hello_head
from journal.gateway.wire.limits import FRAME_BYTES_MAX, SHARED_VERSION
from journal.gateway.wire.messages import FileMessageType
from journal.gateway.wire.tagging import OF_THE_CONNECTION, untagged
from sos_client.wire.frames import FrameSplitter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RECEIVE_BYTES: Final = 65536
_GREETINGS: Final = frozenset(
    {FileMessageType.HELLO, FileMessageType.OPEN, FileMessageType.WELCOME, FileMessageType.OPENED}
)
_MORE_OF_A_CALL: Final = frozenset({FileMessageType.DATA, FileMessageType.WRITE_COMMIT, FileMessageType.WRITE_CANCEL})


@dataclass(slots=True, kw_only=True)
class Call:
    """One request of the file protocol, with how many frames went there and back."""

    kind: FileMessageType
    path: str
    frames_there: int = 1
    frames_back: int = 0

    @property
    def is_one_round_trip(self) -> bool:
        return (self.frames_there, self.frames_back) == (1, 1)


@dataclass(slots=True)
class CallRecorder:
    """The calls of all connections, in order of their beginning."""

    address: str
    calls: list[Call] = field(default_factory=list)
    greetings: int = 0

    def between_batches(self, checkpoint: str, first: int, last: int) -> list[Call]:
        """What was called from the plan of one batch to that of another, the second left out; as it stands by now.

        Later a service that ends says farewell on each connection, which is not an answer to the last call there.
        """
        puts = {call.path: number for number, call in enumerate(self.calls) if call.kind is FileMessageType.PUT}
        calls = self.calls[puts[f"{checkpoint}/offsets/{first}"] : puts[f"{checkpoint}/offsets/{last}"]]
        return [replace(call) for call in calls]

    def serve(self, client: socket.socket, service: socket.socket) -> None:
        """One connection, until either side ends it."""
        current: dict[int, Call] = {}  # the last one with each tag; all have the same one where there are none
        shared = False

        def request(kind: FileMessageType, body: memoryview) -> None:
            nonlocal shared
            tag = OF_THE_CONNECTION
            if kind is FileMessageType.HELLO:
                shared = hello_head(body).version == SHARED_VERSION
            elif shared:
                tag, body = untagged(body)
            if kind in _GREETINGS:
                self.greetings += 1
            elif kind in _MORE_OF_A_CALL:
                current[tag].frames_there += 1
            else:
                decoded = decode_request(kind, body)
                current[tag] = Call(kind=kind, path=getattr(decoded, "path", ""))
                self.calls.append(current[tag])

        def answer(kind: FileMessageType, body: memoryview) -> None:
            if kind not in _GREETINGS and kind is not FileMessageType.WAITING:
                tag = untagged(body)[0] if shared else OF_THE_CONNECTION
                if tag in current:  # not a farewell
                    current[tag].frames_back += 1

        threading.Thread(target=_pass_on, args=(service, client, answer), daemon=True).start()
        _pass_on(client, service, request)


def _pass_on(source: socket.socket, target: socket.socket, note: Callable[[FileMessageType, memoryview], None]) -> None:
    splitter = FrameSplitter(frame_bytes_max=FRAME_BYTES_MAX)
    with source, target:
        try:
            while data := source.recv(_RECEIVE_BYTES):
                splitter.feed(data)
                while frame := splitter.next_frame():
                    note(FileMessageType(frame[0]), frame[1])
                target.sendall(data)
        except OSError:  # the other direction has ended
            return


@contextmanager
def recorded(service: str) -> Iterator[CallRecorder]:
    """Give Spark its address in place of the service's."""
    host, _, port = service.rpartition(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        recorder = CallRecorder(f"127.0.0.1:{listener.getsockname()[1]}")

        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:  # the block has ended
                    return
                upstream = socket.create_connection((host, int(port)))
                for one in (client, upstream):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=recorder.serve, args=(client, upstream), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield recorder
        listener.shutdown(socket.SHUT_RDWR)
