"""restore, export, import, backup, fork: files in and out, at any moment, whole."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.journal.checkpoints import checkpoint
from tests.journal.cli.conftest import Cli, RunMain, VolumeOnDisk, write_query
from tests.journal.cli.servers import memory_service

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def saved(volume: VolumeOnDisk) -> VolumeOnDisk:
    write_query(volume, "q1", "hdfs", batches=6)
    volume.put("q1/large", bytes(range(256)) * 9000)
    volume.save()
    return volume


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    with memory_service("payments", "other", "live") as address:
        yield address


def _tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_restore_gives_every_batch_byte_for_byte(saved: VolumeOnDisk, cli: Cli, tmp_path: Path) -> None:
    files = checkpoint("hdfs", batches=6)
    for batch in range(6):
        target = tmp_path / f"batch-{batch}"
        result = cli.here("restore", "sos://payments/q1", str(target), "--at", f"batch:{batch}")
        assert result.exit_code == 0, result.output
        restored = _tree(target)
        assert {name for name in restored if name.startswith("commits/")} == {f"commits/{n}" for n in range(batch + 1)}
        assert f"state/0/1/{batch + 1}.delta" in restored
        assert f"offsets/{batch + 1}" not in restored
        assert all(files[name] == data for name, data in restored.items())


def test_restore_keeps_times_and_refuses_to_overwrite(saved: VolumeOnDisk, run_main: RunMain, tmp_path: Path) -> None:
    target, where = tmp_path / "target", ("--dir", str(saved.root))
    assert run_main("restore", "sos://payments/q1", str(target), *where).exit_code == 0
    (status,) = Cli(saved.root).lines("stat", "sos://payments/q1/offsets/3")
    assert (target / "offsets/3").stat().st_mtime_ns == status["modified_ms"] * 1_000_000
    assert (target / "large").read_bytes() == bytes(range(256)) * 9000
    again = run_main("restore", "sos://payments/q1", str(target), *where)
    assert (again.exit_code, again.stdout) == (4, "")
    again = run_main("restore", "sos://payments/q1", str(target), "--if-empty", *where)
    assert again.exit_code == 0
    assert "nothing was done" in again.stderr


def test_a_dry_run_prints_the_plan_and_writes_nothing(saved: VolumeOnDisk, cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "target"
    plan = cli.lines("restore", "sos://payments/q1", str(target), "--dry-run", "--at", "batch:1")
    assert {step["write"] for step in plan} >= {"metadata", "commits/1", "state/0/0/2.delta"}
    assert not target.exists()


def test_restore_of_damage_leaves_nothing(saved: VolumeOnDisk, run_main: RunMain, tmp_path: Path) -> None:
    (status,) = Cli(saved.root).lines("stat", "sos://payments/q1/large")
    extent = status["extents"][0]
    file = saved.root / "payments" / extent["object"]
    data = bytearray(file.read_bytes())
    data[extent["offset"] + 5] ^= 1
    file.write_bytes(data)
    ended = run_main("restore", "sos://payments/q1", str(tmp_path / "target"), "--dir", str(saved.root))
    assert ended.exit_code == 8
    assert "damaged" in ended.stderr
    assert not (tmp_path / "target").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["journal"]


def test_export_writes_what_differs(saved: VolumeOnDisk, cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "target"
    first = cli.lines("export", "sos://payments/q1", str(target))[0]
    assert first["files"] > 20
    assert cli.lines("export", "sos://payments/q1", str(target))[0]["files"] == 0
    (target / "metadata").write_bytes(b"changed by hand")
    (target / "mine").write_bytes(b"stays")
    assert [step["write"] for step in cli.lines("export", "sos://payments/q1", str(target), "--dry-run")] == [
        "metadata"
    ]
    assert cli.lines("export", "sos://payments/q1", str(target))[0]["files"] == 1
    assert (target / "mine").exists()


def test_a_backup_is_a_volume_to_look_into(saved: VolumeOnDisk, cli: Cli, tmp_path: Path) -> None:
    elsewhere = tmp_path / "backup"
    assert cli.lines("backup", "payments", str(elsewhere), "--dry-run")[0]["objects"]
    assert not elsewhere.exists()
    copied = cli.lines("backup", "payments", str(elsewhere))[0]
    assert copied["bytes"] > 2_000_000
    assert Cli(elsewhere).lines("ls", "-R", "payments") == cli.lines("ls", "-R", "payments")
    assert Cli(elsewhere).lines("ls", "-R", "payments", "--at", "batch:2") == cli.lines(
        "ls", "-R", "payments", "--at", "batch:2"
    )
    assert cli.lines("backup", "payments", str(elsewhere))[0]["objects"] == []
    saved.put("q1/new", b"later")
    saved.save()
    assert len(cli.lines("backup", "payments", str(elsewhere))[0]["objects"]) == 2
    assert Cli(elsewhere).lines("ls", "-R", "payments") == cli.lines("ls", "-R", "payments")


def test_a_checkpoint_that_is_forked_names_its_new_place(
    volume: VolumeOnDisk, service: str, cli: Cli, tmp_path: Path
) -> None:
    for path, data in _write_live_checkpoint(tmp_path / "live").items():
        volume.put(f"tws/{path}", data)
    volume.save()
    assert cli.here("doctor", "sos://payments/tws").exit_code != 0
    taken = ("fork", "sos://payments/tws", "sos://live/forked", "--to-service", service)
    (planned,) = cli.lines(*taken, "--dry-run")
    assert len(planned["rewritten"]) == 3
    (forked,) = cli.lines(*taken)
    assert forked["rewritten"] == planned["rewritten"]
    looked = cli("doctor", "sos://live/forked", "--service", service)
    assert looked.exit_code == 0, looked.output


def test_import_and_fork_appear_whole_with_their_times(
    saved: VolumeOnDisk, service: str, cli: Cli, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    (plain / "deep/er").mkdir(parents=True)
    (plain / "deep/er/file").write_bytes(b"x" * 3_000_000)
    (plain / "small").write_bytes(b"small")
    os.utime(plain / "small", ns=(10**18, 10**18))
    result = cli("import", str(plain), "sos://other/copy", "--service", service, "--json")
    assert result.exit_code == 0, result.output
    listed = cli("ls", "-R", "other", "--service", service, "--json").stdout.splitlines()
    files = {entry["path"]: entry for entry in map(json.loads, listed) if not entry["directory"]}
    assert {path: entry["size"] for path, entry in files.items()} == {"copy/deep/er/file": 3_000_000, "copy/small": 5}
    assert files["copy/small"]["modified_ms"] == 10**12
    forked = cli.here("fork", "sos://payments/q1", "sos://other/q1-again", "--at", "batch:3", "--to-service", service)
    assert forked.exit_code == 0, forked.output
    restored = cli("restore", "sos://other/q1-again", str(tmp_path / "again"), "--service", service)
    assert restored.exit_code == 0, restored.output
    cli.here("restore", "sos://payments/q1", str(tmp_path / "q1"), "--at", "batch:3")
    assert _tree(tmp_path / "again") == _tree(tmp_path / "q1")
    assert (tmp_path / "again/metadata").stat().st_mtime == (tmp_path / "q1/metadata").stat().st_mtime


def test_what_a_fork_leaves_out_is_said(service: str, volume: VolumeOnDisk, cli: Cli) -> None:
    volume.put("kept", b"1")
    volume.put(".sos-new-notes/mine", b"2")
    volume.put(".sos-new-0123abcd/half", b"3")
    volume.save()
    forked = cli.here("fork", "payments", "sos://other/all", "--to-service", service)
    assert forked.exit_code == 0, forked.output
    assert "left out: .sos-new-0123abcd" in forked.stderr
    listed = cli("ls", "-R", "sos://other/all", "--service", service, "--json").stdout.splitlines()
    files = {entry["path"] for entry in map(json.loads, listed) if not entry["directory"]}
    assert files == {"all/kept", "all/.sos-new-notes/mine"}


def _write_live_checkpoint(root: Path) -> dict[str, bytes]:
    """A checkpoint of `transformWithState` as Spark wrote it elsewhere, with checksums of a local file system."""
    vectors = json.loads((Path(__file__).parents[2] / "vectors/spark_checkpoints.json").read_text())["checkpoints"]
    (live,) = (one for one in vectors if (one["spark"], one["what"]) == ("4.3.0", "tws"))
    files = {
        path: text.encode() if isinstance(text, str) else bytes(text["size"]) for path, text in live["files"].items()
    }
    files = {path: data for path, data in files.items() if not path.endswith(".zip")}  # bytes that were not kept
    files["state/0/_metadata/v2/.1.crc"] = files["offsets/.1.crc"] = b"crc\0"
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return files


def test_a_checkpoint_that_is_imported_or_forked_names_its_new_place(service: str, cli: Cli, tmp_path: Path) -> None:
    files = _write_live_checkpoint(tmp_path / "all/tws")
    metadata = [path for path in files if "/_metadata/v2/" in path and not path.endswith(".crc")]
    planned = cli("import", str(tmp_path / "all"), "sos://live/all", "--service", service, "--json", "--dry-run")
    steps = {step["write"]: step.get("rewritten", False) for step in map(json.loads, planned.stdout.splitlines())}
    assert {path for path, is_rewritten in steps.items() if is_rewritten} == {f"tws/{path}" for path in metadata}
    assert "tws/state/0/_metadata/v2/.1.crc" not in steps
    assert "tws/offsets/.1.crc" in steps
    done = cli("import", str(tmp_path / "all"), "sos://live/all", "--service", service, "--json")
    assert len(json.loads(done.stdout)["rewritten"]) == len(metadata)
    assert "3 files of operators' metadata name schema files at the old place" in done.stderr
    looked = cli("doctor", "sos://live/all/tws", "--service", service)
    assert looked.exit_code == 0, looked.output
    cli("restore", "sos://live/all", str(tmp_path / "restored"), "--service", service)
    restored = _tree(tmp_path / "restored/tws")
    assert {path for path, data in files.items() if restored.get(path) != data} == {
        *metadata,
        "state/0/_metadata/v2/.1.crc",
    }
    for path in metadata:
        assert b'"sos://live/all/tws/state/0/_stateSchema/default/' in restored[path]


def test_metadata_that_cannot_be_read_is_copied_with_a_warning(service: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "plain/state/0/_metadata/v2").mkdir(parents=True)
    (tmp_path / "plain/state/0/_metadata/v2/0").write_bytes(b"v2\n{")
    done = cli("import", str(tmp_path / "plain"), "sos://live/odd", "--service", service)
    assert done.exit_code == 0, done.output
    assert "warning: state/0/_metadata/v2/0 may name files at the old place" in done.stderr


def test_import_and_fork_refuse_what_is_taken(
    saved: VolumeOnDisk, service: str, run_main: RunMain, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "file").write_bytes(b"1")
    target = ("sos://payments/taken", "--service", service)
    assert run_main("import", str(plain), *target).exit_code == 0
    assert run_main("import", str(plain), *target).exit_code == 4
    ended = run_main("import", str(plain), *target, "--if-empty")
    assert (ended.exit_code, ended.stdout) == (0, "")
    assert run_main("fork", "sos://payments/q1", *target, "--dir", str(saved.root)).exit_code == 4
    ended = run_main("fork", "sos://payments/q1", "sos://payments/x", "--dir", str(saved.root))
    assert ended.exit_code == 2
    assert "--service" in ended.stderr
    (plain / "link").symlink_to("file")
    ended = run_main("import", str(plain), "sos://payments/link", "--service", service)
    assert ended.exit_code == 2
    assert "neither a file nor a directory" in ended.stderr


def test_the_past_is_where_the_service_says_that_the_log_is(service: str, run_main: RunMain) -> None:
    ended = run_main("ls", "payments", "--at", "1h", "--service", service)
    assert ended.exit_code == 9
    assert "a:7400" in ended.stderr
    ended = run_main("ls", "nowhere", "--service", service)
    assert ended.exit_code == 3
