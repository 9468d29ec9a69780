"""Mistakes in server and client, as data. Each is one that a careful person might make; the simulator must see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sos_client.append_stream import AppendStream
from sos_client.net.poller import Poller
from sos_client.wire import messages as m
from sos_client.wire.errors import ErrorCode, RefusedError
from sos_server.service.appending import AppendMode
from sos_server.service.outgoing import Outgoing
from sos_server.storage import log_format, recovery
from sos_server.storage.contents import Contents
from sos_server.storage.rows import Claimed, ObjectDeleted, ObjectSealed
from sos_server.store import starting
from sos_server.store.appender import Appender
from sos_server.store.catalog import Catalog
from sos_server.store.commit_log import CommitLog, refusal_for
from sos_server.store.copying import Copier
from sos_server.store.namespace import Namespace
from sos_server.store.object_store import ObjectStore
from tests.fakes.simulated_disk import SimulatedFile
from tests.simulation.planting import (
    PlantedBug,
    forgets_to_sync,
    forgets_to_sync_directory,
    replaced,
    sync_again_and_believe_it,
    sync_and_hope,
    together,
    wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sos_server.storage.contents import Claim
    from sos_server.storage.rows import Row
    from sos_server.store.log_files import LogFile
    from tests.simulation.planting import Plant, Right


def _nothing(*_: object, **__: object) -> None:
    """Does nothing where something should be done."""


async def _fence_without_eviction(namespace: Namespace, claim: Claim, **_: object) -> None:
    await namespace._store.commit(Claimed(namespace._stored.number, claim.epoch, claim.holder))


async def _fence_in_memory(namespace: Namespace, claim: Claim, **_: object) -> None:
    current = namespace._stored.claim
    if current is None or claim.epoch > current.epoch:
        namespace._stored.claim = claim


def _not_logged(kind: type[Row]) -> Plant:
    """Rows of this kind change memory and never reach the log."""

    async def commit(right: Right, store: ObjectStore, row: Row) -> None:
        if isinstance(row, kind):
            store.contents.apply(row)
        else:
            await right(store, row)

    return wrapped(ObjectStore, "commit", commit)


def _acknowledge_what_was_received(mode: AppendMode) -> None:
    appender = mode._appender
    if mode._acknowledging and appender is not None and not mode._outgoing.busy:
        mode._outgoing.offer(mode._connection.send(m.Ack(appender.written, appender.written)))


def _written_is_synced(right: Right, stream: AppendStream, written: int, synced: int) -> None:
    right(stream, written, max(written, synced))


def _info_of_what_was_received(right: Right, namespace: Namespace, stored: Any) -> m.ObjectInfo:
    info: m.ObjectInfo = right(namespace, stored)
    if not isinstance(stored.appender, Appender):
        return info
    fields = {name: getattr(info, name) for name in m.ObjectInfo.__slots__}
    return m.ObjectInfo(**{**fields, "size": stored.appender.written, "crc": stored.appender.crc})


def _any_generation(right: Right, log: memoryview, start: int, *, generation: int, nonce: bytes, number: Any) -> Any:
    """A recycled file's old batches pass for new ones."""
    found = log_format._batch_header_at(log, start)
    if found is not None and 0 < found.generation < generation and found.number == number:
        generation, nonce = found.generation, found.nonce
    return right(log, start, generation=generation, nonce=nonce, number=number)


def _any_nonce(right: Right, log: memoryview, start: int, *, generation: int, nonce: bytes, number: Any) -> Any:
    found = log_format._batch_header_at(log, start)
    return right(log, start, generation=generation, nonce=found.nonce if found else nonce, number=number)


async def _as_the_holder(right: Right, namespace: Namespace, name: str, *, claim: Claim | None, **fields: Any) -> Any:
    """What anybody asks for is done as if the holder of the claim had."""
    return await right(namespace, name, claim=namespace.claim, **fields)


async def _grant_again(right: Right, namespace: Namespace, claim: Claim, **_: object) -> None:
    """An epoch that is not less than the granted one is good enough."""
    current = namespace._stored.claim
    if current is not None and claim.epoch == current.epoch:
        await namespace._store.commit(Claimed(namespace._stored.number, claim.epoch, claim.holder))
    else:
        await right(namespace, claim)


def _no_back_links(right: Right, *args: Any, **named: Any) -> recovery.LogChain:
    chain = right(*args, **named)
    return recovery.LogChain([recovery.Generation(found.header, None) for found in chain.generations], chain.reports)


def _crc_not_compared(right: Right, stream: AppendStream, size: int, crc: int) -> None:
    own = stream._unsynced.crc_at(size) if stream._unsynced.start <= size <= stream._unsynced.end else None
    right(stream, size, crc if own is None else own)


def _prefix_not_compared(right: Right, namespace: Namespace, stored: object, size: int, prefix_crc: int | None) -> None:
    right(namespace, stored, size, None if prefix_crc is not None else prefix_crc)


async def _no_waiting_for_the_predecessor(namespace: Namespace, stored: Any, instance: bytes | None) -> None:
    if isinstance(stored.appender, Appender):
        stored.appender.evict(RefusedError(ErrorCode.BUSY, object=stored.name))


async def _free_logs_before_copying(right: Right, copier: Copier, bytes_max: int) -> bool:
    logs = copier._oldest(bytes_max)
    if logs:
        await copier._checkpoint(logs)
    return bool(logs)


async def _begin_replay_without_writing_again(log: LogFile, generation: recovery.Generation, replay: Any) -> None:
    content = memoryview(await log.file.read(0, log.file_bytes))
    scan = replay.scan(content, generation)
    log.generation, log.nonce = generation.header.generation, generation.header.nonce
    log.used, log.ended = scan.end, True


async def _end_without_waiting(appender: Appender) -> None:
    appender.synced = appender.written
    appender.abandon()


def _forget_what_was_left(right: Right, mode: AppendMode, data: Any) -> None:
    right(mode, data)
    mode._left_behind = False


async def _look_after_waiting(right: Right, mode: AppendMode, appender: Appender) -> None:
    await right(mode, appender)
    mode._left_behind = True


def _take_short_sends_for_whole(right: Right, outgoing: Outgoing, frames: bytes) -> int:
    right(outgoing, frames)
    return len(frames)


def _hold_without_waking(log: CommitLog) -> None:
    log._held = False
    if log.gathering.directory:
        log._commit_on_the_spot()


def _new_identity(right: Right, disk: Any, random_bytes: Callable[[int], bytes]) -> Any:
    async def made_anew() -> bytes:
        await right(disk, random_bytes)
        return random_bytes(16)

    return made_anew()


SERVER_BUGS: Final = (
    PlantedBug(
        name="acknowledge before the sync",
        breaks="the commit log is written and acknowledged, never fdatasync'ed",
        plant=forgets_to_sync("log/"),
    ),
    PlantedBug(
        name="sync again after a failed sync",
        breaks="a sync that fails is tried once more, and the second answer is believed",
        plant=wrapped(SimulatedFile, "sync", sync_again_and_believe_it),
    ),
    PlantedBug(
        name="ignore a failed sync",
        breaks="EIO of fdatasync is swallowed",
        plant=wrapped(SimulatedFile, "sync", sync_and_hope),
    ),
    PlantedBug(
        name="no directory sync for log files",
        breaks="a new log file's name is not durable when its first batch is acknowledged",
        plant=forgets_to_sync_directory("log"),
    ),
    PlantedBug(
        name="no directory sync for objects",
        breaks="a log file is written over while the object files it was copied to have no durable name",
        plant=forgets_to_sync_directory("objects"),
    ),
    PlantedBug(
        name="no directory sync for the catalog",
        breaks="the catalog's new file has no durable name when the logs it replaces are written over",
        plant=forgets_to_sync_directory("catalog"),
    ),
    PlantedBug(
        name="no directory sync for the root",
        breaks="the names of identity, log, catalog and objects are not durable",
        plant=forgets_to_sync_directory("/"),
    ),
    PlantedBug(
        name="object files not synced",
        breaks="a log file is written over while what was copied from it is in the page cache only",
        plant=forgets_to_sync("objects/"),
    ),
    PlantedBug(
        name="catalog not synced",
        breaks="logs are written over while the checkpoint that allows it is in the page cache only",
        plant=forgets_to_sync("catalog/"),
    ),
    PlantedBug(
        name="logs freed without copying",
        breaks="the checkpoint says that logs are copied; they are not",
        plant=wrapped(Copier, "_copy", _free_logs_before_copying),
    ),
    PlantedBug(
        name="recycled generation ignored",
        breaks="recovery takes an earlier generation's batches in a recycled log file for new ones",
        plant=wrapped(log_format, "read_batch", _any_generation),
    ),
    PlantedBug(
        name="no nonce compared",
        breaks="recovery takes for a batch what a client wrote, if only its generation is right",
        plant=wrapped(log_format, "read_batch", _any_nonce),
    ),
    PlantedBug(
        name="copier skips what it cannot read",
        breaks="a batch that is damaged in the log of a running server is passed over, and the log freed",
        plant=replaced(Copier, "_add_known", lambda *_: iter(())),
    ),
    PlantedBug(
        name="back-link ignored",
        breaks="recovery takes batches after the end that the next generation's header states",
        plant=wrapped(starting, "chain_of", _no_back_links),
    ),
    PlantedBug(
        name="start rests on the page cache: log",
        breaks="a start does not write the newest log's header and last batch again",
        plant=replaced(starting, "_replay", _begin_replay_without_writing_again),
    ),
    PlantedBug(
        name="start rests on the page cache: catalog",
        breaks="a start does not write the catalog again that it found",
        plant=replaced(Catalog, "settle", lambda _: _done()),
    ),
    PlantedBug(
        name="ignore the claim",
        breaks="requests are taken whatever claim they name",
        plant=replaced(Namespace, "_check_claim", _nothing),
    ),
    PlantedBug(
        name="SEAL and DELETE whatever the claim",
        breaks="an owner that was replaced may still seal and delete",
        plant=together(wrapped(Namespace, "seal", _as_the_holder), wrapped(Namespace, "delete", _as_the_holder)),
    ),
    PlantedBug(
        name="one epoch, two holders",
        breaks="FENCE with the epoch that somebody else has is granted",
        plant=wrapped(Namespace, "fence", _grant_again),
    ),
    PlantedBug(
        name="fence without eviction",
        breaks="FENCE leaves the appenders before it alone",
        plant=replaced(Namespace, "fence", _fence_without_eviction),
    ),
    PlantedBug(
        name="fence in memory",
        breaks="a claim is granted before it is durable",
        plant=replaced(Namespace, "fence", _fence_in_memory),
    ),
    PlantedBug(
        name="predecessor's bytes not waited for",
        breaks="a new append begins while bytes of the one before are on their way to the disk",
        plant=replaced(Namespace, "_displace", _no_waiting_for_the_predecessor),
    ),
    PlantedBug(
        name="prefix CRC not compared by the server",
        breaks="APPEND looks at the size only, so it joins two pasts of the same length",
        plant=wrapped(Namespace, "_check_appendable", _prefix_not_compared),
        seeds_max=800,  # two clients have to write pasts of the same length
    ),
    PlantedBug(
        name="prefix CRC not compared by the client",
        breaks="a resumed append goes on wherever the server's object ends",
        plant=together(
            wrapped(AppendStream, "_go_on_from", _crc_not_compared),
            wrapped(Namespace, "_check_appendable", _prefix_not_compared),
        ),
        seeds_max=800,
    ),
    PlantedBug(
        name="received counts as synced: server",
        breaks="ACK says of received bytes that they are synced",
        plant=replaced(AppendMode, "_on_progress", _acknowledge_what_was_received),
    ),
    PlantedBug(
        name="received counts as synced: client",
        breaks="the client takes `written` for `synced`",
        plant=wrapped(AppendStream, "_acknowledge", _written_is_synced),
    ),
    PlantedBug(
        name="STAT shows what is not synced",
        breaks="size and CRC of STAT and LIST include bytes that a power cut takes back",
        plant=wrapped(Namespace, "_info", _info_of_what_was_received),
    ),
    PlantedBug(
        name="END answered before the sync",
        breaks="END is answered when everything is received",
        plant=replaced(Appender, "end", _end_without_waiting),
    ),
    PlantedBug(
        name="seal in memory",
        breaks="a seal is acknowledged and never logged",
        plant=_not_logged(ObjectSealed),
    ),
    PlantedBug(
        name="delete in memory",
        breaks="a deletion is acknowledged and never logged",
        plant=_not_logged(ObjectDeleted),
    ),
    PlantedBug(
        name="new identity at each start",
        breaks="the server forgets who it is",
        plant=wrapped(starting, "_identity", _new_identity),
    ),
    PlantedBug(
        name="object numbers used again",
        breaks="a start gives numbers to new objects that old ones have",
        plant=replaced(Contents, "take_number", lambda contents: len(contents.objects) + 2),
    ),
    PlantedBug(
        name="failed batch forgotten silently",
        breaks="appenders are not told that a batch was lost, and go on after the gap",
        plant=replaced(ObjectStore, "failed", _nothing),
    ),
    PlantedBug(
        name="log goes on after a failed write",
        breaks="after a failed write the next batch goes into the same file",
        plant=replaced(CommitLog, "_fail", lambda log, error: _refuse_and_go_on(log, error)),
    ),
    PlantedBug(
        name="frames left by a full batch forgotten",
        breaks="whole frames stay unread when a batch fills in the middle of a receive, and has room again at once",
        plant=together(
            wrapped(AppendMode, "_consume", _forget_what_was_left),
            wrapped(AppendMode, "_wait_room", _look_after_waiting),
        ),
    ),
    PlantedBug(
        name="short send dropped: server",
        breaks="what the kernel does not take at once of an answer is not sent",
        plant=wrapped(Outgoing, "_send_now", _take_short_sends_for_whole),
    ),
    PlantedBug(
        name="a round waits for the next",
        breaks="what a round of the poller put in is not committed when the disk is slow, until another one ends",
        plant=replaced(CommitLog, "commit_held", _hold_without_waking),
        seeds_max=800,
    ),
    PlantedBug(
        name="an ACK after an answer forgotten",
        breaks="an ACK that found the peer slow to take bytes is not sent when it has taken them",
        plant=replaced(AppendMode, "_on_idle", _nothing),
    ),
    PlantedBug(
        name="callback called after its socket has left",
        breaks="the poller leaves a closed connection's callback where it was",
        plant=replaced(Poller, "unregister", _nothing),
    ),
)


async def _done() -> None:
    pass


async def _refuse_and_go_on(log: CommitLog, error: OSError) -> None:
    log._refuse_all(refusal_for(error))
    current = log.files.current
    if current is not None:
        current.ended = current.failed = False
        current.batches += 1
