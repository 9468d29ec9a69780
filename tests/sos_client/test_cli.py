"""The `sos` command against a server process: each verb, its JSON, and its exit codes. Never a traceback."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import trustme

from sos_client.cli import main
from sos_client.wire.checksum import crc32c
from sos_client.wire.errors import ExitCode
from sos_client.wire.holders import shown_holder
from tests.system.server_process import ServerProcess, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENT = bytes(range(256)) * 10_000


class Outcome(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


Sos = Callable[..., Outcome]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("server")) as process:
        yield process


@pytest.fixture
def sos(
    server: ServerProcess, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sos]:
    """Runs a command line in this process, with the bytes of `stdin` as its standard input."""
    monkeypatch.setenv("SOS_SERVER", server.address)
    kept = os.dup(0)

    def run(*arguments: str, stdin: bytes = b"") -> Outcome:
        (tmp_path / "stdin").write_bytes(stdin)
        handle = os.open(tmp_path / "stdin", os.O_RDONLY)
        os.dup2(handle, 0)
        os.close(handle)
        with pytest.raises(SystemExit) as left:
            main(arguments)
        captured = capfdbinary.readouterr()
        err = captured.err.decode()
        assert "Traceback" not in err
        assert "a mistake in sos" not in err
        return Outcome(int(left.value.code or 0), captured.out, err)

    yield run
    os.dup2(kept, 0)
    os.close(kept)


@pytest.fixture
def ns() -> str:
    return f"n-{secrets.token_hex(4)}"


def test_ping(sos: Sos, server: ServerProcess) -> None:
    assert server.address.encode() in sos("ping").out
    values = sos("ping", "--json").json
    assert len(values["identity"]) == 32
    assert values["seconds"] < 10


@pytest.mark.parametrize(
    ("command", "handles", "code"),
    [
        ("put {}/o", "<&-", ExitCode.UNEXPECTED),
        ("get {}/there", ">&-", ExitCode.UNEXPECTED),
        ("get {}/there", ">/dev/full", ExitCode.SPACE),
        ("ping", "<&- >&- 2>&-", ExitCode.DONE),
    ],
)
def test_handles_that_are_closed_or_full(
    sos: Sos, server: ServerProcess, ns: str, command: str, handles: str, code: ExitCode
) -> None:
    """A closed handle is not the next socket: what was meant for it goes nowhere else."""
    sos("put", f"{ns}/there", stdin=CONTENT)
    line = f"exec {sys.executable} -m sos_client {command.format(ns)} --server {server.address} {handles}"
    ended = subprocess.run(["sh", "-c", line], capture_output=True, check=False, timeout=600)
    assert (ended.returncode, b"Traceback" in ended.stderr) == (code, False)
    assert sos("get", f"{ns}/there").out == CONTENT


def test_who_says_nothing_is_waited_for_as_long_as_one_was_told(sos: Sos) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        outcome = sos("ping", "--server", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", "0.3")
        assert (outcome.code, "no answer in time" in outcome.err) == (ExitCode.UNAVAILABLE, True)
        assert time.monotonic() - began < 8, "by itself it waits for ten seconds"


def test_put_get_stat(sos: Sos, ns: str) -> None:
    assert sos("put", f"{ns}/o", stdin=CONTENT) == Outcome(0, b"", "")
    assert sos("get", f"{ns}/o") == Outcome(0, CONTENT, "")
    part = sos("get", f"{ns}/o", "--offset", "1000", "--length", "5000", "--json")
    assert part.out == CONTENT[1000:6000]
    assert json.loads(part.err) == {
        "object": f"{ns}/o",
        "offset": 1000,
        "length": 5000,
        "crc32c": f"{crc32c(CONTENT[1000:6000]):08x}",
    }
    info = sos("stat", f"{ns}/o", "--json").json
    expected = {"size": len(CONTENT), "sealed": False, "epoch": 0, "crc32c": f"{crc32c(CONTENT):08x}", "name": "o"}
    assert info.items() >= expected.items()
    assert f"crc32c:       {crc32c(CONTENT):08x}".encode() in sos("stat", f"{ns}/o").out


def test_a_put_that_was_cut_short_goes_on(sos: Sos, ns: str) -> None:
    for size in (0, 1, 1_500_000, len(CONTENT), len(CONTENT)):
        assert sos("put", f"{ns}/o", "--json", stdin=CONTENT[:size]).json["size"] == size
    assert sos("get", f"{ns}/o").out == CONTENT
    assert sos("seal", f"{ns}/o").code == 0
    assert sos("put", f"{ns}/o", stdin=CONTENT).code == 0, "there is nothing left to do"
    refused = sos("put", f"{ns}/o", stdin=CONTENT + b"more")
    assert (refused.code, refused.err[:12]) == (ExitCode.CONFLICT, "sos: SEALED:")


@pytest.mark.parametrize("other", [b"", b"x", CONTENT[:-1] + b"?", b"?" + CONTENT[1:] + b"more", CONTENT[:-1]])
def test_a_put_over_another_past_is_refused(sos: Sos, ns: str, other: bytes) -> None:
    sos("put", f"{ns}/o", stdin=CONTENT)
    refused = sos("put", f"{ns}/o", stdin=other)
    assert refused.code == ExitCode.CONFLICT
    assert "another past" in refused.err
    assert sos("get", f"{ns}/o").out == CONTENT


def test_append_adds_to_the_end(sos: Sos, ns: str) -> None:
    for word in (b"one ", b"", b"two ", b"three"):
        assert sos("append", f"{ns}/o", stdin=word).code == 0
    assert sos("get", f"{ns}/o").out == b"one two three"
    values = sos("append", f"{ns}/o", "--json", stdin=b"!").json
    assert values == {"object": f"{ns}/o", "size": 14, "size_before": 13}
    assert sos("tail", f"{ns}/o", "--bytes", "3").out == b"ee!"
    assert sos("tail", f"{ns}/o", "--offset", "4").out == b"two three!"


def test_listing(sos: Sos, ns: str) -> None:
    assert sos("ls", ns).code == ExitCode.NOT_FOUND
    for name in ("b", "a"):
        sos("put", f"{ns}/{name}", stdin=b"x")
    assert [entry["name"] for entry in sos("ls", ns, "--json").json["objects"]] == ["a", "b"]
    lines = sos("ls", ns).out.decode().splitlines()
    assert [line.split() for line in lines] == [
        ["SIZE", "EPOCH", "CRC32C", "STATE", "NAME"],
        ["1", "0", f"{crc32c(b'x'):08x}", "open", "a"],
        ["1", "0", f"{crc32c(b'x'):08x}", "open", "b"],
    ]


def test_claims(sos: Sos, ns: str) -> None:
    claim = sos("fence", ns, "--json").json
    assert claim["epoch"] == 1
    refused = sos("append", f"{ns}/o", stdin=b"x")
    assert refused.code == ExitCode.FENCED
    assert shown_holder(bytes.fromhex(claim["holder"])).hex() in refused.err
    assert claim["holder"] not in refused.err
    under = ("--epoch", "1", "--holder", claim["holder"])
    assert sos("append", f"{ns}/o", *under, stdin=b"x").code == 0
    assert sos("stat", f"{ns}/o", "--json").json["epoch"] == 1
    assert sos("fence", ns, "--epoch", "1").code == ExitCode.FENCED
    assert sos("fence", ns, *under).out.decode() == f"--epoch 1 --holder {claim['holder']}\n"
    assert sos("stat", ns, "--json").json.items() >= {"epoch": 1, "holder": claim["holder"]}.items()
    assert sos("fence", ns, "--holder", "abc").code == ExitCode.USAGE
    assert sos("fence", ns, "--holder", "ab").code == ExitCode.USAGE


def test_sealing_and_removing(sos: Sos, ns: str) -> None:
    sos("put", f"{ns}/o", stdin=b"123")
    assert sos("rm", f"{ns}/o").code == ExitCode.CONFLICT
    assert sos("seal", f"{ns}/o", "--size", "2").code == ExitCode.CONFLICT
    assert sos("seal", f"{ns}/o", "--size", "3", "--json").json["sealed"]
    assert sos("seal", f"{ns}/o", "--json").json["sealed"]
    assert sos("rm", f"{ns}/o", "--json").json["deleted"]
    assert sos("rm", f"{ns}/o").code == ExitCode.NOT_FOUND
    sos("put", f"{ns}/p", stdin=b"123")
    assert sos("rm", f"{ns}/p", "--seal").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("stat",), ExitCode.USAGE, "Missing argument"),
        (("put", "only-a-namespace"), ExitCode.USAGE, "not of the form NAMESPACE/OBJECT"),
        (("ls", "namespace/object"), ExitCode.USAGE, "not of the form NAMESPACE"),
        (("stat", "../x"), ExitCode.USAGE, "BAD_NAME: '..' is not a name"),
        (("stat", "n/../../etc/passwd"), ExitCode.USAGE, "BAD_NAME"),
        (("fence", "n", "--epoch", "0"), ExitCode.USAGE, "0 is not in the range"),
        (("stat", "absent/x"), ExitCode.NOT_FOUND, "there is no namespace 'absent'"),
        (("stat", "a/b", "--server", "::1"), ExitCode.USAGE, "is not an address"),
        (("stat", "a/b", "--server", "a..b:1"), ExitCode.USAGE, "is not an address"),
        (("stat", "a/b", "--server", "127.0.0.1:9"), ExitCode.UNAVAILABLE, "127.0.0.1:9: connection refused"),
        (("ping", "--token", "secret"), ExitCode.USAGE, "a token is 64 hexadecimal digits"),
        (("ping", "--token-file", "/nonexistent"), ExitCode.USAGE, "cannot be read as a token"),
        (("ping", "--tls-ca", "/nonexistent"), ExitCode.USAGE, "cannot be used for TLS"),
        (("ping", "--tls", "--tls-key", "/nonexistent"), ExitCode.USAGE, "--tls-key is of no use without --tls-cert"),
        (("bench", "n", "--seconds", "nan"), ExitCode.USAGE, "nan is not a number of seconds"),
        (("ping", "--timeout", "nan"), ExitCode.USAGE, "nan is not a number of seconds"),
        (("ping", "--tls"), ExitCode.UNAVAILABLE, "does not speak TLS"),
        (("nonsense",), ExitCode.USAGE, "No such command"),
    ],
    ids=str,
)
def test_errors_are_a_sentence_and_a_code(arguments: tuple[str, ...], code: int, sentence: str, sos: Sos) -> None:
    outcome = sos(*arguments)
    assert outcome.code == code
    assert sentence in outcome.err
    assert "secret" not in outcome.err


def test_help_names_every_verb_and_exit_code(sos: Sos) -> None:
    text = sos("--help").out.decode()
    for verb in ("ping", "ls", "stat", "put", "append", "get", "tail", "fence", "seal", "rm", "bench"):
        assert f"  {verb} " in text
        assert "--server" in sos(verb, "--help").out.decode()
    for code in ExitCode:
        assert f" {code.value}  " in text


def test_bench(sos: Sos, ns: str) -> None:
    load = ("--connections", "3", "--in-flight", "8", "--size", "100", "--seconds", "0.3")
    values = sos("bench", ns, *load, "--json").json
    assert values["appends"] > 24
    assert values["appends_per_second"] > 0
    assert 0 < values["latency_ms"]["p50"] <= values["latency_ms"]["p99"] <= values["latency_ms"]["max"]
    assert values["objects_left"] == 0
    assert sos("ls", ns, "--json").json["objects"] == []
    assert b"appends/s of 4096 bytes" in sos("bench", ns, "--seconds", "0.1").out


def test_tls_and_tokens(sos: Sos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority"))
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(str(tmp_path / "server-key"))
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "server-chain"))
    made = subprocess.run(
        [
            sys.executable,
            "-m",
            "sos_server",
            "token",
            "--tokens",
            str(tmp_path / "tokens"),
            "--name",
            "t",
            "--namespace",
            "mine-*",
            "--right",
            "read",
            "--right",
            "append",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    token = made.stdout.split()[-1]
    (tmp_path / "token").write_text(token + "\n")
    flags = ["--tls-cert", str(tmp_path / "server-chain"), "--tls-key", str(tmp_path / "server-key")]
    with serving(tmp_path, *flags, "--tokens", str(tmp_path / "tokens")) as secured:
        monkeypatch.setenv("SOS_SERVER", secured.address)
        plain = sos("ping")
        assert (plain.code, "speaks TLS" in plain.err) == (ExitCode.PROTOCOL, True)
        untrusted = sos("ping", "--tls")
        assert (untrusted.code, "--tls-ca" in untrusted.err) == (ExitCode.UNAVAILABLE, True)
        monkeypatch.setenv("SOS_TLS_CA", str(tmp_path / "authority"))
        assert sos("ping").code == ExitCode.ACCESS
        assert sos("ping", "--token", "00" * 32).code == ExitCode.ACCESS
        assert sos("ping", "--token-file", str(tmp_path / "token")).code == 0
        monkeypatch.setenv("SOS_TOKEN", token)
        assert sos("put", "mine-1/o", stdin=CONTENT).code == 0
        assert sos("get", "mine-1/o").out == CONTENT
        assert sos("put", "yours/o", stdin=CONTENT).code == ExitCode.ACCESS
        assert sos("fence", "mine-1").code == ExitCode.ACCESS


def command(server: ServerProcess, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "sos_client", *arguments, "--server", server.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        **options,
    )


def test_ctrl_c_ends_a_command_that_waits(server: ServerProcess, sos: Sos, ns: str) -> None:
    """One that waits for the server, and one that waits for standard input; what was acknowledged stays."""
    sos("put", f"{ns}/o", stdin=b"seen")
    with command(server, "tail", "-f", f"{ns}/o") as following:
        assert following.stdout is not None
        assert following.stdout.read(4) == b"seen"
        following.send_signal(signal.SIGINT)
        _, err = following.communicate(timeout=600)
    assert (following.returncode, err) == (ExitCode.INTERRUPTED, b"sos: interrupted\n")
    with command(server, "append", f"{ns}/o") as appending:
        assert appending.stdin is not None
        appending.stdin.write(b" and more")
        appending.stdin.flush()
        with command(server, "tail", "-f", f"{ns}/o") as following:
            assert following.stdout is not None
            assert following.stdout.read(13) == b"seen and more"
            following.kill()
        appending.send_signal(signal.SIGINT)
        appending.wait(timeout=600)
    assert appending.returncode == ExitCode.INTERRUPTED
    assert sos("get", f"{ns}/o").out == b"seen and more"


def test_a_follow_ends_when_the_object_is_sealed(server: ServerProcess, sos: Sos, ns: str) -> None:
    sos("put", f"{ns}/o", stdin=b"one ")
    with command(server, "tail", "-f", f"{ns}/o") as following:
        assert following.stdout is not None
        assert following.stdout.read(4) == b"one "
        sos("append", f"{ns}/o", stdin=b"two")
        sos("seal", f"{ns}/o")
        out, err = following.communicate(timeout=600)
    assert (following.returncode, out, err) == (0, b"two", b"")


def test_nobody_reads_the_output(server: ServerProcess, sos: Sos, ns: str) -> None:
    sos("put", f"{ns}/o", stdin=CONTENT)
    with command(server, "get", f"{ns}/o") as getting:
        assert getting.stdout is not None
        assert getting.stdout.read(10) == CONTENT[:10]
        getting.stdout.close()
        assert getting.stderr is not None
        assert getting.stderr.read() == b""
        assert getting.wait(timeout=600) == ExitCode.BROKEN_PIPE


def test_progress_shows_on_a_terminal_only(server: ServerProcess, ns: str) -> None:
    """The bar goes to standard error when that is a terminal, so that pipes stay clean."""
    here, there = os.openpty()
    seen = bytearray()

    def watch() -> None:
        try:
            while data := os.read(here, 4096):
                seen.extend(data)
        except OSError:
            pass  # the terminal has gone with the process

    process = subprocess.Popen(
        [sys.executable, "-m", "sos_client", "put", f"{ns}/o", "--server", server.address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=there,
        cwd=Path(__file__).parents[2],
    )
    os.close(there)
    watcher = threading.Thread(target=watch)
    watcher.start()
    out, _ = process.communicate(CONTENT, timeout=600)
    watcher.join(timeout=600)
    os.close(here)
    assert (process.returncode, out) == (0, b"")
    assert f"{ns}/o".encode() in seen
