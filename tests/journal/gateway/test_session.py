"""What a connection to the service may and may not do, message by message."""

from __future__ import annotations

import hashlib
import itertools
import re
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from journal.errors import JournalCode, journal_error
from journal.gateway.requests import RIGHTS
from journal.gateway.wire import limits
from journal.gateway.wire import messages as m
from journal.gateway.wire.encoding import encode
from journal.service.exposition import GatewayCollector
from journal.volume import PathClaim
from sos_client.serving.access import Right, append_token, new_token
from sos_client.wire.frames import frame_header
from tests.journal.gateway.conftest import HELLO, INSTANCE, OPEN, Peer, Room, Service

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


async def test_hello_and_open_are_answered_in_one_go(service: Service) -> None:
    peer = service.connect()
    welcome = await peer.ask(HELLO, OPEN)
    assert welcome == m.WelcomeAnswer(
        version=1, service=bytes(16), frame_bytes_max=2 << 20, piece_bytes_max=1 << 20, time_ms=1_700_000_000_000
    )
    assert await peer.receive() == m.OpenedAnswer(epoch=1, volume="payments")


async def test_anything_before_hello_ends_the_connection(service: Service) -> None:
    peer = service.connect()
    assert (await peer.refused(m.PingRequest(number=1))).code == JournalCode.PROTOCOL
    await peer.closed()


async def test_nothing_of_a_hello_is_decoded_before_its_token_is_taken(nursery: trio.Nursery, tmp_path: Path) -> None:
    _token(tmp_path / "tokens", Right.READ)
    service = Service(nursery, tmp_path / "tokens")
    for after_the_token in (b"", b"\xdc\x03\xe8" * 1300, b"\xc1"):
        peer = service.connect()
        body = b"\x00\x01\x01" + bytes(32) + after_the_token
        await peer.stream.send_all(frame_header(m.FileMessageType.HELLO, len(body)) + body)
        answer = await peer.receive()
        assert isinstance(answer, m.RefusalAnswer)
        assert answer.code == JournalCode.AUTH


async def test_a_large_frame_before_hello_ends_the_connection(service: Service) -> None:
    peer = service.connect()
    await peer.stream.send_all((limits.FRAME_BYTES_MAX_BEFORE_HELLO + 1).to_bytes(4, "big") + b"!")
    refusal = await peer.receive()
    assert isinstance(refusal, m.RefusalAnswer)
    assert refusal.code == JournalCode.PROTOCOL
    await peer.closed()


async def test_another_version_is_told_what_is_spoken(service: Service) -> None:
    peer = service.connect()
    hello = encode(HELLO).replace(b"\x21\x00\x01", b"\x21\x00\x07", 1)
    await peer.stream.send_all(hello)
    refusal = await peer.receive()
    assert isinstance(refusal, m.RefusalAnswer)
    assert (refusal.code, dict(refusal.fields)) == (JournalCode.VERSION, {"minimum": 1, "maximum": 2})
    await peer.closed()


async def test_hello_twice_ends_the_connection(service: Service) -> None:
    peer = await service.opened()
    assert (await peer.refused(HELLO)).code == JournalCode.PROTOCOL
    await peer.closed()


async def test_a_request_without_open_is_refused_and_the_connection_stays(service: Service) -> None:
    peer = service.connect()
    await peer.ask(HELLO)
    assert (await peer.refused(m.StatRequest(path="", epoch_seen=0))).code == JournalCode.BAD_REQUEST
    assert isinstance(await peer.ask(OPEN), m.OpenedAnswer)


async def test_unknown_volumes_and_volumes_elsewhere(service: Service) -> None:
    service.volumes.elsewhere["moved"] = "10.0.0.2:7420"
    peer = await service.opened()
    unknown = await peer.refused(m.OpenRequest(volume="unknown", epoch_seen=0))
    assert (unknown.code, dict(unknown.fields)["volume"]) == (JournalCode.VOLUME_NOT_FOUND, "unknown")
    elsewhere = await peer.refused(m.OpenRequest(volume="moved", epoch_seen=0))
    assert (elsewhere.code, dict(elsewhere.fields)["address"]) == (JournalCode.NOT_OWNER, "10.0.0.2:7420")
    assert isinstance(await peer.ask(m.StatRequest(path="", epoch_seen=0)), m.StatusAnswer)


async def test_a_volume_lost_while_connected_is_refused_with_its_new_address(service: Service) -> None:
    peer = await service.opened()
    service.volumes.elsewhere["payments"] = "10.0.0.2:7420"
    refusal = await peer.refused(m.PutRequest(path="a", overwrite=False, stamp=peer.stamp(), payload=b""))
    assert (refusal.code, dict(refusal.fields)["address"]) == (JournalCode.NOT_OWNER, "10.0.0.2:7420")
    assert service.volume.tree.keys() == {""}


async def test_a_client_that_has_seen_a_newer_epoch_is_refused(service: Service) -> None:
    service.volume.epoch = 5
    peer = await service.opened()
    requests: list[m.Request] = [
        m.OpenRequest(volume="payments", epoch_seen=6),
        m.StatRequest(path="", epoch_seen=6),
        m.ListRequest(path="", after="", limit=1, epoch_seen=6),
        m.ReadRequest(path="a", offset=0, length=None, modified_ms=None, epoch_seen=6),
        m.PutRequest(path="a", overwrite=False, stamp=peer.stamp(epoch_seen=6), payload=b""),
        m.DeleteRequest(path="a", recursive=False, stamp=peer.stamp(epoch_seen=6)),
    ]
    for request in requests:
        refusal = await peer.refused(request)
        assert (refusal.epoch, refusal.code) == (5, JournalCode.NOT_OWNER)
    assert service.volume.runs == 0


async def test_a_client_that_has_seen_a_false_epoch_is_told_so(service: Service) -> None:
    """By the owner, when enough members say that nobody newer can have had the volume."""
    service.volume.epoch, service.volume.still_owned = 5, True
    peer = await service.opened()
    for request in (m.OpenRequest(volume="payments", epoch_seen=6), m.StatRequest(path="", epoch_seen=6)):
        refusal = await peer.refused(request)
        fields = {"volume": "payments", "address": None, "epoch": 6, "owned": 5}
        assert (refusal.code, dict(refusal.fields)) == (JournalCode.NOT_OWNER, fields)


async def test_unknown_requests_are_refused_and_the_connection_stays(service: Service) -> None:
    peer = await service.opened()
    await peer.stream.send_all(bytes([0, 0, 0, 3, 0x7E, 1, 2]))
    refusal = await peer.receive()
    assert isinstance(refusal, m.RefusalAnswer)
    assert (refusal.code, dict(refusal.fields)) == (JournalCode.UNSUPPORTED, {"type": 0x7E})
    assert await peer.ask(m.PingRequest(number=3)) == m.PongAnswer(epoch=1, number=3, time_ms=1_700_000_000_000)


async def test_requests_that_are_sent_early_are_answered_in_order(service: Service) -> None:
    peer = await service.opened()
    for number in range(20):
        await peer.send(
            m.PutRequest(path=f"f{number}", overwrite=False, stamp=peer.stamp(), payload=b"x" * number),
            m.PingRequest(number=number),
        )
    for number in range(20):
        answer = await peer.receive()
        assert isinstance(answer, m.StatusAnswer)
        assert (answer.status.path, answer.status.size) == (f"f{number}", number)
        assert isinstance(await peer.receive(), m.PongAnswer)


async def test_frames_byte_by_byte(service: Service) -> None:
    peer = service.connect()
    put = m.PutRequest(path="a", overwrite=False, stamp=peer.stamp(), payload=b"content")
    for byte in encode(HELLO) + encode(OPEN) + encode(put):
        await peer.stream.send_all(bytes([byte]))
    assert [type(await peer.receive()) for _ in range(3)] == [m.WelcomeAnswer, m.OpenedAnswer, m.StatusAnswer]


async def test_quit_says_bye_and_closes(service: Service) -> None:
    peer = await service.opened()
    assert await peer.ask(m.QuitRequest()) == m.ByeAnswer()
    await peer.closed()


async def test_read_sends_status_data_and_end_together(service: Service) -> None:
    peer = await service.opened()
    await peer.ask(m.PutRequest(path="a", overwrite=False, stamp=peer.stamp(), payload=b"content"))
    await peer.send(m.ReadRequest(path="a", offset=2, length=3, modified_ms=None, epoch_seen=1))
    data = await peer.stream.receive_some()
    assert data.endswith(encode(m.FileData(offset=2, payload=b"nte")) + encode(m.ReadEndAnswer(epoch=1, next_offset=5)))


async def test_read_of_another_version_of_the_file_is_refused(service: Service) -> None:
    peer = await service.opened()
    first = await peer.ask(m.PutRequest(path="a", overwrite=False, stamp=peer.stamp(), payload=b"1"))
    assert isinstance(first, m.StatusAnswer)
    modified_ms = first.status.modified_ms
    read = m.ReadRequest(path="a", offset=0, length=None, modified_ms=modified_ms, epoch_seen=1)
    assert isinstance(await peer.ask(read), m.StatusAnswer)
    assert [type(await peer.receive()) for _ in range(2)] == [m.FileData, m.ReadEndAnswer]
    await peer.ask(m.PutRequest(path="a", overwrite=True, stamp=peer.stamp(), payload=b"2"))
    assert (await peer.refused(read)).code == JournalCode.CHANGED


async def test_a_long_listing_is_cut_to_a_frame(service: Service) -> None:
    peer = await service.opened()
    parent = "/".join("p" * 255 for _ in range(14))
    for number in range(400):
        service.volume.tree[f"{parent}/{number:0255}"] = service.volume.tree[""]
    service.volume.tree[parent] = service.volume.tree[""]
    after, seen = "", 0
    while True:
        page = await peer.ask(m.ListRequest(path=parent, after=after, limit=1000, epoch_seen=1))
        assert isinstance(page, m.PageAnswer)
        assert 0 < len(page.entries) < 400
        seen += len(page.entries)
        after = page.entries[-1].path.rpartition("/")[2]
        if not page.more:
            break
    assert seen == 400


async def test_refusals_are_counted_and_requests_timed(service: Service) -> None:
    peer = await service.opened()
    await peer.refused(m.StatRequest(path="missing", epoch_seen=0))
    assert service.metrics.refusals == {JournalCode.NOT_FOUND: 1}
    assert sum(service.metrics.seconds[m.FileMessageType.STAT].counts) == 1
    families = {family.name: family for family in GatewayCollector(service.metrics).collect()}
    assert families["sos_journal_refusals"].samples[0].labels == {"code": "not_found"}
    assert {sample.labels["request"] for sample in families["sos_journal_request_seconds"].samples} >= {"stat", "open"}


# ── streamed writes ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_streamed_write_has_one_answer(service: Service) -> None:
    peer = await service.opened()
    answer = await peer.ask(
        m.WriteOpenRequest(path="s", overwrite=False, stamp=peer.stamp()),
        m.FileData(offset=0, payload=b"one "),
        m.FileData(offset=4, payload=b"two"),
        m.WriteCommitRequest(size=7),
        m.PingRequest(number=9),
    )
    assert isinstance(answer, m.StatusAnswer)
    assert answer.status.size == 7
    assert isinstance(await peer.receive(), m.PongAnswer)


async def test_a_cancelled_write_leaves_nothing(service: Service) -> None:
    peer = await service.opened()
    answer = await peer.ask(
        m.WriteOpenRequest(path="s", overwrite=False, stamp=peer.stamp()),
        m.FileData(offset=0, payload=b"one"),
        m.WriteCancelRequest(),
    )
    assert answer == m.DoneAnswer(epoch=1, applied=True)
    assert service.volume.tree.keys() == {""}


async def test_an_early_refusal_is_the_only_answer(service: Service) -> None:
    peer = await service.opened()
    refusal = await peer.refused(m.WriteOpenRequest(path="bad//path", overwrite=False, stamp=peer.stamp()))
    assert refusal.code == JournalCode.BAD_PATH
    answer = await peer.ask(m.FileData(offset=0, payload=b"one"), m.WriteCommitRequest(size=3), m.PingRequest(number=1))
    assert isinstance(answer, m.PongAnswer)
    for closing in (m.WriteCommitRequest(size=0), m.WriteCancelRequest()):
        await peer.refused(m.WriteOpenRequest(path="bad//path", overwrite=False, stamp=peer.stamp()))
        assert isinstance(await peer.ask(closing, m.PingRequest(number=2)), m.PongAnswer)


async def test_a_refused_commit_leaves_the_connection_in_order(service: Service) -> None:
    peer = await service.opened()
    await peer.send(
        m.WriteOpenRequest(path="s", overwrite=False, stamp=peer.stamp()), m.FileData(offset=0, payload=b"one")
    )
    await trio.testing.wait_all_tasks_blocked()
    service.volume.before_answer = _refuse_not_owner
    refusal = await peer.refused(m.WriteCommitRequest(size=3))
    assert refusal.code == JournalCode.NOT_OWNER
    assert isinstance(await peer.ask(m.StatRequest(path="", epoch_seen=0)), m.StatusAnswer)


async def _refuse_not_owner() -> None:
    await trio.lowlevel.checkpoint()
    raise journal_error(JournalCode.NOT_OWNER, "somebody else has the volume")


@pytest.mark.parametrize(
    "frames",
    [
        [m.FileData(offset=1, payload=b"x")],
        [m.FileData(offset=0, payload=b"x"), m.FileData(offset=0, payload=b"x")],
        [m.FileData(offset=0, payload=b"x"), m.WriteCommitRequest(size=2)],
        [m.WriteCommitRequest(size=1)],
        [m.PingRequest(number=1)],
        [m.StatRequest(path="", epoch_seen=0)],
        [m.QuitRequest()],
    ],
    ids=["gap", "overlap", "short", "empty", "ping", "stat", "quit"],
)
async def test_what_does_not_belong_into_a_write_ends_the_connection(service: Service, frames: list[m.Request]) -> None:
    peer = await service.opened()
    await peer.send(m.WriteOpenRequest(path="s", overwrite=False, stamp=peer.stamp()))
    assert (await peer.refused(*frames)).code == JournalCode.PROTOCOL
    await peer.closed()
    assert service.volume.tree.keys() == {""}


@pytest.mark.parametrize(
    "frame", [m.FileData(offset=0, payload=b"x"), m.WriteCommitRequest(size=0), m.WriteCancelRequest()]
)
async def test_parts_of_a_write_alone_end_the_connection(service: Service, frame: m.Request) -> None:
    peer = await service.opened()
    assert (await peer.refused(frame)).code == JournalCode.PROTOCOL
    await peer.closed()


async def test_a_connection_lost_in_a_write_leaves_nothing(service: Service) -> None:
    peer = await service.opened()
    await peer.send(
        m.WriteOpenRequest(path="s", overwrite=False, stamp=peer.stamp()), m.FileData(offset=0, payload=b"x")
    )
    await trio.testing.wait_all_tasks_blocked()
    await peer.stream.aclose()
    await peer.ended.wait()
    assert service.volume.tree.keys() == {""}
    assert service.gateway.connections == 0


# ── rights ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _token(path: Path, *rights: Right, volumes: tuple[str, ...] = ("pay*",), expires: float | None = None) -> bytes:
    name = f"token {len(path.read_text()) if path.exists() else 0}"
    text, grant = new_token(name=name, namespaces=volumes, rights=frozenset(rights), expires=expires)
    append_token(path, grant)
    return bytes.fromhex(text)


async def _greeted(service: Service, token: bytes | None) -> Peer:
    peer = service.connect()
    await peer.send(m.HelloRequest(version=1, token=token, client="test", instance=bytes(16)))
    return peer


async def test_tokens_are_needed_where_there_are_any(nursery: trio.Nursery, tmp_path: Path) -> None:
    _token(tmp_path / "tokens", Right.READ)
    service = Service(nursery, tmp_path / "tokens")
    for wrong in (None, bytes(32)):
        peer = await _greeted(service, wrong)
        refusal = await peer.receive()
        assert isinstance(refusal, m.RefusalAnswer)
        assert refusal.code == JournalCode.AUTH
        await peer.closed()
    assert sum("token refused" in line for line in service.lines) == 2


RIGHTS_NEEDED: list[tuple[set[Right], Callable[[Peer, PathClaim], m.Request]]] = [
    ({Right.READ}, lambda _peer, _claim: m.StatRequest(path="", epoch_seen=0)),
    ({Right.READ}, lambda _peer, _claim: m.ListRequest(path="", after="", limit=1, epoch_seen=0)),
    ({Right.READ}, lambda _peer, _claim: m.DescribeRequest(epoch_seen=0)),
    ({Right.READ}, lambda _peer, _claim: m.ReadRequest(path="", offset=0, length=None, modified_ms=None, epoch_seen=0)),
    ({Right.APPEND}, lambda peer, claim: m.PutRequest(path="a", overwrite=True, stamp=peer.stamp(claim), payload=b"")),
    (
        {Right.APPEND},
        lambda peer, claim: m.AppendRequest(path="a", size=0, modified_ms=0, stamp=peer.stamp(claim), payload=b"x"),
    ),
    ({Right.APPEND}, lambda peer, claim: m.MkdirsRequest(path="d", stamp=peer.stamp(claim))),
    ({Right.APPEND}, lambda peer, _claim: m.MarkRequest(values=(), stamp=peer.stamp())),
    ({Right.APPEND}, lambda peer, _claim: m.PinRequest(name="fork", lsn=1, seconds=60, stamp=peer.stamp())),
    (
        {Right.APPEND, Right.DELETE},
        lambda peer, claim: m.RenameRequest(source="a", target="b", overwrite=True, stamp=peer.stamp(claim)),
    ),
    ({Right.DELETE}, lambda peer, claim: m.DeleteRequest(path="b", recursive=True, stamp=peer.stamp(claim))),
    ({Right.READ}, lambda _peer, _claim: m.ClaimsRequest(after=None, limit=1, epoch_seen=0)),
    ({Right.FENCE}, lambda peer, claim: m.ClaimRequest(path="c", stamp=peer.stamp(claim))),
    ({Right.FENCE}, lambda peer, claim: m.ReleaseRequest(path="c", stamp=peer.stamp(claim))),
]


@pytest.mark.parametrize("count", range(1, len(Right) + 1))
async def test_each_combination_of_rights_opens_its_requests_only(
    nursery: trio.Nursery, tmp_path: Path, count: int
) -> None:
    combinations = [set(rights) for rights in itertools.combinations(Right, count)]
    tokens = [_token(tmp_path / "tokens", *rights) for rights in combinations]
    service = Service(nursery, tmp_path / "tokens")
    claim, tried = PathClaim(application="a", start_time=1), set[type]()
    for rights, token in zip(combinations, tokens, strict=True):
        peer = await _greeted(service, token)
        await peer.receive()
        assert isinstance(await peer.ask(OPEN), m.OpenedAnswer)
        for needed, make in RIGHTS_NEEDED:
            request = make(peer, claim)
            tried.add(type(request))
            answer = await peer.ask(request)
            denied = isinstance(answer, m.RefusalAnswer) and answer.code == JournalCode.DENIED
            assert denied == (not needed <= rights), (rights, request, answer)
        write = m.WriteOpenRequest(path="s", overwrite=False, stamp=peer.stamp(claim))
        await peer.send(write)
        answer = await peer.ask(m.WriteCancelRequest())
        denied = isinstance(answer, m.RefusalAnswer) and answer.code == JournalCode.DENIED
        assert denied == (Right.APPEND not in rights), (rights, answer)
    assert tried | {m.WriteOpenRequest} == set(RIGHTS)


async def test_a_token_reaches_its_volumes_only(nursery: trio.Nursery, tmp_path: Path) -> None:
    token = _token(tmp_path / "tokens", *Right, volumes=("other",))
    service = Service(nursery, tmp_path / "tokens")
    peer = await _greeted(service, token)
    await peer.receive()
    assert (await peer.refused(OPEN)).code == JournalCode.DENIED


@pytest.mark.parametrize("how", ["reload", "stop"])
async def test_a_change_that_is_worked_on_is_not_refused_by_the_end_of_its_session(
    how: str, nursery: trio.Nursery, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """It is done later, so a final refusal would be untrue."""
    token = _token(tmp_path / "tokens", *Right)
    service = Service(nursery, tmp_path / "tokens")
    go_on = trio.Event()
    service.volume.before_answer = go_on.wait
    peer = await _greeted(service, token)
    await peer.receive()
    await peer.ask(OPEN)
    await peer.send(m.PutRequest(path="f", overwrite=False, stamp=peer.stamp(), payload=b"x"))
    await trio.testing.wait_all_tasks_blocked()
    if how == "reload":
        (tmp_path / "tokens").write_text("")
        service.access.reload()
        service.gateway.reload_access(service.now)
    else:
        await service.gateway.stop()
    refusal = await peer.receive()
    assert isinstance(refusal, m.RefusalAnswer)
    assert refusal.code == JournalCode.OUTCOME_UNKNOWN


async def test_a_token_taken_away_ends_its_connections(nursery: trio.Nursery, tmp_path: Path) -> None:
    token = _token(tmp_path / "tokens", *Right)
    service = Service(nursery, tmp_path / "tokens")
    peer = await _greeted(service, token)
    await peer.receive()
    (tmp_path / "tokens").write_text("")
    service.access.reload()
    service.gateway.reload_access(service.now)
    refusal = await peer.receive()
    assert isinstance(refusal, m.RefusalAnswer)
    assert refusal.code == JournalCode.AUTH
    await peer.closed()


async def test_a_connection_that_has_not_said_hello_lives_through_new_tokens(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    token = _token(tmp_path / "tokens", *Right)
    service = Service(nursery, tmp_path / "tokens")
    peer = service.connect()
    await trio.testing.wait_all_tasks_blocked()
    service.access.reload()
    service.gateway.reload_access(service.now)
    assert isinstance(
        await peer.ask(m.HelloRequest(version=1, token=token, client="c", instance=bytes(16))), m.WelcomeAnswer
    )


def _allow_only(path: Path, *rights: Right) -> None:
    """The one token of the file keeps these rights."""
    listed = ", ".join(f'"{right}"' for right in rights)
    path.write_text(re.sub(r"rights = .*", f"rights = [{listed}]", path.read_text()))


@pytest.mark.parametrize("ending", [m.WriteCommitRequest(size=2), m.FileData(offset=2, payload=b"34")])
async def test_a_streamed_write_ends_when_its_right_is_taken_away(
    nursery: trio.Nursery, tmp_path: Path, ending: m.Request
) -> None:
    token = _token(tmp_path / "tokens", *Right)
    service = Service(nursery, tmp_path / "tokens")
    peer = await _greeted(service, token)
    await peer.receive()
    assert isinstance(await peer.ask(OPEN), m.OpenedAnswer)
    await peer.send(
        m.WriteOpenRequest(path="large", overwrite=False, stamp=peer.stamp()), m.FileData(offset=0, payload=b"12")
    )
    await trio.testing.wait_all_tasks_blocked()
    _allow_only(tmp_path / "tokens", Right.READ)
    service.access.reload()
    service.gateway.reload_access(service.now)
    assert (await peer.refused(ending)).code == JournalCode.DENIED
    if not isinstance(ending, m.WriteCommitRequest):
        await peer.send(m.WriteCancelRequest())
    assert (await peer.refused(m.StatRequest(path="large", epoch_seen=0))).code == JournalCode.NOT_FOUND


@pytest.mark.parametrize("ask", ["put", "mkdirs", "delete", "stream", "append"])
async def test_a_change_that_waits_is_not_made_when_its_right_is_taken_away_meanwhile(
    ask: str, nursery: trio.Nursery, tmp_path: Path
) -> None:
    token = _token(tmp_path / "tokens", *Right)
    service = Service(nursery, tmp_path / "tokens")
    peer = await _greeted(service, token)
    await peer.receive()
    await peer.ask(OPEN)
    await peer.ask(m.PutRequest(path="old", overwrite=False, stamp=peer.stamp(), payload=b""))
    room = trio.Event()
    if ask == "append":
        service.volume.in_pieces["old"] = room
    else:
        service.volume.room = room
    requests: dict[str, tuple[m.Request, ...]] = {
        "put": (m.PutRequest(path="f", overwrite=False, stamp=peer.stamp(), payload=b"x"),),
        "mkdirs": (m.MkdirsRequest(path="f", stamp=peer.stamp()),),
        "delete": (m.DeleteRequest(path="old", recursive=False, stamp=peer.stamp()),),
        "append": (m.AppendRequest(path="old", size=0, modified_ms=1, stamp=peer.stamp(), payload=b"x"),),
        "stream": (
            m.WriteOpenRequest(path="f", overwrite=False, stamp=peer.stamp()),
            m.FileData(offset=0, payload=b"x"),
            m.WriteCommitRequest(size=1),
        ),
    }
    await peer.send(*requests[ask])
    await trio.testing.wait_all_tasks_blocked()
    _allow_only(tmp_path / "tokens", Right.READ)
    service.access.reload()
    service.gateway.reload_access(service.now)
    room.set()
    refusal = await peer.receive()
    assert isinstance(refusal, m.RefusalAnswer)
    assert refusal.code == JournalCode.DENIED
    assert service.volume.runs == 1


async def test_a_read_ends_when_its_right_is_taken_away(nursery: trio.Nursery, tmp_path: Path) -> None:
    token = _token(tmp_path / "tokens", *Right)
    service = Service(nursery, tmp_path / "tokens")
    peer = await _greeted(service, token)
    await peer.receive()
    assert isinstance(await peer.ask(OPEN), m.OpenedAnswer)
    write = await service.volume.open_write("large", overwrite=False, operation=peer.stamp().operation)
    for _ in range(40):
        await write.write(bytes(2**20))
    await write.commit()
    await peer.send(m.ReadRequest(path="large", offset=0, length=None, modified_ms=None, epoch_seen=0))
    assert isinstance(await peer.receive(), m.StatusAnswer)
    assert isinstance(await peer.receive(), m.FileData)
    _allow_only(tmp_path / "tokens", Right.APPEND)
    service.access.reload()
    service.gateway.reload_access(service.now)
    while isinstance(answer := await peer.receive(), m.FileData):
        assert answer.offset < 39 * 2**20
    assert isinstance(answer, m.RefusalAnswer)
    assert answer.code == JournalCode.DENIED


async def test_a_token_that_expires_ends_its_connections(
    nursery: trio.Nursery, tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    token = _token(tmp_path / "tokens", *Right, expires=1_700_000_100.0)
    service = Service(nursery, tmp_path / "tokens")
    nursery.start_soon(service.gateway.run)
    peer = await _greeted(service, token)
    await peer.receive()
    await trio.sleep(5)
    assert isinstance(await peer.ask(OPEN), m.OpenedAnswer)
    service.now += 101
    refusal = await peer.receive()
    assert isinstance(refusal, m.RefusalAnswer)
    assert refusal.code == JournalCode.AUTH
    await peer.closed()


async def test_claims_are_audited(service: Service) -> None:
    peer = await service.opened()
    await peer.ask(m.ClaimRequest(path="q", stamp=peer.stamp(PathClaim(application="app-7", start_time=1))))
    assert any('"event": "claim"' in line and "app-7" in line for line in service.lines)


async def test_the_volume_knows_whose_changes_are(nursery: trio.Nursery, tmp_path: Path) -> None:
    """What is kept of them is counted by tokens, which nobody can invent; what finds no room is not begun."""
    token = _token(tmp_path / "tokens", *Right)
    service = Service(nursery, tmp_path / "tokens")
    peer = service.connect()
    await peer.ask(m.HelloRequest(version=1, token=token, client="test", instance=INSTANCE), OPEN)
    assert await peer.receive() == m.OpenedAnswer(epoch=1, volume="payments")
    room = Room()
    service.volume.admit = room.admit
    whose = {INSTANCE: hashlib.sha256(token).digest()}
    for number, ask in enumerate(("mkdirs", "put", "stream")):
        requests: dict[str, m.Request] = {
            "mkdirs": m.MkdirsRequest(path="d", stamp=peer.stamp()),
            "put": m.PutRequest(path="f", overwrite=False, stamp=peer.stamp(), payload=b"x"),
            "stream": m.WriteOpenRequest(path="g", overwrite=False, stamp=peer.stamp()),
        }
        request = requests[ask]
        room.crowded = True
        refusal = await peer.refused(request)
        assert refusal.code == JournalCode.UNAVAILABLE
        if ask == "stream":
            await peer.send(m.WriteCommitRequest(size=0))
        assert service.volume.runs == number
        room.crowded = False
        room.admitted.clear()
        again = (request, m.WriteCommitRequest(size=0)) if ask == "stream" else (request,)
        assert isinstance(await peer.ask(*again), m.DoneAnswer | m.StatusAnswer)
        assert room.admitted == whose
    room.crowded = True
    assert isinstance(await peer.ask(m.StatRequest(path="f", epoch_seen=0)), m.StatusAnswer)
