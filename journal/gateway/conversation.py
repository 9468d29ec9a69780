"""What is said on a connection after the greeting: which volume, which right, which answer to each request.

The volumes do the work (requests.py, incoming_file.py, outgoing_file.py). Streams, frames and time are session.py's.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from journal.errors import JournalCode, JournalError, journal_error
from journal.gateway import requests
from journal.gateway.held_memory import HeldMemory
from journal.gateway.incoming_file import IncomingFile
from journal.gateway.outgoing_file import outgoing
from journal.gateway.wire import messages as m
from journal.gateway.wire.decoding import put_parts
from journal.gateway.wire.encoding import encode
from journal.gateway.wire.limits import TEXT_BYTES_MAX
from sos_client.serving.access import Grant, Right
from sos_client.serving.containment import changing_shared, in_doubt
from sos_client.wire.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from journal.gateway.metrics import GatewayMetrics
    from journal.volume import Answer, ServedVolume
    from sos_client.serving.access import AccessRules
    from sos_client.serving.event_log import EventLog

_NAME_SHOWN: Final = 200
_MESSAGE_SHOWN: Final = TEXT_BYTES_MAX // 4
"""Characters, each of at most four bytes: the sentence must fit its frame, whoever wrote it."""


class Volumes(Protocol):
    """The volumes of this service."""

    async def settle(self, name: str) -> None:
        """Return when it is known who has the volume, or after a bounded time: `owned` may change meanwhile."""

    def owned(self, name: str) -> ServedVolume:
        """The volume, if this service owns it now. VOLUME_NOT_FOUND, NOT_OWNER (with who does), UNAVAILABLE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySurroundings:
    """What all connections of a service share."""

    volumes: Volumes
    access: AccessRules
    log: EventLog
    metrics: GatewayMetrics
    identity: bytes
    wall_clock: Callable[[], float]
    memory: HeldMemory = field(default_factory=HeldMemory)

    def time_ms(self) -> int:
        return int(self.wall_clock() * 1000)


class Conversation:
    """The state of one connection's requests. `send` takes one or more whole frames."""

    def __init__(
        self, surroundings: GatewaySurroundings, *, grant: Grant, peer: str, send: Callable[[bytes], Awaitable[None]]
    ) -> None:
        self.writing = False
        self._with = surroundings
        self._grant = grant
        self._peer = peer
        self._send = send
        self._volume = ""
        self._rights: frozenset[Right] = frozenset()
        self._file = IncomingFile(None)

    @property
    def grant(self) -> Grant:
        return self._grant

    @grant.setter
    def grant(self, grant: Grant) -> None:
        self._grant = grant
        self._rights = self._rights_on(self._volume)

    @property
    def held_bytes(self) -> int:
        """What is kept of a streamed write that is not written yet."""
        return self._file.held_bytes

    @property
    def epoch(self) -> int:
        """Of the open volume, as the service knows it now; 0 when there is none."""
        if not self._volume:
            return 0
        try:
            return self._with.volumes.owned(self._volume).epoch
        except JournalError:
            return 0

    async def answer(self, type_code: int, request: m.Request | None) -> bool:
        """Answer one request (None: an unknown one); False when it was the last. ProtocolError ends the connection."""
        try:
            if self.writing:
                await self._go_on_writing(request)
            else:
                return await self._begin(type_code, request)
        except JournalError as error:
            await self._send(self.refusal(await self.confirmed(error)))
        return True

    def put_soon(self, body: memoryview, answered: Callable[[int, Answer], None]) -> bool:
        """Give the body of a PUT straight to the volume, which calls `answered` with its epoch and the answer.

        That may be before this returns. False: nothing was done; let `answer` see to it, which waits, or says why not.
        """
        path, overwrite, operation, claim, epoch_seen, modified_ms, payload, crc = put_parts(body)
        if self.writing or Right.APPEND not in self._rights:
            return False
        try:
            volume = self._with.volumes.owned(self._volume)
            epoch = volume.epoch
            if epoch_seen > epoch:
                return False
            volume.admit(operation, self._grant.sha256)
            return volume.put_soon(
                path,
                bytes(payload),
                payload_crc=crc,
                overwrite=overwrite,
                operation=operation,
                claim=claim,
                modified_ms=modified_ms,
                answered=partial(answered, epoch),
            )
        except JournalError:
            return False
        except Exception as error:
            raise in_doubt("PUT was worked on", error) from error

    async def abandon(self) -> None:
        """The connection is at its end: what was streamed and not committed never existed."""
        await self._file.abandon()

    def refusal(self, error: JournalError) -> bytes:
        """The ERROR frame, counted."""
        self._with.metrics.refusals[error.code] += 1
        message = error.message[:_MESSAGE_SHOWN]
        return encode(
            m.RefusalAnswer(epoch=self.epoch, code=error.code, message=message, fields=tuple(error.fields.items()))
        )

    async def reply(self, type_code: int, request: m.Request | None) -> bytes:
        """The frame that answers a request of one frame, which others may be in progress beside. JournalError: refused.

        UNSUPPORTED for a request of many frames, too, and for one that has many for its answer.
        """
        run = requests.RUN.get(type(request))
        if run is not None:
            answer = await self._run(run, request)
            if isinstance(request, m.ClaimRequest | m.ReleaseRequest):
                self._audit_claim(request)
            return encode(answer)
        match request:
            case m.OpenRequest():
                return encode(await self._open_volume(request))
            case m.PingRequest():
                return encode(m.PongAnswer(epoch=self.epoch, number=request.number, time_ms=self._with.time_ms()))
        raise _unsupported(type_code)

    async def _begin(self, type_code: int, request: m.Request | None) -> bool:
        match request:
            case m.ReadRequest():
                await self._read(request)
            case m.WriteOpenRequest():
                await self._begin_writing(request)
            case m.QuitRequest():
                await self._send(encode(m.ByeAnswer()))
                return False
            case m.HelloRequest() | m.FileData() | m.WriteCommitRequest() | m.WriteCancelRequest():
                raise ProtocolError(f"{type(request).__name__} where it does not belong")
            case _:
                await self._send(await self.reply(type_code, request))
        return True

    async def _run(self, run: requests.Run, request: m.Request | None) -> m.Answer:
        """A change that fails in no foreseen way may have left the volume, which all share, in any state."""
        volume = self._permitted(request)
        if requests.RIGHTS[type(request)] == (Right.READ,):
            return await run(volume, request)
        with changing_shared(f"{type(request).__name__} was worked on", foreseen=(JournalError,)):
            self._admit(volume, request)
            while volume.is_full or (isinstance(request, m.AppendRequest) and await volume.join(request.path)):
                await volume.wait_room()
                volume = self._permitted(request)  # tokens may have been read again meanwhile
            whose = self._grant.name if self._with.access.required else ""
            match request:
                case m.ClaimRequest():
                    return await requests.claim(volume, request, whose=whose)
                case m.PinRequest():
                    return await requests.pin(volume, request, whose=whose)
            return await run(volume, request)

    async def _read(self, request: m.ReadRequest) -> None:
        async with aclosing(outgoing(self._permitted(request), request)) as pieces:
            async for piece in pieces:
                self._check_right(Right.READ)  # tokens are read again while a slow peer takes a large file
                await self._send(piece)

    # ── streamed writes ───────────────────────────────────────────────────────────────────────────────────────────

    async def _begin_writing(self, request: m.WriteOpenRequest) -> None:
        self.writing = True
        self._file = IncomingFile(None)
        try:
            volume = self._permitted(request)
            self._admit(volume, request)
            self._file = IncomingFile(volume)
            await self._file.open(request)
        except JournalError as error:
            await self._refuse_early(error)

    async def _go_on_writing(self, request: m.Request | None) -> None:
        if not self._file.refused:
            try:
                self._check_right(Right.APPEND)  # as it is now: a write may be open for an hour
            except JournalError as error:
                await self._refuse_early(error)
        match request:
            case m.FileData():
                try:
                    await self._file.data(request)
                except JournalError as error:
                    await self._refuse_early(error)
            case m.WriteCommitRequest():
                try:
                    await self._wait_room_to_commit()
                except JournalError as error:
                    await self._refuse_early(error)
                self.writing = False
                with changing_shared("WRITE_COMMIT was worked on", foreseen=(JournalError, ProtocolError)):
                    answer = await self._file.commit(request)
                await self._answer_file(answer)
            case m.WriteCancelRequest():
                self.writing = False
                await self._answer_file(await self._file.cancel())
            case _:
                raise ProtocolError(f"{type(request).__name__} inside a streamed write")

    async def _wait_room_to_commit(self) -> None:
        """What is left of the file, and its commit, are then written at once, under the right that there is now."""
        while not self._file.refused and (volume := self._with.volumes.owned(self._volume)).is_full:
            await volume.wait_room()
            self._check_right(Right.APPEND)

    async def _answer_file(self, answer: m.Answer | None) -> None:
        if answer is not None:
            await self._send(encode(answer))

    async def _refuse_early(self, error: JournalError) -> None:
        await self._send(self.refusal(await self.confirmed(error)))
        await self._file.forget()

    # ── who may do what ───────────────────────────────────────────────────────────────────────────────────────────

    def _admit(self, volume: ServedVolume, request: Any) -> None:
        volume.admit(request.stamp.operation, self._grant.sha256)

    async def _open_volume(self, request: m.OpenRequest) -> m.OpenedAnswer:
        self._rights_to_open(request.volume)
        await self._with.volumes.settle(request.volume)
        rights = self._rights_to_open(request.volume)  # tokens may have been read again meanwhile
        volume = self._with.volumes.owned(request.volume)
        _check_epoch(volume, request.epoch_seen)
        self._volume, self._rights = request.volume, rights
        return m.OpenedAnswer(epoch=volume.epoch, volume=request.volume)

    def _rights_to_open(self, volume: str) -> frozenset[Right]:
        rights = self._rights_on(volume)
        if not rights:
            raise self._denied(volume, "any")
        return rights

    def _rights_on(self, volume: str) -> frozenset[Right]:
        return frozenset(right for right in Right if self._grant.allows(right, volume))

    async def confirmed(self, error: JournalError) -> JournalError:
        """Who has seen a newer epoch than the owner's may have been told a false one: then say so, or he stays away.

        Only the members know. What they say now is newer than whatever the client has seen.
        """
        seen = error.fields.get("epoch")
        if error.code is not JournalCode.NOT_OWNER or not isinstance(seen, int):
            return error
        try:
            volume = self._with.volumes.owned(str(error.fields.get("volume")))
        except JournalError:
            return error
        if volume.epoch < seen and await volume.is_still_owned():
            error.fields["owned"] = volume.epoch
        return error

    def _permitted(self, request: m.Request | None) -> ServedVolume:
        """The volume that the request is for, if its client may do that and this service may answer."""
        if not self._volume:
            raise journal_error(JournalCode.BAD_REQUEST, "no volume is open on this connection: send OPEN first")
        for right in requests.RIGHTS[type(request)]:
            self._check_right(right)
        volume = self._with.volumes.owned(self._volume)
        _check_epoch(volume, requests.epoch_seen(request))
        return volume

    def _check_right(self, right: Right) -> None:
        if right not in self._rights:
            raise self._denied(self._volume, right)

    def _denied(self, volume: str, right: str) -> JournalError:
        shown = volume[:_NAME_SHOWN]
        self._with.log.refused("denied", peer=self._peer, token=self._grant.name, volume=shown, right=right)
        return journal_error(
            JournalCode.DENIED,
            f"this token has no {right} right on volume {shown}",
            {"volume": shown, "right": right},
        )

    def _audit_claim(self, request: m.ClaimRequest | m.ReleaseRequest) -> None:
        claim = request.stamp.claim
        self._with.log.audit(
            "claim" if isinstance(request, m.ClaimRequest) else "release",
            peer=self._peer,
            token=self._grant.name,
            volume=self._volume,
            path=request.path,
            application=claim and claim.application,
            start_time=claim and claim.start_time,
        )


def _check_epoch(volume: ServedVolume, seen: int) -> None:
    if seen > volume.epoch:
        raise journal_error(
            JournalCode.NOT_OWNER,
            f"epoch {seen} of volume {volume.name} has been seen, this service has {volume.epoch}: ask a newer one",
            {"volume": volume.name, "address": None, "epoch": seen},
        )


def _unsupported(type_code: int) -> JournalError:
    return journal_error(
        JournalCode.UNSUPPORTED,
        f"this service does not know requests of type {type_code:#x}; it may be older than the client",
        {"type": type_code},
    )
