"""docs/connectors.md and examples/: what is to be copied and pasted works as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from journal.gateway.client.client import open_volume
from tests.connectors.relay.processes import RunningProgram, relay_house
from tests.connectors.relay.staging_driver import staging_driver
from tests.connectors.test_listen_process import Process, stored

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENT = (ROOT / "docs/connectors.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples/source.py"
SINK_EXAMPLE = ROOT / "examples/sink.py"


def embedded(tmp_path: Path) -> Process:
    listener = Process("listener", tmp_path, "connectors", "listen", "--volume", "clicks", "--embedded")
    listener._command += ["--dir", str(tmp_path / "all"), "--listen", "127.0.0.1:0"]
    return listener


async def past_seconds(address: str) -> int:
    async with open_volume([address], "clicks") as volume:
        return (await volume.describe()).retention.seconds


def test_the_source_of_twenty_lines(tmp_path: Path) -> None:
    assert EXAMPLE.read_text(encoding="utf-8") in DOCUMENT
    listener = embedded(tmp_path)

    def run() -> str:
        command = [sys.executable, str(EXAMPLE), listener.addresses["ready"]]
        said = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600, cwd=ROOT)
        assert said.returncode == 0, said.stderr
        return said.stdout

    try:
        listener.start()
        assert run() == run() == "durable up to message 1000\n"
        assert [row[2] for row in stored(listener)] == list(range(1, 1001))
        assert trio.run(past_seconds, listener.addresses["files"]) == 86_400
    finally:
        listener.end()


@pytest.mark.slow
def test_the_sink_of_a_page(tmp_path: Path) -> None:
    """With a batch that is committed while it is killed again and again."""
    assert SINK_EXAMPLE.read_text(encoding="utf-8") in DOCUMENT
    with relay_house(tmp_path, sinks=0) as house:
        sink = RunningProgram("sink", tmp_path, str(SINK_EXAMPLE), str(tmp_path / "rows"), module=False)
        try:
            sink.start()
            sink.end()

            async def drive() -> None:
                async with staging_driver(house.relay.address, [sink.address]) as driver:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(driver.batch, 0, [b"a", b"b"], [b"c"])
                        await trio.to_thread.run_sync(sink.start)
                    await driver.batch(1, [b"d"])
                    sink.end()
                    await trio.to_thread.run_sync(sink.start)
                    await driver.batch(1, [b"another run of it"])

            trio.run(drive)
        finally:
            sink.end()
    files = {file.name: file.read_bytes() for file in (tmp_path / "rows").glob("*.csv")}
    assert files == {"0.csv": b"a\nb\nc\n", "3.csv": b"d\n"}


def test_five_minutes(tmp_path: Path) -> None:
    block = re.search(r"## Five minutes\n.*?```sh\n(.*?)```", DOCUMENT, re.DOTALL)
    assert block
    script = re.sub(r"(?m)^sos-connector", f"{sys.executable} -m connectors", block[1])
    script = script.replace("7431", "27431").replace("7432", "27432")
    script = script.replace(" --embedded ", " --embedded --listen 127.0.0.1:27431 ")
    script = "set -e\n" + script.replace(" &\n", " &\nlistener=$!\ntrap 'kill $listener; wait' EXIT\n", 1)
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    said = subprocess.run(
        ["bash", "-c", script], check=False, capture_output=True, text=True, timeout=600, cwd=tmp_path, env=environment
    )
    assert said.returncode == 0, said.stderr
    assert "100,000 kept, of 100,000" in said.stdout
