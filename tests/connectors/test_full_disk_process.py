"""The servers' disk is full: sources wait, `status` says for whom, nothing is lost; all goes on when there is room."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.connectors.test_listen_process import Process, stored
from tests.connectors.test_tools_process import status
from tests.system.test_server_disk_full import small_disk

if TYPE_CHECKING:
    from pathlib import Path

LINES = 120_000
LINE_BYTES = 1000  # 120 MB of messages
DISK_BYTES = 288 << 20  # of which a server's log takes up to 100 MB
FILLER_BYTES = 152 << 20


@pytest.mark.slow
def test_sources_wait_while_the_disk_is_full(tmp_path: Path) -> None:
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / "disk", DISK_BYTES))
        filler = disk / "filler"
        filler.write_bytes(os.urandom(1 << 20) * (FILLER_BYTES >> 20))
        server = Process("server", tmp_path, "sos_server", "serve", "--root", str(disk / "server"))
        server._command += ["--listen", "127.0.0.1:0"]
        listener = Process("listener", tmp_path, "connectors", "listen", "--volume", "clicks", "--create")
        for process in (server, listener):
            stack.callback(process.end)
        server.start()
        listener._command += ["--servers", server.addresses["ready"], "--dir", str(tmp_path / "cache")]
        listener._command += ["--listen", "127.0.0.1:0"]
        listener.start()
        lines = tmp_path / "lines"
        lines.write_bytes(b"".join(b"%0*d\n" % (LINE_BYTES, n) for n in range(LINES)))
        command = [sys.executable, "-m", "connectors", "send", str(lines), "--to", listener.addresses["ready"]]
        sending = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        stack.callback(sending.kill)
        files = ("--service", listener.addresses["files"])
        deadline = time.monotonic() + 600
        while not any("the SOS servers" in wait["for"] for wait in status(*files)["waits"]):
            assert sending.poll() is None, sending.communicate()
            assert time.monotonic() < deadline, status(*files)
            time.sleep(0.5)
        stopped = status(*files)
        assert 0 < stopped["next_sequence"] < LINES
        assert stopped["connections"][0]["waits_for"]
        time.sleep(3)
        assert status(*files)["next_sequence"] == stopped["next_sequence"]
        assert sending.poll() is None
        filler.unlink()
        shown, problems = sending.communicate(timeout=600)
        assert sending.returncode == 0, shown + problems
        assert status(*files)["waits"][0]["who"] == "retention"
        assert [row[3] for row in stored(listener)] == lines.read_bytes().splitlines()
        listener.end()
        listener.start()
        assert status("--service", listener.addresses["files"])["next_sequence"] == LINES
