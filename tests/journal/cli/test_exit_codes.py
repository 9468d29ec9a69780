"""The command's last words: what it exits with when something around it fails."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

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
    assert (ended.returncode, ended.stderr) == (141, f"reading the log at {volume.root}/payments\n")


def test_a_loss_is_accepted_only_where_it_is_said_where_the_volume_is(run_main: RunMain) -> None:
    ended = run_main("repair", "payments", "--accept-loss", "--yes-lose", "payments")
    assert ended.exit_code == 2
    assert "--servers" in ended.stderr
