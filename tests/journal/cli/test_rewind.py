"""rewind: a query back at its place, with its sinks in view, against a real service on a real server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from journal.gateway.client.client import open_volume
from journal.volume import PathClaim
from tests.journal.checkpoints import checkpoint
from tests.journal.cli.conftest import Cli
from tests.journal.cli.servers import process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.testing import Result

OVER = PathClaim(application="app-over", start_time=1_790_000_000_000)
BATCHES = 5


def _files_in_order() -> list[tuple[str, bytes]]:
    """As Spark writes them: batch after batch, the plan first, the commit last."""
    files = checkpoint("hdfs", batches=BATCHES)

    def place(name: str) -> tuple[int, int]:
        last = name.rpartition("/")[2].split(".")[0]
        number = int(last) if last.isdecimal() else -1
        if name.startswith("state/") and number >= 0:
            return number - 1, 1
        return number, 2 if name.startswith("commits/") else 0

    return sorted(files.items(), key=lambda item: place(item[0]))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("rewind")

    async def write(address: str) -> None:
        async with open_volume([address], "payments") as volume:
            for query in ("q1", "q2", "q3"):
                await volume.claim(query, OVER, operation=volume.new_operation())
                for name, data in _files_in_order():
                    operation = volume.new_operation()
                    await volume.put(f"{query}/{name}", data, overwrite=False, operation=operation, claim=OVER)
            for batch in range(BATCHES):
                path = f"out/_spark_metadata/{batch}"
                await volume.put(path, b"v1\n", overwrite=False, operation=volume.new_operation())

    with process("sos_server", "--root", str(root / "a"), "--listen", "127.0.0.1:0") as (_, server):
        arguments = ["--volume", "payments", "--servers", server, "--dir", str(root / "dir"), "--create"]
        with process("journal", "serve", *arguments, "--listen", "127.0.0.1:0") as (_, address):
            trio.run(write, address)
            yield address


def _run(service: str, *arguments: str) -> Result:
    return Cli(Path())(*arguments, "--service", service)


def _commits(service: str, path: str) -> list[str]:
    listed = _run(service, "ls", f"sos://payments/{path}/commits", "--json")
    assert listed.exit_code == 0, listed.output
    return [json.loads(line)["path"].rpartition("/")[2] for line in listed.stdout.splitlines()]


def test_the_plan_changes_nothing_and_says_what_stays(service: str) -> None:
    done = _run(service, "rewind", "sos://payments/q1", "--to", "batch:2", "--plan")
    assert done.exit_code == 0, done.output
    assert "goes back to batch 2" in done.stdout
    assert "run again: 3 batches, 3 to 5" in done.stdout
    assert "_spark_metadata" in done.stdout
    assert len(_commits(service, "q1")) == BATCHES


def test_a_query_goes_back_in_its_place(service: str) -> None:
    done = _run(service, "rewind", "sos://payments/q1", "--to", "batch:2", "--apply", "--yes", "--json")
    assert done.exit_code == 0, done.output
    assert _commits(service, "q1") == ["0", "1", "2"]
    before = json.loads(done.stdout.splitlines()[-1])["before"]
    assert len(_commits(service, before)) == BATCHES
    assert _run(service, "doctor", "sos://payments/q1").exit_code == 0
    assert _run(service, "batches", "sos://payments/q1").exit_code == 0


def test_without_an_answer_nothing_happens(service: str) -> None:
    done = _run(service, "rewind", "sos://payments/q2", "--to", "batch:2", "--apply")
    assert done.exit_code != 0
    assert len(_commits(service, "q2")) == BATCHES


def test_a_file_sink_in_a_directory_forgets_the_later_batches(service: str, tmp_path: Path) -> None:
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in range(BATCHES):
        (log / str(batch)).write_text("v1\n")
        (log / f".{batch}.crc").write_bytes(b"crc")
    arguments = ("rewind", "sos://payments/q2", "--to", "batch:2", "--file-sink", str(tmp_path / "out"))
    assert "has 2 later batches" in _run(service, *arguments, "--plan").stdout
    done = _run(service, *arguments, "--apply", "--yes")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in log.iterdir()) == [".0.crc", ".1.crc", ".2.crc", "0", "1", "2"]
    (aside,) = (tmp_path / "out").glob("_spark_metadata.before-rewind-*")
    assert sorted(path.name for path in aside.iterdir()) == [".3.crc", ".4.crc", "3", "4"]


def test_a_file_sink_on_the_volume_forgets_them_too(service: str) -> None:
    arguments = ("rewind", "sos://payments/q3", "--to", "batch:2", "--file-sink", "sos://payments/out")
    done = _run(service, *arguments, "--apply", "--yes")
    assert done.exit_code == 0, done.output
    listed = _run(service, "ls", "sos://payments/out/_spark_metadata", "--json").stdout.splitlines()
    assert [json.loads(line)["path"].rpartition("/")[2] for line in listed] == ["0", "1", "2"]


def test_a_compacted_log_cannot_follow(service: str, tmp_path: Path) -> None:
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    (log / "9.compact").write_text("v1\n")
    arguments = ("rewind", "sos://payments/q3", "--to", "batch:1", "--file-sink", str(tmp_path / "out"))
    done = _run(service, *arguments, "--apply", "--yes")
    assert done.exit_code != 0
    assert "new directory" in str(done.exception)
    assert _commits(service, "q3") == ["0", "1", "2"]
