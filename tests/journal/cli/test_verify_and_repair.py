"""verify, status, repair: every copy compared, on real servers and in a directory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from journal.records.change import PutChange
from journal.records.membership import Configuration, Membership
from tests.journal.cli.conftest import Cli, RunMain, VolumeOnDisk, write_query
from tests.journal.cli.servers import Servers, sos_servers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def saved(volume: VolumeOnDisk) -> VolumeOnDisk:
    write_query(volume, "q1", "changelog2", batches=6)
    volume.save()
    return volume


def _flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def test_verify_reads_everything(saved: VolumeOnDisk, cli: Cli, run_main: RunMain) -> None:
    (report,) = cli.lines("verify", "payments")
    assert report["verdict"] == "OK"
    assert report["records"] == len(saved.history.headers) - 1
    ended = run_main("verify", "payments", "--restore", "--spark", "--dir", str(saved.root))
    assert ended.exit_code == 0, ended.stderr
    assert "all equal" in ended.stdout
    assert "q1: OK" in ended.stdout


def test_verify_names_every_damaged_record_and_goes_on(saved: VolumeOnDisk, run_main: RunMain) -> None:
    first = saved.segment_files()[0]
    hit = [header for header in saved.history.headers if header.payload_bytes][1:4:2]
    for header in hit:
        _flip(first, header.payload_lsn)
    ended = run_main("verify", "payments", "--json", "--dir", str(saved.root))
    assert ended.exit_code == 8
    report = json.loads(ended.stdout.splitlines()[0])
    assert [fault["lsn"] for fault in report["faults"]] == [header.lsn for header in hit]


def test_verify_names_a_damaged_snapshot(saved: VolumeOnDisk, run_main: RunMain) -> None:
    snapshot = sorted((saved.root / "payments").glob("*.idx"))[0]
    _flip(snapshot, 100)
    ended = run_main("verify", "payments", "--dir", str(saved.root))
    assert ended.exit_code == 8
    assert snapshot.name in ended.stdout


def test_verify_of_an_unhealthy_query_fails(volume: VolumeOnDisk, run_main: RunMain) -> None:
    write_query(volume, "q1", "hdfs", batches=2)
    volume.put("q1/offsets/2", b"")
    volume.save()
    ended = run_main("verify", "payments", "--spark", "--dir", str(volume.root))
    assert ended.exit_code == 8
    assert "offsets/2 cannot be used" in ended.stdout


def test_a_local_copy_is_repaired_from_another(saved: VolumeOnDisk, tmp_path: Path, run_main: RunMain) -> None:
    whole = tmp_path / "whole"
    saved.save(whole)
    files = saved.segment_files()
    before = {file.name: file.read_bytes() for file in files}
    _flip(files[0], 200)
    assert run_main("verify", "payments", "--dir", str(saved.root)).exit_code == 8
    with sos_servers(tmp_path, "payments", count=1) as servers:
        servers.store(0, before | saved.snapshots, saved.history)
        both = ("--dir", str(saved.root), "--servers", servers.option)
        ended = run_main("repair", "payments", *both, "--dry-run")
        assert "planned" in ended.stdout
        assert run_main("verify", "payments", "--dir", str(saved.root)).exit_code == 8
        ended = run_main("repair", "payments", *both)
        assert ended.exit_code == 0, ended.stdout
        assert "repaired" in ended.stdout
    assert run_main("verify", "payments", "--dir", str(saved.root)).exit_code == 0
    assert files[0].read_bytes() == before[files[0].name]


@pytest.fixture
def members(tmp_path: Path, volume: VolumeOnDisk) -> Iterator[tuple[Servers, VolumeOnDisk, dict[str, bytes]]]:
    with sos_servers(tmp_path, "payments") as servers:
        volume.history.membership = servers.membership
        write_query(volume, "q1", "none", batches=6)
        volume.save()
        objects = {name: bytes(data) for name, data in volume.history.segments.items()} | volume.snapshots
        yield servers, volume, objects


def _status(ended: Any) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(ended.stdout)
    return value


def _reports(ended: Any) -> list[dict[str, Any]]:
    """Of each copy; what is said of the volume as a whole follows."""
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    return [line for line in lines if "copy" in line]


def test_members_are_compared_and_mended(
    members: tuple[Servers, VolumeOnDisk, dict[str, bytes]], run_main: RunMain
) -> None:
    servers, volume, objects = members
    names = [name for name in objects if name.endswith(".seg")]
    for number in (0, 1):
        servers.store(number, objects, volume.history)
    servers.store(2, {name: data for name, data in objects.items() if name != names[1]}, volume.history)
    where = ("--servers", servers.option)
    ended = run_main("verify", "payments", *where, "--json")
    assert ended.exit_code == 8
    reports = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [report["verdict"] for report in reports] == ["OK", "OK", "FAILURE"]
    assert reports[2]["faults"][0]["object"] == names[1]
    ended = run_main("repair", "payments", *where)
    assert ended.exit_code == 0, ended.stderr + ended.stdout
    assert servers.fetch(2, names[1]) == objects[names[1]]
    assert run_main("verify", "payments", *where).exit_code == 0
    status = _status(run_main("status", "payments", *where, "--json"))
    assert status["verdict"] == "OK"
    assert [member["epoch"] for member in status["members"]] == [1, 1, 1]
    assert "2 of 3 members" in run_main("status", "payments", *where).stdout


def test_a_member_that_lags_or_is_silent_is_shown(
    members: tuple[Servers, VolumeOnDisk, dict[str, bytes]], run_main: RunMain
) -> None:
    servers, volume, objects = members
    names = [name for name in objects if name.endswith(".seg")]
    servers.store(0, objects, volume.history)
    servers.store(1, objects, volume.history)
    servers.store(2, {name: objects[name] for name in names[:-2]}, volume.history)
    ended = run_main("status", "payments", "--servers", servers.option, "--json")
    assert ended.exit_code == 12
    lagging = _status(ended)["members"][2]
    assert lagging["verdict"] == "LAGS"
    assert lagging["lag_bytes"] > 0
    assert lagging["lag_ms"] > 0
    two = f"{servers.addresses[0]},{servers.addresses[1]},127.0.0.1:1"
    ended = run_main("status", "payments", "--servers", two, "--json")
    assert ended.exit_code == 12
    assert [member["verdict"] for member in _status(ended)["members"]] == ["OK", "OK", "SILENT"]
    ended = run_main("status", "payments", "--servers", servers.addresses[0])
    assert ended.exit_code == 8
    assert ended.stdout.count("not asked: add it to --servers") == 2, "why it is a failure"


def test_members_that_were_not_read_are_not_verified(
    members: tuple[Servers, VolumeOnDisk, dict[str, bytes]], run_main: RunMain
) -> None:
    servers, volume, objects = members
    for number in (0, 1, 2):
        servers.store(number, objects, volume.history)
    assert run_main("verify", "payments", "--servers", servers.option).exit_code == 0
    ended = run_main("verify", "payments", "--json", "--servers", ",".join(servers.addresses[:2]))
    assert ended.exit_code == 12
    reports = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [report["verdict"] for report in reports] == ["OK", "OK", "WARNING"]
    assert "not asked" in reports[2]["problem"]


def test_a_server_that_was_wiped_is_shown_once(tmp_path: Path, volume: VolumeOnDisk, run_main: RunMain) -> None:
    with sos_servers(tmp_path, "payments") as servers:
        *others, last = servers.membership.configuration.members
        configuration = Configuration(members=(*others, replace(last, identity=bytes(16))), acknowledgements=2)
        volume.history.membership = Membership(configuration=configuration)
        write_query(volume, "q1", "none", batches=2)
        volume.save()
        objects = {name: bytes(data) for name, data in volume.history.segments.items()} | volume.snapshots
        for number in (0, 1):
            servers.store(number, objects, volume.history)
        for verb in ("status", "verify"):
            ended = run_main(verb, "payments", "--servers", servers.option)
            assert ended.exit_code != 0
            assert [line.startswith(last.address) for line in ended.stdout.splitlines()].count(True) == 1, ended.stdout


def test_a_directory_with_a_missing_segment_shows_the_rest_but_does_not_verify(
    saved: VolumeOnDisk, run_main: RunMain
) -> None:
    saved.segment_files()[0].unlink()
    where = ("--dir", str(saved.root))
    assert run_main("ls", "payments", *where).exit_code == 0
    ended = run_main("ls", "payments", "--at", "400", *where)
    assert ended.exit_code == 3
    assert "name the servers, too" in ended.stderr
    ended = run_main("verify", "payments", *where)
    assert ended.exit_code == 8
    assert "LOST: the segment is not here" in ended.stdout
    for snapshot in (saved.root / "payments").glob("*.idx"):
        snapshot.unlink()
    for options in ((), ("--spark",), ("--restore",)):
        ended = run_main("verify", "payments", *options, *where)
        assert ended.exit_code == 8, ended.stderr
        assert "LOST: the segment is not here" in ended.stdout
    ended = run_main("repair", "payments", *where)
    assert ended.exit_code == 8
    assert "LOST: no copy here has" in ended.stdout


def test_damage_on_members_in_different_places_is_mended_beside_it(
    members: tuple[Servers, VolumeOnDisk, dict[str, bytes]], run_main: RunMain
) -> None:
    servers, volume, objects = members
    first = next(name for name in objects if name.endswith(".seg"))
    records = [header for header in volume.history.headers if header.payload_bytes][:3]
    for number, header in enumerate(records):
        harmed = bytearray(objects[first])
        harmed[header.payload_lsn] ^= 1
        servers.store(number, {**objects, first: bytes(harmed)}, volume.history)
    where = ("--servers", servers.option)
    before = run_main("verify", "payments", *where, "--json")
    faults = [report["faults"][0]["lsn"] for report in _reports(before)]
    assert faults == [header.lsn for header in records]
    ended = run_main("repair", "payments", *where)
    assert ended.exit_code == 0, ended.stderr + ended.stdout
    assert ended.stdout.count("repaired") == 3
    assert run_main("verify", "payments", *where).exit_code == 0
    assert servers.fetch(0, f"{first}.01") == objects[first]
    assert servers.fetch(0, first) != objects[first]


def test_damage_that_servers_see_themselves_is_named_and_mended(
    members: tuple[Servers, VolumeOnDisk, dict[str, bytes]], run_main: RunMain
) -> None:
    """A server gives nothing of a chunk that is damaged: each has other chunks that are whole."""
    servers, volume, _ = members
    large = [
        volume.history.add(PutChange(path=f"large/{number}"), bytes([number]) * 99_000 + b"large %d" % number)
        for number in range(8)
    ]
    volume.history.open_segment()
    objects = {name: bytes(data) for name, data in volume.history.segments.items()}
    for number in range(3):
        servers.store(number, objects, volume.history)
        servers.flip(number, b"large %d" % (2 * number + 1))
    where = ("--servers", servers.option)
    before = run_main("verify", "payments", *where, "--json")
    assert before.exit_code == 8
    faults = [report["faults"] for report in _reports(before)]
    for (fault,), harmed in zip(faults, (1, 3, 5), strict=True):
        assert large[harmed - 1].lsn <= fault["lsn"] <= large[harmed].lsn, "the first record that cannot be had"
    for number in range(8):
        ended = run_main("stat", f"sos://payments/large/{number}", *where)
        assert ended.exit_code == 0, ended.stderr
    assert run_main("export", "sos://payments/large", str(servers.roots[0].parent / "whole"), *where).exit_code == 0
    assert run_main("repair", "payments", *where).exit_code == 0
    after = run_main("verify", "payments", *where)
    assert after.exit_code == 0, after.stdout


def test_what_k_minus_one_losses_would_lose_is_a_failure(
    members: tuple[Servers, VolumeOnDisk, dict[str, bytes]], run_main: RunMain
) -> None:
    """An older segment is on one member alone; every member has the end of the log."""
    servers, volume, objects = members
    names = [name for name in objects if name.endswith(".seg")]
    for number in range(3):
        held = objects if number == 1 else {name: data for name, data in objects.items() if name != names[0]}
        servers.store(number, held, volume.history)
    for verb in ("status", "verify"):
        ended = run_main(verb, "payments", "--servers", servers.option)
        assert ended.exit_code == 8
        assert "only 1 of 3 members" in ended.stdout
    assert "is missing" in run_main("status", "payments", "--servers", servers.option).stdout
    status = _status(run_main("status", "payments", "--servers", servers.option, "--json"))
    assert [member["verdict"] for member in status["members"]] == ["LACKS", "OK", "LACKS"]
    assert status["findings"][0]["verdict"] == "FAILURE"


def test_a_claim_that_nobody_serves_is_shown(
    members: tuple[Servers, VolumeOnDisk, dict[str, bytes]], run_main: RunMain
) -> None:
    servers, volume, objects = members
    for number in range(3):
        servers.store(number, objects, volume.history)
    where = ("--servers", servers.option)
    assert run_main("status", "payments", *where).exit_code == 0
    servers.fence(2, volume.history.epoch + 1)
    ended = run_main("status", "payments", *where)
    assert ended.exit_code == 12
    assert "the owner goes on without" in ended.stdout
    servers.fence(1, volume.history.epoch + 7)
    for verb in ("status", "verify"):
        ended = run_main(verb, "payments", *where)
        assert ended.exit_code == 8
        assert "the owner is fenced" in ended.stdout


def test_nothing_is_repaired_by_the_word_of_one_member(
    members: tuple[Servers, VolumeOnDisk, dict[str, bytes]], run_main: RunMain
) -> None:
    """Its newest header may be of an attempt that failed, and end a segment too early."""
    servers, volume, objects = members
    first = next(name for name in objects if name.endswith(".seg"))
    record = next(header for header in volume.history.headers if header.payload_bytes)
    harmed = bytearray(objects[first])
    harmed[record.payload_lsn] ^= 1
    servers.store(0, {**objects, first: bytes(harmed)}, volume.history)
    newest = max(name for name in objects if name.endswith(".seg"))
    servers.store(1, {name: data for name, data in objects.items() if name != newest}, volume.history)
    ended = run_main("repair", "payments", "--servers", servers.option, "--json")
    assert ended.exit_code == 8
    assert "on too few members" in ended.stdout
    assert servers.fetch(0, first) == bytes(harmed)
    servers.store(2, objects, volume.history)
    assert run_main("repair", "payments", "--servers", servers.option).exit_code == 0
    assert servers.fetch(0, f"{first}.01") == objects[first]


def test_what_accepting_a_loss_gives_up_is_said_before_it_is_asked(
    tmp_path: Path, volume: VolumeOnDisk, run_main: RunMain
) -> None:
    """A volume on one server whose disk has rotted in the newest segment."""
    with sos_servers(tmp_path, "payments", count=1) as servers:
        volume.history.membership = servers.membership
        volume.put("whole", bytes(100_000))  # a server gives nothing of the 64 KiB in which a bit has rotted
        first = volume.history.add(PutChange(path="harmed"), bytes(100_000) + b"what has rotted" + bytes(100_000))
        volume.put("behind", b"after the rot")
        servers.store(0, {name: bytes(data) for name, data in volume.history.segments.items()}, volume.history)
        servers.flip(0, b"what has rotted")
        where = ("payments", "--servers", servers.option)
        said = run_main("repair", *where, "--accept-loss", "--dry-run")
        assert said.exit_code == 0, said.stderr
        for words in (f"would go on at LSN {first.lsn}", "harmed", "behind", "2 can be named"):
            assert words in said.stdout
        assert f"{first.lsn:>14}" in said.stdout
        value = json.loads(run_main("repair", *where, "--accept-loss", "--dry-run", "--json").stdout)
        assert (value["lsn"], value["silent"]) == (first.lsn, [])
        assert [change["path"] for change in value["changes"]] == ["harmed", "behind"]
        assert value["bytes"] == volume.history.lsn - first.lsn
        refused = run_main("repair", *where, "--accept-loss", "--yes-lose", "other")
        assert refused.exit_code == 2
        assert f"would go on at LSN {first.lsn}" in refused.stderr
        accepted = run_main("repair", *where, "--accept-loss", "--yes-lose", "payments")
        assert accepted.exit_code == 0, accepted.stderr
        assert f"goes on at LSN {first.lsn}" in accepted.stdout
        assert run_main("stat", "sos://payments/whole", "--servers", servers.option).exit_code == 0
        assert run_main("stat", "sos://payments/harmed", "--servers", servers.option).exit_code == 3
        again = run_main("repair", *where, "--accept-loss", "--dry-run")
        assert "given up: nothing" in again.stdout


def test_a_volume_whose_only_header_has_rotted_is_not_called_unfinished(
    tmp_path: Path, volume: VolumeOnDisk, run_main: RunMain
) -> None:
    with sos_servers(tmp_path, "payments", count=1) as servers:
        volume.history.membership = servers.membership
        volume.put("x", b"what has rotted")
        servers.store(0, {name: bytes(data) for name, data in volume.history.segments.items()}, volume.history)
        servers.flip(0, b"what has rotted")
        for flags in (("--dry-run",), ("--yes-lose", "payments")):
            ended = run_main("repair", "payments", "--servers", servers.option, "--accept-loss", *flags)
            assert ended.exit_code == 8
            assert "backup" in ended.stderr
