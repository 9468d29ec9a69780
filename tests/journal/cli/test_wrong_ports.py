"""The port of something else is told at once, whichever was taken for which."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING

import pytest

from journal.cli.options import Access
from journal.errors import JournalError
from journal.gateway.client.retry_state import RetryState
from journal.gateway.client.service_pool import Addresses
from sos_client.attempts import Deadlines
from sos_client.retry import RetryPolicy
from sos_client.wire.errors import ConnectionLostError
from sos_client.wire.strangers import WrongPortError
from tests.journal.cli.servers import memory_service, process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.journal.cli.conftest import RunMain


class _Answers(BaseRequestHandler):
    """As a page or metrics answer what is not HTTP."""

    def handle(self) -> None:
        self.request.recv(4096)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


@pytest.fixture
def page() -> Iterator[str]:
    with _listening(_Answers) as address:
        yield address


def test_something_else_listens_there(tmp_path: Path, run_main: RunMain) -> None:
    arguments = ("sos_server", "--root", str(tmp_path / "a"), "--listen", "127.0.0.1:0")
    with memory_service("payments") as service, process(*arguments) as (_, server):
        began = time.monotonic()
        for option, address, who in (
            ("--service", server, "an SOS server"),
            ("--servers", service, "a journal service"),
        ):
            ended = run_main("ls", "payments", option, address)
            assert ended.exit_code in (2, 9)
            assert f"{address} is the port of {who}" in ended.stderr
        assert run_main("ls", "payments", "--service", service).exit_code == 0
        assert time.monotonic() - began < 20


def test_a_page_is_not_a_service(page: str, run_main: RunMain) -> None:
    for option in ("--service", "--servers"):
        ended = run_main("ls", "payments", option, page, "--timeout", "20")
        assert ended.exit_code in (2, 9)
        assert f"{page} is the port of an HTTP server" in ended.stderr


class _Greets(BaseRequestHandler):
    """As mail servers do, before anything was asked."""

    def handle(self) -> None:
        self.request.sendall(b"220 mail.example ESMTP\r\n")
        self.request.recv(4096)


class _Silent(BaseRequestHandler):
    def handle(self) -> None:
        while self.request.recv(4096):
            pass


@contextmanager
def _listening(handler: type[BaseRequestHandler]) -> Iterator[str]:
    with ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_who_speaks_another_language_is_told_at_once(run_main: RunMain) -> None:
    with _listening(_Greets) as mail:
        for option in ("--service", "--servers"):
            ended = run_main("ls", "payments", option, mail, "--timeout", "20")
            assert ended.exit_code in (2, 9)
            assert f"{mail} is the port of something else, which begins with '220 m'" in ended.stderr
            assert ended.stderr.count(f"sos-journal: {mail}") == 1


def test_who_says_nothing_is_named_once(run_main: RunMain) -> None:
    with _listening(_Silent) as silent:
        for words in (["ls", "payments"], ["volumes", "list"]):
            ended = run_main(*words, "--servers", silent, "--timeout", "0.3")
            assert (ended.exit_code, "no answer in time" in ended.stderr) == (9, True), ended.stderr
            assert ended.stderr.count(silent) == 1


def test_nothing_is_waited_for_longer_than_one_was_told() -> None:
    access = Access(services=(), servers=("a:1",), directory=None, timeout=0.3)
    assert access.surroundings.deadlines == Deadlines(connect_seconds=0.3, answer_seconds=0.3, retry_seconds=0.0)
    assert Deadlines().within(None) == Deadlines()
    assert Deadlines().within(0) == Deadlines(retry_seconds=0), "nothing is tried again"
    assert Deadlines().within(3600) == Deadlines(), "each answer is waited for as by everybody"


def test_only_where_no_address_is_right_and_nothing_was_asked_it_ends_at_once() -> None:
    def state() -> RetryState:
        return RetryState(Addresses(("a:1", "b:1")), RetryPolicy(), changes=True)

    wrong = WrongPortError("a:1 is the port of something else")
    one = state()
    one.after(wrong, 0.5)
    with pytest.raises(JournalError, match="the port of something else"):
        one.after(wrong, 0.5)
    other = state()
    for error in (wrong, ConnectionLostError("b:1 is away"), wrong):
        other.after(error, 0.5)
    asked = state()
    asked.trying("a:1")
    asked.asked(has_sent=True)
    asked.after(ConnectionLostError("the answer did not come"), 0.5)
    for _ in range(4):
        asked.after(wrong, 0.5)
    assert asked.out_of_time(1).code.name == "OUTCOME_UNKNOWN"
