"""File and flags: who wins, what relative paths mean, and errors that say what to change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sos_client.declarations import declared
from sos_client.settings import SettingsError
from sos_server.config import SECTIONS, load_settings
from tests.sos_server.settings_document import DOCUMENT, renewed

EVERYTHING = """
[server]
root = "data"
listen = "127.0.0.1:7401"
metrics = "127.0.0.1:9401"
shutdown_seconds = 3
[access]
tokens = "tokens.toml"
certificate = "/etc/sos/server.crt"
key = "server.key"
[limits]
connections_max = 77
[storage]
retention_seconds = 3600
quota_bytes = 1000
[quotas]
payments = 5000
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sos.toml"
    path.write_text(text)
    return path


def test_the_file_and_paths_relative_to_it(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, EVERYTHING))
    assert settings.root == tmp_path / "data"
    assert str(settings.listen) == "127.0.0.1:7401"
    assert settings.metrics is not None
    assert settings.metrics.port == 9401
    assert settings.access.tokens == tmp_path / "tokens.toml"
    assert settings.tls is not None
    assert settings.tls.certificate == Path("/etc/sos/server.crt")
    assert settings.tls.key == tmp_path / "server.key"
    assert settings.limits.connections_max == 77
    assert (settings.storage.retention_seconds, settings.quotas) == (3600.0, {"payments": 5000})


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    flags = {"root": Path("elsewhere"), "listen": "127.0.0.1:0", "insecure": True, "metrics": None}
    settings = load_settings(written(tmp_path, EVERYTHING), flags)
    assert settings.root == Path("elsewhere")
    assert settings.listen.port == 0
    assert settings.server.insecure


def test_a_root_is_enough() -> None:
    settings = load_settings(flags={"root": Path("data")})
    assert str(settings.listen) == "127.0.0.1:7400"
    assert settings.metrics is None
    assert settings.tls is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[server]\n", "--root DIR is missing"),
        ("[sever]\n", "unknown key 'sever'; allowed are access, limits, quotas, server, storage"),
        ("server = 1\n", "[server]: must be a table"),
        ('[server]\nroot = "x"\nlisten = "7400"\n', "--listen"),
        ('[server]\nroot = "x"\nlog_level = "loud"\n', "must be one of debug, info, warning, error"),
        ('[server]\nroot = "x"\n[access]\nkey = "k"\n', "TLS needs both"),
        ('[server]\nroot = "x"\n[access]\nclient_authority = "k"\n', "needs certificate and key"),
        ('[server]\nroot = "x"\n[quotas]\nn = "1G"\n', "[quotas]: n: must be a whole number of bytes"),
        ('[server]\nroot = "x"\n[quotas]\n"a b" = 1\n', "[quotas]: 'a b' is not a name"),
        ('[server]\nroot = "x"\n[quotas]\nn = 9223372036854775808\n', "[quotas]: n: must be a whole number of bytes"),
        ("[limits]\nconnections_max = 0\n", "[limits]: connections_max: 0 is too small"),
        ("[server]\nshutdown_seconds = nan\n", "shutdown_seconds: must be a number, and nan is not one"),
        ("[storage]\nretention_seconds = inf\n", "retention_seconds: inf is too large"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(written(tmp_path, text))
    assert sentence in str(caught.value)


def test_the_reference_is_what_is_declared() -> None:
    reference = DOCUMENT.read_text()
    assert renewed(reference) == reference, "python -m tests.sos_server.settings_document --write"
    flags = [one.flag for kind in SECTIONS.values() for one in declared(kind).values() if one.flag]
    assert f"the flags `{' '.join(flags)}` win" in " ".join(reference.split())


def test_the_reference_says_what_takes_a_restart() -> None:
    fixed = {name for kind in SECTIONS.values() for name, one in declared(kind).items() if one.fixed}
    sentence = " ".join(DOCUMENT.read_text().split()).partition("SIGHUP puts all changes into force except those of")[2]
    named = set(re.findall(r"`(?:\w+\.)?(\w+)`", sentence.partition(", and whether")[0]))
    assert named == fixed
