"""Whether an answer can be the one to its request: PROTOCOL.md's rule "an answer is checked against its request". Pure.

Belongs here: what a client compares before it believes anything of an answer, so that a broken or false service can
neither give it something else nor keep the true one out. What does not fit is a ProtocolError: the connection is
thrown away, and the request is sent again.
Does not belong here: whether an answer is well formed (decoding.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, refused
from journal.gateway.wire import messages as m
from sos_client.wire.errors import ProtocolError
from sos_client.wire.limits import EPOCHS_AHEAD_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from journal.volume import FileStatus

ENTRIES_KEPT_MAX: Final = 1_000_000
CHARACTERS_KEPT_MAX: Final = 64 << 20
"""Of all pages together, as in the JVM: a listing is kept in memory, and a service must not fill that."""


@dataclass(slots=True, kw_only=True)
class Kept:
    """Counts what is kept of a listing's pages."""

    what: str
    _entries: int = 0
    _characters: int = 0

    def add(self, paths: Iterable[str]) -> None:
        """TOO_LARGE when there are more than memory should be given for."""
        for path in paths:
            self._entries += 1
            self._characters += len(path)
        if self._entries > ENTRIES_KEPT_MAX or self._characters > CHARACTERS_KEPT_MAX:
            raise refused(
                JournalCode.TOO_LARGE,
                f"{self.what} has over {self._entries - 1} entries, which is more than is kept in memory: ask for less "
                "of it, or read the log with --servers",
            )


def check_epoch(epoch: int, now_seconds: float) -> None:
    """What an epoch cannot be by this machine's clock: one that has got in would keep every true answer out."""
    last = int(now_seconds) + 2 * EPOCHS_AHEAD_MAX
    if epoch > last:
        raise ProtocolError(f"answered for epoch {epoch}, which cannot be: by this machine's clock the last is {last}")


def check_answer(request: m.Request, answer: m.Answer) -> None:
    """Of a request that one frame answers. Answers of another kind than the request's are the caller's to refuse."""
    match request, answer:
        case m.HelloRequest(version=version), m.WelcomeAnswer(version=other) if version != other:
            raise ProtocolError(f"offered version {version}, answered with {other}")
        case m.OpenRequest(volume=volume), m.OpenedAnswer(volume=another) if volume != another:
            raise ProtocolError(f"opened volume {volume}, answered for {another}")
        case m.StatRequest(path=path), m.StatusAnswer(status=status):
            check_path(path, status)
        case m.PutRequest(path=path, payload=payload), m.StatusAnswer(status=status):
            check_file(path, status, len(payload))
        case m.AppendRequest(path=path, size=size, payload=payload), m.StatusAnswer(status=status):
            check_file(path, status, size + len(payload))
        case m.ListRequest(), m.PageAnswer():
            _check_page(request, answer)
        case m.ClaimsRequest(), m.ClaimPageAnswer():
            _check_claims(request, answer)
        case m.PingRequest(number=number), m.PongAnswer(number=other) if number != other:
            raise ProtocolError(f"answered to PING {other}, not to {number}")
        case m.DeleteRequest() | m.ReleaseRequest(), _:
            pass  # which may find nothing to do
        case _, m.DoneAnswer(applied=False):
            raise ProtocolError(f"answered that {type(request).__name__} was not done, without a refusal")


def check_path(path: str, status: FileStatus) -> None:
    """STATUS says of which path it is."""
    if status.path != path:
        raise ProtocolError(f"answered for another path than {path}")


def check_file(path: str, status: FileStatus, size: int) -> None:
    """What was written is a file of the size that was sent."""
    check_path(path, status)
    if status.is_directory or status.size != size:
        raise ProtocolError(f"answered the write of {path} with another file")


def bytes_due(request: m.ReadRequest, status: FileStatus) -> int:
    """How many bytes follow a READ's STATUS, which must be of the file that was asked for."""
    check_path(request.path, status)
    if status.is_directory or request.modified_ms not in (None, status.modified_ms):
        raise ProtocolError(f"answered READ of {request.path} with another file")
    rest = max(0, status.size - request.offset)
    return rest if request.length is None else min(rest, request.length)


def _check_page(request: m.ListRequest, page: m.PageAnswer) -> None:
    if _is_the_file_itself(request, page):
        return
    parent = f"{request.path}/" if request.path else ""
    before = request.after
    for entry in page.entries:
        name = entry.path.removeprefix(parent)
        if not entry.path.startswith(parent) or not name or "/" in name:
            raise ProtocolError(f"answered LIST of {request.path} with what is not a child of it")
        if name <= before:  # code points sort as UTF-8 does
            raise ProtocolError(f"answered LIST of {request.path} with names that were not asked for")
        before = name
    _check_extent("LIST", request.limit, len(page.entries), more=page.more)


def _is_the_file_itself(request: m.ListRequest, page: m.PageAnswer) -> bool:
    if request.after or page.more or len(page.entries) != 1:
        return False
    return not page.entries[0].is_directory and page.entries[0].path == request.path


def _check_claims(request: m.ClaimsRequest, page: m.ClaimPageAnswer) -> None:
    before = request.after
    for one in page.claims:
        if before is not None and one.path <= before:
            raise ProtocolError("answered CLAIMS with paths that were not asked for")
        before = one.path
    _check_extent("CLAIMS", request.limit, len(page.claims), more=page.more)


def _check_extent(what: str, limit: int, count: int, *, more: bool) -> None:
    if count > limit:
        raise ProtocolError(f"answered {what} with {count}, where {limit} were asked for")
    if more and not count:
        raise ProtocolError(f"answered {what} with nothing, and with more to come")
