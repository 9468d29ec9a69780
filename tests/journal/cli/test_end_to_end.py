"""The command against a real service on real servers: what one writes, all ways of looking show."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.journal.checkpoints import checkpoint
from tests.journal.cli.conftest import Cli, RunMain
from tests.journal.cli.servers import process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    """(service, servers, directory) of a volume `payments` with a query's checkpoint in it."""
    root = tmp_path_factory.mktemp("volume")
    plain = root / "plain"
    for name, data in checkpoint("rocksdb", batches=5).items():
        (plain / name).parent.mkdir(parents=True, exist_ok=True)
        (plain / name).write_bytes(data)
    with (
        process("sos_server", "--root", str(root / "a"), "--listen", "127.0.0.1:0") as (_, a),
        process("sos_server", "--root", str(root / "b"), "--listen", "127.0.0.1:0") as (_, b),
        process("sos_server", "--root", str(root / "c"), "--listen", "127.0.0.1:0") as (_, c),
    ):
        servers = f"{a},{b},{c}"
        arguments = ["--volume", "payments", "--servers", servers, "--dir", str(root / "dir"), "--create"]
        with process("journal", "serve", *arguments, "--listen", "127.0.0.1:0") as (_, service):
            done = Cli(root)("import", str(plain), "sos://payments/q1", "--service", service)
            assert done.exit_code == 0, done.output
            yield service, servers, root


def _soon(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 600
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_log_shows_what_the_service_shows(volume: tuple[str, str, Path], run_main: RunMain) -> None:
    service, servers, root = volume

    def listed(*where: str) -> list[dict[str, object]]:
        lines = run_main("ls", "-R", "payments", *where, "--json").stdout.splitlines()
        entries: list[dict[str, object]] = [json.loads(line) for line in lines]
        return [entry | {"crc32c": None} for entry in entries]  # which the service does not tell

    shown = listed("--service", service)
    assert len(shown) > 30
    _soon(lambda: listed("--servers", servers) == shown)
    _soon(lambda: listed("--dir", str(root / "dir")) == shown)
    path = "sos://payments/q1/offsets/3"
    assert run_main("cat", path, "--service", service).stdout == run_main("cat", path, "--servers", servers).stdout


def test_all_is_well_with_it(volume: tuple[str, str, Path], run_main: RunMain, tmp_path: Path) -> None:
    service, servers, root = volume
    where = ("--servers", servers)
    _soon(lambda: run_main("status", "payments", *where).exit_code == 0)
    ended = run_main("verify", "payments", *where, "--spark", "--restore")
    assert ended.exit_code == 0, ended.stdout
    assert run_main("doctor", "payments", "--service", service).exit_code == 0
    assert run_main("restore", "sos://payments/q1", str(tmp_path / "out"), *where).exit_code == 0
    plain = {str(p.relative_to(root / "plain")): p for p in (root / "plain").rglob("*") if p.is_file()}
    for name, path in plain.items():
        restored = tmp_path / "out" / name
        assert restored.read_bytes() == path.read_bytes()
        assert restored.stat().st_mtime_ns // 10**6 == path.stat().st_mtime_ns // 10**6


def test_the_service_is_enough_to_find_the_log(
    volume: tuple[str, str, Path], run_main: RunMain, tmp_path: Path
) -> None:
    service, servers, _ = volume
    where = ("--service", service)
    _soon(lambda: run_main("status", "payments", "--servers", servers).exit_code == 0)
    lsn = str(json.loads(run_main("stat", "payments", "--servers", servers, "--json").stdout)["lsn"])
    for verb in (
        ["status", "payments"],
        ["members", "show", "payments"],
        ["log", "payments"],
        ["diff", "payments", lsn, "now"],
        ["ls", "sos://payments/q1", "--at", lsn],
        ["verify", "payments"],
        ["backup", "payments", str(tmp_path / "backup")],
        ["restore", "sos://payments/q1", str(tmp_path / "out"), "--at", lsn],
        ["repair", "payments", "--dry-run"],
    ):
        ended = run_main(*verb, *where)
        assert ended.exit_code == 0, (verb, ended.stderr)


def test_status_tells_the_retention_that_the_service_was_told(tmp_path: Path, run_main: RunMain) -> None:
    with process("sos_server", "--root", str(tmp_path / "a"), "--listen", "127.0.0.1:0") as (_, server):
        assert run_main("create", "kept", "--servers", server).exit_code == 0
        serve = ["serve", "--volume", "kept", "--servers", server, "--dir", str(tmp_path / "dir"), "--keep-for", "2h"]
        with process("journal", *serve, "--listen", "127.0.0.1:0") as (_, service):
            told = json.loads(run_main("status", "kept", "--service", service, "--json").stdout)
            assert (told["retention_seconds"], told["retention_from"]) == (7200, "service")
            made = json.loads(run_main("status", "kept", "--servers", server, "--json").stdout)
            assert (made["retention_seconds"], made["retention_from"]) == (0, "volume")


def test_a_live_volume_is_forked_and_goes_on(volume: tuple[str, str, Path], run_main: RunMain) -> None:
    service, servers, _ = volume
    _soon(lambda: run_main("stat", "sos://payments/q1/metadata", "--servers", servers).exit_code == 0)
    both = ("--service", service, "--servers", servers)
    ended = run_main("fork", "sos://payments/q1", "sos://payments/q2", *both)
    assert ended.exit_code == 0, ended.stderr
    one, two = (
        run_main("ls", "-R", f"sos://payments/{q}", "--service", service, "--json").stdout for q in ("q1", "q2")
    )
    assert [json.loads(line)["size"] for line in one.splitlines()] == [
        json.loads(line)["size"] for line in two.splitlines()
    ]


def test_a_backup_of_a_live_volume_outlives_it(
    volume: tuple[str, str, Path], run_main: RunMain, tmp_path: Path
) -> None:
    _, servers, _ = volume
    assert run_main("backup", "payments", str(tmp_path), "--servers", servers).exit_code == 0
    ended = run_main("verify", "payments", "--spark", "--dir", str(tmp_path))
    assert ended.exit_code == 0, ended.stdout
    assert "q1" in ended.stdout


def test_following_shows_what_is_written_and_ends_with_130(volume: tuple[str, str, Path]) -> None:
    import subprocess
    import sys

    service, servers, _ = volume
    command = [sys.executable, "-m", "journal", "log", "sos://payments/followed", "-f", "--json", "--servers", servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        source = volume[2] / "one"
        source.mkdir()
        (source / "file").write_bytes(b"1")
        assert Cli(source)("import", str(source), "sos://payments/followed", "--service", service).exit_code == 0
        line = json.loads(following.stdout.readline())
        assert "followed" in json.dumps(line)
        following.send_signal(signal.SIGINT)
        assert following.wait(10) == 130
        assert following.stderr is not None
        assert "Traceback" not in following.stderr.read()


def test_what_is_read_is_pinned_and_released(volume: tuple[str, str, Path], run_main: RunMain, tmp_path: Path) -> None:
    service, servers, _ = volume
    both = ("--service", service, "--servers", servers)
    lsn = json.loads(run_main("stat", "payments", "--servers", servers, "--json").stdout)["lsn"]
    ended = run_main("restore", "payments", str(tmp_path / "out"), "--at", str(lsn), *both)
    assert ended.exit_code == 0, ended.stderr
    assert "warning" not in ended.stderr

    def pins() -> list[dict[str, object]]:
        lines = run_main("log", "payments", "--kind", "pin", "--servers", servers, "--json").stdout.splitlines()
        return [json.loads(line) for line in lines]

    _soon(lambda: len(pins()) >= 2 and pins()[-1]["expires_ms"] == 0)
    held, released = pins()[-2:]
    assert held["pin"] == released["pin"]
    assert held["expires_ms"] != 0


def test_a_whole_volume_is_forked_into_a_new_one(volume: tuple[str, str, Path], run_main: RunMain) -> None:
    _, servers, _ = volume
    where = ("--servers", servers)
    lsn = str(json.loads(run_main("stat", "payments", *where, "--json").stdout)["lsn"])
    ended = run_main("fork", "payments", "payments-test", "--at", lsn, *where)
    assert ended.exit_code == 0, ended.stderr

    def files(name: str, *at: str) -> list[tuple[object, ...]]:
        lines = run_main("ls", "-R", name, *at, *where, "--json").stdout.splitlines()
        entries = [json.loads(line) for line in lines]
        return [(e["path"], e["size"], e["modified_ms"], e["crc32c"]) for e in entries if not e["directory"]]

    assert files("payments-test") == files("payments", "--at", lsn)
    assert run_main("verify", "payments-test", "--spark", *where).exit_code == 0
    assert run_main("fork", "payments", "payments-test", *where).exit_code == 4
