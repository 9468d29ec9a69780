"""What a reload takes over from the settings, and what it leaves for a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sos_server.config import Settings, load_settings
from sos_server.service.reloading import fixed_changes, reloaded

if TYPE_CHECKING:
    from pathlib import Path

SECURE = '[access]\ntokens = "t"\ncertificate = "c"\nkey = "k"\n'


def loaded(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "sos.toml"
    path.write_text(text)
    return load_settings(path, {"root": tmp_path / "root"})


def test_what_changes_while_it_runs(tmp_path: Path) -> None:
    old = loaded(tmp_path, SECURE)
    text = "[limits]\nconnections_max = 7\n[storage]\nquota_bytes = 5\nretention_seconds = 9\n[quotas]\nn = 3\n"
    text += '[server]\nlog_level = "error"\nshutdown_seconds = 1\n'
    new = loaded(tmp_path, SECURE.replace('"t"', '"other"').replace('"c"', '"newer"') + text)
    assert fixed_changes(old, new) == []
    assert reloaded(old, new) == new


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('[server]\nlisten = "127.0.0.1:1"\ninsecure = true\n', ["server.insecure", "server.listen"]),
        ('[server]\nmetrics = "127.0.0.1:1"\n', ["server.metrics"]),
        ("[storage]\nlog_bytes_max = 70000000\n", ["storage.log_bytes_max"]),
        ("[storage]\naccept_log_damage = true\n", ["storage.accept_log_damage"]),
        (SECURE, ["access.certificate", "access.tokens"]),
    ],
)
def test_what_takes_a_restart(tmp_path: Path, text: str, names: list[str]) -> None:
    old, new = loaded(tmp_path, ""), loaded(tmp_path, text)
    assert sorted(fixed_changes(old, new)) == names
    assert reloaded(old, new) == old
    assert fixed_changes(new, old) == fixed_changes(old, new), "neither is access control taken away by a reload"
