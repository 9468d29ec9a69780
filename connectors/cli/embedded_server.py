"""An SOS server for `listen --embedded`: a process beside the listener, which ends with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, JournalError, journal_error
from sos_client.serving.access import Right, append_token, new_token

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STOP_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedServer:
    """Where it serves, and the token that it wants: others on this machine could reach it, too."""

    address: str
    token: bytes


@contextmanager
def embedded_server(root: Path) -> Iterator[EmbeddedServer]:
    """The server, during the block. JournalError when it cannot be started, or ends before the block does."""
    root.parent.mkdir(parents=True, exist_ok=True)
    tokens = root.parent / "server-tokens.toml"
    tokens.unlink(missing_ok=True)
    text, grant = new_token(name="listener", namespaces=("*",), rights=frozenset(Right), expires=None)
    append_token(tokens, grant)
    ours, theirs = os.pipe()
    command = [sys.executable, "-m", "sos_server", "serve", "--root", str(root), "--listen", "127.0.0.1:0"]
    command += ["--tokens", str(tokens), "--exit-with-fd", str(ours)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=[ours], text=True, start_new_session=True)
    os.close(ours)
    stopping = threading.Event()
    try:
        assert process.stdout is not None
        word, _, address = process.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise _ended(process.wait())
        watch = threading.Thread(target=_watch, args=(process, stopping), daemon=True)
        watch.start()
        yield EmbeddedServer(address=address, token=bytes.fromhex(text))
        if process.poll() is not None:
            raise _ended(process.returncode)
    finally:
        stopping.set()
        process.terminate()
        os.close(theirs)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def _watch(process: subprocess.Popen[str], stopping: threading.Event) -> None:
    """The listener is nothing without its server: it ends as if it had been told to, and says why."""
    process.wait()
    if not stopping.is_set():
        os.kill(os.getpid(), signal.SIGTERM)


def _ended(code: int) -> JournalError:
    return journal_error(JournalCode.UNAVAILABLE, f"the embedded SOS server ended with {code}; stderr says why")
