"""Whatever a volume holds: nothing that the command prints moves a cursor, or turns a line around."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from journal.records.change import ClaimChange, MarkChange
from tests.journal.cli.conftest import Cli, RunMain, VolumeOnDisk, write_query

if TYPE_CHECKING:
    from pathlib import Path

NASTY = "a\x1b[2J\x07\r\x7f\x85\x9b31m\u2028\u202e\u2066\u200f\ufeff\U000e0001z"
VERBS = [
    ("ls", "-R"), ("log",), ("batches", "--offsets"), ("doctor",), ("verify", "--spark", "--restore"), ("status",),
    ("stat",), ("diff",), ("members", "show"),
]  # fmt: skip


@pytest.fixture
def nasty(volume: VolumeOnDisk) -> VolumeOnDisk:
    write_query(volume, f"q/{NASTY}", "hdfs", batches=2)
    volume.put(f"q/{NASTY}/metadata", json.dumps({"id": NASTY}).encode())
    volume.put(f"q/{NASTY}/offsets/1", f"{NASTY}".encode())
    volume.put(f"q/{NASTY}/offsets/.{NASTY}.tmp", b"")
    volume.put(f"q/{NASTY}/state/0/_metadata/v2/0", _metadata())
    volume.history.add(MarkChange(values={NASTY: NASTY}))
    volume.history.add(ClaimChange(path="q", start_time=1, application=NASTY))
    volume.save()
    return volume


def _metadata() -> bytes:
    store = {"storeName": NASTY, "numPartitions": 1, "stateSchemaFilePaths": [f"sos://{NASTY}/q"]}
    metadata = {"operatorInfo": {"operatorId": 0, "operatorName": NASTY}, "stateStoreInfo": [store]}
    return b"v2\n" + json.dumps(metadata).encode()


def _check(text: str) -> None:
    raw = {char for char in text if not char.isprintable() and char != "\n"}
    assert not raw, sorted(map(ascii, raw))


@pytest.mark.parametrize("style", [(), ("--json",)])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_no_verb_prints_what_is_not_printable(
    verb: tuple[str, ...], style: tuple[str, ...], nasty: VolumeOnDisk, cli: Cli
) -> None:
    path = f"sos://payments/q/{NASTY}/metadata" if verb == ("stat",) else "sos://payments"
    moments = ("0", "now") if verb == ("diff",) else ()
    result = cli.here(*verb, path, *moments, *style)
    assert result.stdout, result.exception
    _check(result.output)
    for line in result.stdout.splitlines() if style else ():
        json.loads(line)
    if verb in (("ls", "-R"), ("stat",)) and style:
        assert any(NASTY in json.loads(line)["path"] for line in result.stdout.splitlines())


def test_no_error_prints_what_is_not_printable(nasty: VolumeOnDisk, run_main: RunMain, tmp_path: Path) -> None:
    here = ("--dir", str(nasty.root))
    for arguments in [
        ("ls", f"sos://payments/{NASTY}", *here), ("cat", f"sos://payments/q/{NASTY}", *here), (NASTY,),
        ("ls", NASTY), ("ls", "payments", f"--{NASTY}"), ("ls", "payments", "--at", NASTY, *here),
        ("restore", "payments", f"{tmp_path}/{NASTY}", *here), ("backup", "payments", f"{tmp_path}/{NASTY}", *here),
        ("restore", "payments", f"{tmp_path}/{NASTY}", *here), ("export", "payments", f"{tmp_path}/{NASTY}", *here),
        ("ls", "payments", "--dir", f"{tmp_path}/{NASTY}/no"), ("ls", "payments", "--servers", NASTY),
    ]:  # fmt: skip
        ended = run_main(*arguments)
        _check(ended.stdout + ended.stderr)
        assert ended.exit_code in (0, 2, 3, 4, 9, 12), (arguments, ended)
