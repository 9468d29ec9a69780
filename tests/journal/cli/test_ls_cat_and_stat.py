"""ls, cat, stat: the image at any moment; and bad arguments give one sentence and an exit code."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sos_client.wire.checksum import crc32c
from tests.journal.cli.conftest import Cli, RunMain, VolumeOnDisk, write_query

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def saved(volume: VolumeOnDisk) -> VolumeOnDisk:
    write_query(volume, "q1", "hdfs", batches=6)
    volume.put("q1/odd\x1b[31mname", b"\xff\xfe")
    volume.save()
    return volume


def test_ls_shows_sizes_times_and_names(saved: VolumeOnDisk, cli: Cli) -> None:
    result = cli.here("ls", "sos://payments/q1/commits", "--utc")
    assert result.exit_code == 0
    header, first, *rest = result.stdout.splitlines()
    assert header.split() == ["SIZE", "MODIFIED", "PATH"]
    assert first.split()[:2] == ["29", "B"]
    assert first.endswith("q1/commits/0")
    assert "Z  " in first
    assert len(rest) == 5


def test_ls_of_the_past_shows_the_past(saved: VolumeOnDisk, cli: Cli) -> None:
    entries = cli.lines("ls", "sos://payments/q1/commits", "--at", "batch:2")
    assert [entry["path"] for entry in entries] == ["q1/commits/0", "q1/commits/1", "q1/commits/2"]
    everything = cli.lines("ls", "-R", "payments")
    assert {entry["path"] for entry in everything} >= {"q1", "q1/state/0/1/6.delta", "q1/metadata"}


def test_control_characters_do_not_reach_the_terminal(saved: VolumeOnDisk, cli: Cli) -> None:
    result = cli.here("ls", "sos://payments/q1")
    assert "\x1b" not in result.stdout
    assert r"odd\u001b[31mname" in result.stdout


def test_cat_gives_the_bytes(saved: VolumeOnDisk, cli: Cli) -> None:
    result = cli.here("cat", "sos://payments/q1/state/0/0/3.delta", "sos://payments/q1/commits/0")
    assert result.stdout_bytes == b'state 3 0v1\n{"nextBatchWatermarkMs":0}'
    text, binary = cli.lines("cat", "sos://payments/q1/commits/0", "sos://payments/q1/odd\x1b[31mname")
    assert text["text"].startswith("v1\n")
    assert binary["hex"] == "fffe"


def test_stat_says_where_the_bytes_lie(saved: VolumeOnDisk, cli: Cli) -> None:
    (status,) = cli.lines("stat", "sos://payments/q1/state/0/0/3.delta")
    assert status["crc32c"] == f"{crc32c(b'state 3 0'):08x}"
    (extent,) = status["extents"]
    data = (saved.root / "payments" / extent["object"]).read_bytes()
    assert data[extent["offset"] : extent["offset"] + extent["length"]] == b"state 3 0"
    assert "kind       directory" in cli.here("stat", "sos://payments/q1").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["ls", "sos://payments/nowhere"], 3, "nothing at nowhere"),
        (["cat", "sos://payments/q1"], 4, "is a directory"),
        (["cat", "sos://payments/../x"], 2, r"'\.\.'"),
        (["ls", "sos:///x"], 2, "is not a name"),
        (["ls", "a/b"], 2, "is not a location"),
        (["ls", "sos://payments/", "--at", "tomorrow"], 2, "is not a moment"),
        (["ls", "sos://payments/", "--at", "999999999"], 3, "not reached yet"),
        (["ls", "sos://payments/", "--at", "batch:77"], 3, "committed batch 77"),
        (["ls", "sos://payments/", "--at", "1999-01-01"], 3, "nothing that is kept"),
        (["ls", "sos://payments/\udcff"], 2, "UTF-8"),
        (["ls", "sos://payments/", "--servers", "nohost"], 2, "HOST:PORT"),
        (["ls", "sos://payments/", "--servers", "a:99999"], 2, "HOST:PORT"),
        (["ls", "sos://payments/", "--token-file", "/nowhere"], 2, "cannot be read as a token"),
        (["ls", "sos://payments/", "--tls-ca", "/nowhere"], 2, "cannot be used"),
        (["ls"], 2, "Missing argument"),
        (["frobnicate"], 2, "No such command"),
    ],
)
def test_bad_arguments(saved: VolumeOnDisk, run_main: RunMain, arguments: list[str], code: int, message: str) -> None:
    ended = run_main(*arguments, "--dir", str(saved.root))
    assert ended.exit_code == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    assert re.search(message, ended.stderr), ended.stderr


def test_what_is_not_there_at_all(tmp_path: Path, run_main: RunMain) -> None:
    ended = run_main("ls", "v", "--dir", str(tmp_path))
    assert (ended.exit_code, ended.stderr) == (3, "sos-journal: there is no volume v here\n")
    ended = run_main("ls", "v", "--servers", "127.0.0.1:1")
    assert ended.exit_code == 9
    assert "127.0.0.1:1 does not answer" in ended.stderr
    ended = run_main("ls", "v")
    assert ended.exit_code == 2
    assert "--service, --servers or --dir" in ended.stderr


def test_who_waits_for_a_silent_service_is_told_so() -> None:
    command = [sys.executable, "-m", "journal", "ls", "v", "--service", "127.0.0.1:1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline() == "reading the service at 127.0.0.1:1\n"
        assert waiting.stderr.readline() == "127.0.0.1:1: connection refused; trying for up to 120 s\n"
        waiting.kill()


def test_the_process_exits_with_the_code(tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "journal", "ls", "v", "--dir", str(tmp_path / "nowhere")]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (9, "")
    assert run.stderr.startswith("sos-journal: ")


def test_help_has_examples_and_exit_codes(cli: Cli) -> None:
    assert "Exit codes" in cli("--help").stdout
    for verb in ("ls", "cat", "stat"):
        assert f"sos-journal {verb}" in cli(verb, "--help").stdout
