"""The process beside a driver: order of starting and stopping, starting again, and the end of the driver in any way."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PROGRAM = """
import os, signal, socket, sys, time
name, diary, listen, also = sys.argv[1:5]
def note(what):
    with open(diary, "a") as stream:
        stream.write(f"{name} {what}\\n")
def stop(*_):
    note("stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
host, _, port = listen.rpartition(":")
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind((host, int(port)))
server.listen()
note(f"started {os.getpid()} {server.getsockname()[1]} {also}")
print(f"ready {host}:{server.getsockname()[1]}", flush=True)
while True:
    time.sleep(60)
"""


def _plan(tmp_path: Path, *, second: str = _PROGRAM, on_demand: bool = False) -> Path:
    (tmp_path / "first.py").write_text(_PROGRAM)
    (tmp_path / "second.py").write_text(second)
    plan = [
        {
            "name": name,
            "command": [sys.executable, str(tmp_path / f"{name}.py"), name, str(tmp_path / "diary"), "{listen}", also],
            "host": "127.0.0.1",
            "log": str(tmp_path / f"{name}.log"),
            "on_demand": on_demand and name == "second",
        }
        for name, also in (("first", "-"), ("second", "{first}"))
    ]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    return path


def _start(plan: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "spark_integration.companion", str(plan)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _said(companion: subprocess.Popen[str]) -> tuple[str, str]:
    assert companion.stdout is not None
    word, _, rest = companion.stdout.readline().strip().partition(" ")
    return word, rest


def _end(companion: subprocess.Popen[str]) -> None:
    assert companion.stdin is not None
    assert companion.stdout is not None
    companion.stdin.close()
    companion.wait(timeout=600)
    companion.stdout.close()


def _diary(tmp_path: Path) -> list[list[str]]:
    path = tmp_path / "diary"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def _log(tmp_path: Path, name: str) -> str:
    path = tmp_path / f"{name}.log"
    return path.read_text() if path.exists() else ""


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def _is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


def test_programs_start_in_order_and_end_in_reverse(tmp_path: Path) -> None:
    companion = _start(_plan(tmp_path))
    word, rest = _said(companion)
    assert word == "ready"
    addresses = json.loads(rest)
    _end(companion)
    (first, second, *ends) = _diary(tmp_path)
    assert (first[0], second[0]) == ("first", "second")
    assert addresses == {"first": f"127.0.0.1:{first[3]}", "second": f"127.0.0.1:{second[3]}"}
    assert second[4] == addresses["first"]
    assert ends == [["second", "stopped"], ["first", "stopped"]]


def test_killed_program_is_started_again_where_it_was(tmp_path: Path) -> None:
    companion = _start(_plan(tmp_path))
    assert _said(companion)[0] == "ready"
    killed = _diary(tmp_path)[1]
    os.kill(int(killed[2]), signal.SIGKILL)
    _until(lambda: len(_diary(tmp_path)) == 3)
    again = _diary(tmp_path)[2]
    assert again[0] == "second"
    assert again[3:] == killed[3:]
    assert again[2] != killed[2]
    _end(companion)
    assert _diary(tmp_path)[-1] == ["first", "stopped"]


def test_program_that_nobody_asks_for_is_not_started(tmp_path: Path) -> None:
    companion = _start(_plan(tmp_path, on_demand=True))
    addresses = json.loads(_said(companion)[1])
    assert set(addresses) == {"first", "second"}
    _end(companion)
    assert [line[:2] for line in _diary(tmp_path)] == [["first", "started"], ["first", "stopped"]]


def test_program_that_is_asked_for_starts_where_it_was_asked_for_and_is_kept(tmp_path: Path) -> None:
    companion = _start(_plan(tmp_path, on_demand=True))
    host, _, port = json.loads(_said(companion)[1])["second"].rpartition(":")
    socket.create_connection((host, int(port))).close()
    _until(lambda: len(_diary(tmp_path)) == 2)
    started = _diary(tmp_path)[1]
    assert started[0] == "second"
    assert started[3] == port
    os.kill(int(started[2]), signal.SIGKILL)
    _until(lambda: len(_diary(tmp_path)) == 3)
    assert _diary(tmp_path)[2][3] == port
    _end(companion)
    assert _diary(tmp_path)[-2:] == [["second", "stopped"], ["first", "stopped"]]


def test_program_that_is_asked_for_and_cannot_start_is_tried_again_and_ends_nobody(tmp_path: Path) -> None:
    second = f"import os\nif not os.path.exists({str(tmp_path / 'room')!r}): raise SystemExit('no room')\n" + _PROGRAM
    companion = _start(_plan(tmp_path, on_demand=True, second=second))
    host, _, port = json.loads(_said(companion)[1])["second"].rpartition(":")
    socket.create_connection((host, int(port))).close()
    _until(lambda: "no room" in _log(tmp_path, "second"))
    (tmp_path / "room").touch()
    _until(lambda: len(_diary(tmp_path)) == 2)
    _end(companion)


def test_programs_end_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    plan = _plan(tmp_path)
    driver_code = (
        "import subprocess, sys, time\n"
        f"c = subprocess.Popen([sys.executable, '-m', 'spark_integration.companion', {str(plan)!r}],"
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)\n"
        "print(c.stdout.readline().decode(), flush=True)\n"
        "time.sleep(60)\n"
    )
    driver = subprocess.Popen([sys.executable, "-c", driver_code], stdout=subprocess.PIPE, text=True)
    assert _said(driver)[0] == "ready"
    driver.kill()
    driver.wait()
    _until(lambda: _diary(tmp_path)[-2:] == [["second", "stopped"], ["first", "stopped"]])
    assert driver.stdout is not None
    driver.stdout.close()


def test_programs_end_with_a_companion_that_is_killed(tmp_path: Path) -> None:
    companion = _start(_plan(tmp_path))
    assert _said(companion)[0] == "ready"
    companion.kill()
    companion.wait()
    pids = [line[2] for line in _diary(tmp_path)[:2]]
    _until(lambda: not any(_is_running(pid) for pid in pids))
    for stream in (companion.stdin, companion.stdout):
        assert stream is not None
        stream.close()


def test_program_that_cannot_start_is_told_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "second.log").write_text("what went wrong another time\n")
    companion = _start(_plan(tmp_path, second="import sys; sys.exit('no such volume: make it first')"))
    word, rest = _said(companion)
    assert word == "failed"
    assert "another time" not in rest
    assert "second ended with 1" in json.loads(rest)
    assert "no such volume: make it first" in json.loads(rest)
    assert companion.wait(timeout=600) == 1
    assert _diary(tmp_path)[-1] == ["first", "stopped"]
    _end(companion)
