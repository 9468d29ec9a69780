"""No two processes of tests are given one port, although it is bound only later."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tests.system import ports
from tests.system.ports import free_port

DRAWN = 500
DRAW = f"from tests.system.ports import free_port; print(*(free_port() for _ in range({DRAWN}))); input()"


def test_each_is_given_once() -> None:
    drawn = [free_port() for _ in range(DRAWN)]
    assert len(set(drawn)) == DRAWN


def test_two_processes_have_none_in_common() -> None:
    command = [sys.executable, "-c", DRAW]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        drawn = []
        for process in both:
            assert process.stdout is not None
            drawn.append({int(port) for port in process.stdout.readline().split()})
    finally:
        for process in both:
            process.communicate("\n", timeout=600)
    assert [len(one) for one in drawn] == [DRAWN, DRAWN]
    assert drawn[0].isdisjoint(drawn[1])


def test_what_somebody_listens_on_is_passed_over() -> None:
    while (following := free_port() + 1) % ports.BLOCK_PORTS == 0:
        pass
    with socket.create_server(("127.0.0.1", following)):
        assert free_port() != following


def test_none_is_one_that_an_outgoing_connection_may_have() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert ports.PORTS[-1] < first
