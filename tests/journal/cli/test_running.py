"""The command's last words: what it exits with when something around it fails."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import click
import pytest

from journal.cli.running import run_async, run_command
from tests.journal.cli.conftest import RunMain, VolumeOnDisk, write_query


@pytest.mark.parametrize("verb", ["log", "ls"])
def test_whoever_reads_the_output_may_have_enough_of_it(volume: VolumeOnDisk, verb: str) -> None:
    write_query(volume, "q1", "hdfs", batches=2)
    volume.save()
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "journal", verb, "payments", "--dir", str(volume.root)]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, f"reading the log at {volume.root}/payments\n")


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [
        (errno.ENOSPC, 7, "what is written to: No space left on device"),
        (errno.EDQUOT, 7, "what is written to: Disk quota exceeded"),
        (errno.EACCES, 6, "Permission denied"),
        (errno.ENOENT, 3, "No such file or directory"),
        (errno.EIO, 1, "the system: Input/output error"),
    ],
)
def test_what_a_plain_directory_refuses_has_an_exit_code(
    number: int, code: int, words: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def fail() -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("sys.argv", ["sos-journal"])
    with pytest.raises(SystemExit) as ended:
        run_command(click.Command("restore", callback=lambda: run_async(fail)))
    assert ended.value.code == code
    assert words in capfd.readouterr().err


def test_a_loss_is_accepted_only_where_it_is_said_where_the_volume_is(run_main: RunMain) -> None:
    ended = run_main("repair", "payments", "--accept-loss", "--yes-lose", "payments")
    assert ended.exit_code == 2
    assert "--servers" in ended.stderr
