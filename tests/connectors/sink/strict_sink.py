"""A sink that behaves as Wallaroo's does, written from the protocol's document and the vectors alone.

    python -m tests.connectors.sink.strict_sink --listen 127.0.0.1:0 --dir DIR [--rules FILE]

It shares no code with `connectors`. It dies, with exit code 66, of all that Wallaroo's dies of: rows that do not begin
where the last ones end, rows before NOTIFY or between the phases, a second transaction, a commit of what it voted to
abort. It lists what it voted to abort, lies in NOTIFY_ACK, and takes only one connection of an instance at a time.
"""

from __future__ import annotations

import ast
import os
import random
import re
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Any

DEADLY = 66


def die(reason: str) -> None:
    print(f"strict sink: {reason}", file=sys.stderr, flush=True)  # noqa: T201
    os._exit(DEADLY)


class HungUpError(Exception):
    """The connection is over."""


class StrictState:
    """What is on disk: OUT has the rows, OUT.txnlog a tuple a line."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.out = (directory / "out").open("ab+", buffering=0)
        self.log = (directory / "txnlog").open("ab+")
        self.log.seek(0)
        self.uncommitted: dict[str, tuple[bool, int, int]] = {}
        self.end = 0
        self.active: set[bytes] = set()
        for line in self.log.read().splitlines():
            self.apply(ast.literal_eval(line.decode()))
        self.offset = self.end

    def apply(self, entry: tuple[Any, ...]) -> None:
        match entry:
            case ("1", name, vote, first, after):
                self.uncommitted[name] = (vote, first, after)
            case ("2", name, commit):
                _, _, after = self.uncommitted.pop(name)
                self.end = after if commit else self.end

    def write(self, *entry: Any) -> None:
        self.log.write(repr(entry).encode() + b"\n")
        self.log.flush()
        os.fsync(self.log.fileno())
        self.apply(entry)

    def forget_tentative(self) -> None:
        """At HELLO."""
        ends = [after for vote, _, after in self.uncommitted.values() if vote]
        self.offset = ends[0] if ends else self.end
        self.out.truncate(self.offset)


class StrictConnection:
    """One relay's."""

    def __init__(self, connection: socket.socket, state: StrictState, rules: list[tuple[Any, ...]]) -> None:
        self._socket = connection
        self._state = state
        self._rules = rules
        self._instance: bytes | None = None
        self._notified = False
        self._refuse = False

    def run(self) -> None:
        try:
            while True:
                (size,) = struct.unpack(">I", self._exactly(4))
                frame = self._exactly(size)
                self._take(frame[0], frame[1:])
        except (HungUpError, OSError):
            pass
        finally:
            if self._instance is not None:
                self._state.active.discard(self._instance)
            self._socket.close()

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            part = self._socket.recv(size)
            if not part:
                raise HungUpError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _say(self, kind: int, body: bytes) -> None:
        self._socket.sendall(struct.pack(">IB", len(body) + 1, kind) + body)

    def _take(self, kind: int, body: bytes) -> None:
        if kind == 0:
            self._hello(body)
        elif self._instance is None:
            die(f"frame {kind} before HELLO")
        elif kind == 3:
            stream_id, size = struct.unpack_from(">QH", body)
            if stream_id != 1 or len(body) != 18 + size:
                die(f"NOTIFY {body!r}")
            self._notified = True
            lie = random.choice((0, 7, self._state.offset, (1 << 64) - 1))
            self._say(4, struct.pack(">BQQ", 1, 1, lie))
        elif kind == 5:
            stream_id, message_id, _, key_bytes = struct.unpack_from(">QQqH", body)
            payload = body[26 + key_bytes :]
            if stream_id == 0:
                self._two_phase(payload)
            else:
                self._row(stream_id, message_id, payload)
        elif kind == 2:
            raise HungUpError
        else:
            die(f"frame {kind}")

    def _hello(self, body: bytes) -> None:
        fields = []
        while body:
            (size,) = struct.unpack_from(">H", body)
            fields.append(body[2 : 2 + size])
            body = body[2 + size :]
        version, cookie, _, instance = fields
        if (version, cookie) != (b"v0.0.1", b"Dragons-Love-Tacos"):
            die(f"HELLO {fields}")
        if instance in self._state.active:
            reason = b"already active"
            self._say(2, struct.pack(">H", len(reason)) + reason)
            raise HungUpError
        self._state.active.add(instance)
        self._instance = instance
        self._say(1, struct.pack(">I", 500))
        self._state.forget_tentative()

    def _row(self, stream_id: int, message_id: int, payload: bytes) -> None:
        state = self._state
        if stream_id != 1 or not self._notified:
            die("a row before NOTIFY")
        if state.uncommitted:
            die("a row between the phases")
        if message_id != state.offset:
            die(f"a row at {message_id}, where {state.offset} follows")
        state.out.write(payload)
        state.offset += len(payload)
        if any(rule[0] == "stream-content" and re.search(rule[2], str(payload)) for rule in self._rules):
            self._refuse = True

    def _two_phase(self, body: bytes) -> None:
        state = self._state
        if body[0] == 201:
            names = [name.encode("ascii") for name in state.uncommitted]
            listed = b"".join(struct.pack(">H", len(name)) + name for name in names)
            self._message(b"\xca" + body[1:9] + struct.pack(">I", len(names)) + listed)
            return
        (size,) = struct.unpack_from(">H", body, 1)
        name, rest = body[3 : 3 + size].decode("ascii"), body[3 + size :]
        if body[0] == 203:
            self._phase_one(name, rest)
        elif body[0] == 205:
            self._phase_two(name, commit=rest == b"\x01")
        else:
            die(f"two-phase message {body[0]}")

    def _phase_one(self, name: str, rest: bytes) -> None:
        state = self._state
        count, stream_id, first, after = struct.unpack(">IQQQ", rest)
        if (count, stream_id, after) != (1, 1, state.offset) or first != state.end or state.uncommitted:
            die(f"phase 1 of {name}: {count} {stream_id} {first} {after}; {state.offset} {state.uncommitted}")
        vote, before, behind = not self._refuse, False, False
        for rule in self._rules:
            if rule[0] == "txnid-regexp" and re.search(rule[1], name):
                vote, before, behind = rule[2], rule[3], rule[4]
        os.fsync(state.out.fileno())
        state.write("1", name, vote, first, after)
        self._refuse = False
        if before:
            raise HungUpError
        self._message(b"\xcc" + struct.pack(">H", len(name)) + name.encode() + bytes((vote,)))
        if behind:
            raise HungUpError

    def _phase_two(self, name: str, *, commit: bool) -> None:
        state = self._state
        if name not in state.uncommitted:
            return
        vote, first, after = state.uncommitted[name]
        if commit and (not vote or after != state.offset):
            die(f"{name} is committed, and the vote was {vote}")
        if not commit:
            state.out.truncate(first)
            state.offset = first
        state.write("2", name, commit)

    def _message(self, payload: bytes) -> None:
        self._say(5, bytes(26) + payload)


def main() -> None:
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    rules_file = options.get("--rules")
    rules = [ast.literal_eval(line) for line in Path(rules_file).read_text().splitlines()] if rules_file else []
    state = StrictState(Path(options["--dir"]))
    host, _, port = options["--listen"].rpartition(":")
    with socket.create_server((host, int(port))) as server:
        print(f"ready {host}:{server.getsockname()[1]}", flush=True)  # noqa: T201
        while True:
            connection, _ = server.accept()
            threading.Thread(target=StrictConnection(connection, state, rules).run, daemon=True).start()


def committed(directory: Path) -> bytes:
    """The rows that such a sink has committed."""
    end = 0
    votes: dict[str, int] = {}
    for line in (directory / "txnlog").read_text().splitlines():
        match ast.literal_eval(line):
            case ("1", name, _, _, after):
                votes[name] = after
            case ("2", name, True):
                end = votes[name]
    return (directory / "out").read_bytes()[:end]


if __name__ == "__main__":
    main()
