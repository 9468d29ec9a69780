"""What each request does: the right it needs, the call to the store, the answer. ``ANSWERS`` is the table of all.

A refusal is raised (RefusedError) and becomes the answer in ``session``. The two requests that move many bytes are only
begun here; see ``appending`` and ``reading``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from sos_client.serving.access import Right
from sos_client.serving.containment import changing_shared, concerns_all
from sos_client.wire import messages as m
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_client.wire.holders import shown_holder
from sos_client.wire.names import check_name
from sos_server.service.appending import AppendMode
from sos_server.service.reading import Reading
from sos_server.storage.contents import Claim

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from sos_server.service.session import Session
    from sos_server.store.namespace import Namespace

Answer = Callable[["Session", Any], Awaitable[None]]


class PeerLeftError(Exception):
    """The connection has ended; there is nobody to tell anything."""


async def use(session: Session, request: m.Use) -> None:
    """Enter a namespace: any right on it will do, but to create it takes the right to append."""
    name, grant = check_name(request.namespace), session.current_grant()
    if not grant.reaches(name):
        raise RefusedError(ErrorCode.DENIED, f"this token is not for namespace {name}", right="any", namespace=name)
    may_create = grant.allows(Right.APPEND, name)

    def still_allowed() -> None:
        if not session.current_grant().allows(Right.APPEND, name):
            raise RefusedError(ErrorCode.DENIED, right=str(Right.APPEND), namespace=name)

    try:
        with _changing("USE"):
            namespace = await session.service.store.namespace(
                name, create=request.create and may_create, still_allowed=still_allowed
            )
    except RefusedError as refusal:
        if refusal.code is ErrorCode.NOT_FOUND and request.create and not may_create:
            raise RefusedError(ErrorCode.DENIED, right=str(Right.APPEND), namespace=name) from refusal
        raise
    session.namespace = namespace
    claim = namespace.claim
    epoch, holder = (claim.epoch, session.told_holder(claim.holder)) if claim else (0, b"")
    await session.send(m.Using(incarnation=namespace.incarnation, epoch=epoch, holder=holder))


async def fence(session: Session, request: m.Fence) -> None:
    namespace = session.allowed(Right.FENCE)
    with _changing("FENCE"):
        claim = Claim(epoch=request.epoch, holder=request.holder)
        await namespace.fence(claim, still_allowed=partial(session.allowed, Right.FENCE))
    _audit(session, "FENCE", namespace, epoch=request.epoch, holder=shown_holder(request.holder))
    await session.send(m.Fenced(epoch=request.epoch))


async def append(session: Session, request: m.Append) -> None:
    namespace = session.allowed(Right.APPEND)
    check_name(request.object)
    service = session.service
    mode = AppendMode(
        session.connection,
        session.stream,
        session.outgoing,
        service.poller,
        service.traffic,
        service.held_frames,
    )
    session.mode = mode
    try:
        still_allowed = partial(session.allowed, Right.APPEND)
        if not await mode.run(namespace, request, _claim(request), session.instance, still_allowed):
            raise PeerLeftError
    finally:
        session.mode = None


async def seal(session: Session, request: m.Seal) -> None:
    namespace = session.allowed(Right.APPEND)
    with _changing("SEAL"):
        info = await namespace.seal(
            check_name(request.object),
            size=request.size,
            claim=_claim(request),
            still_allowed=partial(session.allowed, Right.APPEND),
        )
    _audit(session, "SEAL", namespace, object=request.object, size=info.size, epoch=request.epoch)
    await session.send(m.Sealed(size=info.size, crc=info.crc))


async def get(session: Session, request: m.Get) -> None:
    namespace = session.allowed(Right.READ)
    check_name(request.object)
    reading = Reading(namespace, request, session.connection, session.outgoing, session.service.share)
    session.mode = reading
    try:
        if request.follow:
            await _follow(session, reading)
        else:
            await _read(session, reading)
    finally:
        session.mode = None


async def _read(session: Session, reading: Reading) -> None:
    await reading.run(session.service.traffic, go_on=lambda: not session.ending)


async def _follow(session: Session, reading: Reading) -> None:
    """Read in this task, and meanwhile listen for PING and STOP in another. Whichever is over first ends the other."""
    failure: Exception | None = None

    async def listen() -> None:
        nonlocal failure
        try:
            await _listen(session)
        except RefusedError as verdict:
            failure = verdict
        except Exception as error:
            if concerns_all(error):
                raise
            failure = error
            nursery.cancel_scope.cancel()
        reading.stop()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        try:
            await _read(session, reading)
        except Exception as error:
            if concerns_all(error):
                raise
            failure = failure or error  # what the peer did goes before what could not be sent any more because of it
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _listen(session: Session) -> None:
    """Answer PING until STOP.

    When the answer is over first, the connection discards STOP, and what comes then is a request for the session.
    """
    while isinstance(message := await session.receive(), m.Ping):
        session.outgoing.offer(session.connection.send(m.Pong(n=message.n)))
        if session.outgoing.full:
            await session.outgoing.drained()
    if not isinstance(message, m.Stop):
        session.give_back(message)


async def stat(session: Session, request: m.Stat) -> None:
    await session.send(session.allowed(Right.READ).stat(check_name(request.object)))


async def list_objects(session: Session, request: m.List) -> None:
    """Of the namespace in use; before any USE the namespaces themselves, those that the token may enter."""
    if session.namespace is None:
        await _list_namespaces(session, request)
        return
    namespace = session.allowed(Right.READ)
    entries = namespace.list(request.after, request.limit + 1)
    await trio.lowlevel.checkpoint()  # a full page takes milliseconds: the others come first
    await session.send(m.Listing(entries=tuple(entries[: request.limit]), more=len(entries) > request.limit))


async def _list_namespaces(session: Session, request: m.List) -> None:
    service, grant = session.service, session.current_grant()
    found = service.store.namespaces_after(request.after, request.limit + 1, grant.reaches)
    now = service.wall_clock()
    entries = tuple(
        m.ObjectInfo(
            name=one.name,
            size=one.used_bytes,
            sealed=False,
            epoch=one.claim.epoch if one.claim is not None else 0,
            crc=0,
            server_time=now,
        )
        for one in found[: request.limit]
    )
    await trio.lowlevel.checkpoint()
    await session.send(m.Listing(entries=entries, more=len(found) > request.limit))


async def delete(session: Session, request: m.Delete) -> None:
    namespace = session.allowed(Right.DELETE)
    with _changing("DELETE"):
        await namespace.delete(check_name(request.object), claim=_claim(request))
    _audit(session, "DELETE", namespace, object=request.object, epoch=request.epoch)
    await session.send(m.Deleted())


async def ping(session: Session, request: m.Ping) -> None:
    await session.send(m.Pong(n=request.n))


async def unknown(_: Session, request: m.Unknown) -> None:
    raise RefusedError(ErrorCode.UNSUPPORTED, type=request.type_code)


def _changing(request: str) -> AbstractContextManager[None]:
    return changing_shared(f"{request} was worked on", foreseen=(RefusedError,))


def _claim(request: m.Append | m.Seal | m.Delete) -> Claim | None:
    return Claim(epoch=request.epoch, holder=request.holder) if request.holder or request.epoch else None


def _audit(session: Session, event: str, namespace: Namespace, **fields: object) -> None:
    """Of what was done, whatever has become of the token meanwhile."""
    token = session.grant.name if session.grant is not None else ""
    session.service.log.audit(event, peer=session.peer, token=token, namespace=namespace.name, **fields)


ANSWERS: Final[Mapping[type[m.Message], Answer]] = {
    m.Use: use,
    m.Fence: fence,
    m.Append: append,
    m.Seal: seal,
    m.Get: get,
    m.Stat: stat,
    m.List: list_objects,
    m.Delete: delete,
    m.Ping: ping,
    m.Unknown: unknown,
}
