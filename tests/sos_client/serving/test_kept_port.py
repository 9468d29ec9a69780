"""A kept port: its user's programs serve there one after the other, and nobody else can in between."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys

import pytest

from sos_client.serving.kept_port import KeptPort

STRANGER = """
import os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
stranger = socket.socket()
for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
    stranger.setsockopt(socket.SOL_SOCKET, option, 1)
stranger.bind((sys.argv[1], int(sys.argv[2])))
"""


def program(port: KeptPort) -> socket.socket:
    return socket.create_server(("127.0.0.1", port.port), reuse_port=True)


def test_programs_serve_one_after_the_other() -> None:
    with KeptPort("127.0.0.1") as port:
        for _ in range(2):
            with program(port) as listening, socket.create_connection(("127.0.0.1", port.port)):
                listening.accept()[0].close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port.port))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("served", [False, True])
def test_who_does_not_share_it_cannot_have_it(host: str, *, served: bool) -> None:
    with KeptPort("127.0.0.1") as port:
        listening = program(port) if served else None
        with socket.socket() as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match=os.strerror(errno.EADDRINUSE)):
                stranger.bind((host, port.port))
        if listening is not None:
            listening.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("served", [False, True])
def test_another_user_cannot_have_it_whatever_it_asks_for(host: str, *, served: bool) -> None:
    with KeptPort("127.0.0.1") as port:
        listening = program(port) if served else None
        command = [sys.executable, "-c", STRANGER, host, str(port.port)]
        tried = subprocess.run(command, capture_output=True, check=False)
        assert tried.returncode == 1
        assert b"Address already in use" in tried.stderr
        if listening is not None:
            listening.close()


def test_a_port_that_somebody_has_cannot_be_kept() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(OSError, match="in use"):
        KeptPort("127.0.0.1", listening.getsockname()[1])
