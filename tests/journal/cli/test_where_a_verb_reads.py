"""Where an answer comes from: what the command line names stands alone, and every answer says it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from journal.errors import JournalCode, JournalError
from tests.journal.cli.conftest import Cli, VolumeOnDisk, write_query
from tests.journal.cli.servers import memory_service, sos_servers

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = "127.0.0.1:1"


@pytest.fixture
def saved(volume: VolumeOnDisk) -> VolumeOnDisk:
    write_query(volume, "q1", "hdfs", batches=3)
    volume.save()
    return volume


def test_an_empty_directory_is_not_restored_from_the_servers_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with sos_servers(tmp_path, "payments", count=1) as servers:
        volume = VolumeOnDisk(tmp_path / "journal")
        volume.history.membership = servers.membership
        write_query(volume, "q1", "hdfs", batches=3)
        volume.history.open_segment()
        servers.store(0, {name: bytes(data) for name, data in volume.history.segments.items()}, volume.history)
        environment = {"SOS_SERVERS": servers.option, "SOS_SERVICE": NOBODY}
        cli = Cli(tmp_path)
        taken = ("restore", "sos://payments/q1", str(tmp_path / "target"))
        refused = cli(*taken, "--dir", str(tmp_path / "empty"), environment=environment)
        assert isinstance(refused.exception, JournalError)
        assert refused.exception.code is JournalCode.VOLUME_NOT_FOUND
        assert not (tmp_path / "target").exists()
        restored = cli(*taken, "--servers", servers.option, "--json", environment={"SOS_SERVICE": NOBODY})
        assert restored.exit_code == 0, restored.output
        assert json.loads(restored.stdout)["read_from"] == [servers.option]
        listed = cli("ls", "payments", environment={"SOS_SERVERS": servers.option})
        assert listed.stderr == f"reading the log at {servers.option} (from SOS_SERVERS)\n"


def test_a_directory_that_is_named_is_read_alone(saved: VolumeOnDisk, cli: Cli, tmp_path: Path) -> None:
    environment = {"SOS_SERVERS": NOBODY, "SOS_SERVICE": NOBODY}
    for arguments in [("ls", "payments"), ("verify", "payments"), ("status", "payments"), ("doctor", "payments")]:
        result = cli(*arguments, "--dir", str(saved.root), environment=environment)
        assert NOBODY not in result.output, arguments
        assert f"reading the log at {saved.root}/payments" in result.stderr
    forked = cli("fork", "sos://payments/q1", "sos://payments/x", "--dir", str(saved.root), environment=environment)
    assert "--service" in str(forked.exception)


def test_the_variable_that_counted_is_named(tmp_path: Path) -> None:
    with memory_service("payments") as service:
        environment = {"SOS_SERVERS": NOBODY, "SOS_SERVICE": service}
        asked = Cli(tmp_path)("ls", "payments", environment=environment)
        assert asked.stderr == f"reading the service at {service} (from SOS_SERVICE)\n"


def test_a_service_that_is_named_is_asked_alone(tmp_path: Path) -> None:
    with memory_service("payments") as service:
        asked = Cli(tmp_path)("ls", "payments", "--service", service, environment={"SOS_SERVERS": NOBODY})
        assert asked.exit_code == 0, asked.output
        assert asked.stderr == f"reading the service at {service}\n"
