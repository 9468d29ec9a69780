"""Mistakes in journal and service, as data: rules of replication, takeover, answers and reads, each broken once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from journal.copies import volume_reader
from journal.copies.member_filling import Filling
from journal.errors import SupersededError
from journal.gateway.client.client import RemoteVolume
from journal.gateway.client.retry_state import RetryState
from journal.gateway.put_lane import PutLane
from journal.gateway.shared_talk import SharedTalk
from journal.image import preconditions
from journal.image.index_snapshot import SnapshotName, parse_snapshot_name
from journal.image.operation_window import OperationWindow
from journal.owner import content, replica_progress
from journal.owner.acknowledgement import Acknowledgement
from journal.owner.housekeeping import Housekeeping
from journal.owner.journal import Journal
from journal.owner.quick_puts import QuickPuts
from journal.owner.replica import Replica
from journal.owner.replica_progress import ReplicaProgress, Standing
from journal.records.timekeeping import Timekeeper
from journal.takeover import chain_end, membership_change, rules
from journal.takeover import driver as opening
from journal.takeover.driver import _Driver
from journal.takeover.messages import FenceMember, Granted
from journal.takeover.takeover import Takeover
from journal.volume import OpenedFile
from sos_client.append_stream import AppendStream
from sos_server.store.appender import Appender
from sos_server.store.namespace import Namespace
from tests.simulation.planting import PlantedBug, forgets_to_sync, replaced, together, wrapped

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

    from journal.copies.copies import Copy
    from journal.image.image import Image
    from journal.records.chain_rules import SegmentFacts
    from journal.records.membership import Configuration, Member
    from journal.volume import OperationId
    from sos_client.client import SosClient
    from tests.simulation.planting import Right


def _nothing(*_: object, **__: object) -> None:
    """Does nothing where something should be done."""


async def _no_waiting(*_: object) -> None:
    """Answers at once."""


async def _no_waiting_at_all(*_: object, **__: object) -> None:
    """Does nothing, and says that it is done."""


def _told_on_receipt(right: Right, appender: Appender, *args: Any) -> None:
    """Not wrong: a server may say what it has received before that is synced. It makes the mistake below matter."""
    right(appender, *args)
    appender._on_progress()


def _written_is_synced(right: Right, stream: AppendStream, written: int, synced: int) -> None:
    right(stream, written, max(written, synced))


def _decide_by_what_is_shown(
    right: Right, journal: Journal, check: Callable[[], Any], *args: Any, **options: Any
) -> Any:
    def checked() -> object:
        pending, journal.pending = journal.pending, journal.acknowledged
        try:
            return check()
        finally:
            journal.pending = pending

    return right(journal, checked, *args, **options)


async def _read_what_is_pending(
    right: Right, journal: Journal, path: str, offset: int = 0, length: int | None = None
) -> AsyncGenerator[bytes, None]:
    del right, offset, length
    for extent in journal.pending.tree.extents(path):
        yield await journal.content.extent(extent)


async def _open_what_is_pending(
    right: Right, journal: Journal, path: str, offset: int = 0, length: int | None = None
) -> OpenedFile:
    status = journal.pending.tree.stat(path)
    return OpenedFile(status, _read_what_is_pending(right, journal, path, offset, length))


async def _stat_what_is_pending(right: Right, journal: Journal, path: str) -> Any:
    acknowledged, journal.acknowledged = journal.acknowledged, journal.pending
    try:
        return journal.acknowledged.tree.stat(path)
    finally:
        journal.acknowledged = acknowledged


async def _image_without_operations(right: Right, *args: Any) -> Image:
    image: Image = await right(*args)
    image.operations = OperationWindow()
    return image


async def _assemble_from_one(
    right: Right, facts: frozenset[SegmentFacts], copies: Sequence[Copy], local: Copy | None, **named: Any
) -> Any:
    del local
    return await right(facts, copies[:1], None, **named)


def _granted_without_asking(right: Right, driver: _Driver, request: Any, client: SosClient) -> Any:
    if isinstance(request, FenceMember):

        async def granted() -> Granted:
            return Granted(member=request.member)

        return granted()
    return right(driver, request, client)


def _surely_not_done(right: Right, persistence: RetryState, seconds: float) -> Any:
    persistence._maybe_done = persistence._unanswered = False
    return right(persistence, seconds)


def _always(*_: object, **__: object) -> bool:
    return True


def _never(*_: object, **__: object) -> bool:
    return False


def _stamp_anew(right: Right, volume: RemoteVolume, operation: OperationId, claim: Any) -> Any:
    return right(volume, volume.new_operation() if operation else operation, claim)


def _oldest(state: Takeover) -> frozenset[SegmentFacts]:
    facts = frozenset(one for told in state.reads if told.member not in state._out for one in told.facts)
    epochs = sorted({one.epoch for one in facts})
    return frozenset(one for one in facts if one.epoch < epochs[-1]) if len(epochs) > 1 else facts


def _wall_clock_alone(_keeper: Timekeeper, wall_ms: int, *_: object) -> int:
    return wall_ms


def _nobody_pins(house: Housekeeping) -> int:
    return house._log.end


def _one_less(right: Right, old: Configuration, member: Member) -> Configuration:
    configuration: Configuration = right(old, member)
    if configuration.acknowledgements > 1:
        object.__setattr__(configuration, "acknowledgements", configuration.acknowledgements - 1)
    return configuration


def _answer_now(_waiting: Acknowledgement, _lsn: int, answered: Callable[[object], None], answer: object) -> None:
    answered(answer)


async def _fill_newest_alone(right: Right, replica: Replica, filling: Filling) -> Any:
    links = replica._log.links
    try:
        replica._log.links = links[-1:]
        return await right(replica, filling)
    finally:
        if replica._log.links == links[-1:]:
            replica._log.links = links


def _whatever_the_chain(names: Iterable[str], _boundaries: object, *, lsn: int) -> list[SnapshotName]:
    parsed = (parse_snapshot_name(name) for name in names)
    return sorted((one for one in parsed if one and one.lsn <= lsn), key=lambda one: (one.lsn, one.epoch), reverse=True)


def _all_answers(right: Right, window: OperationWindow, until_ms: int | None = None) -> Any:
    del until_ms
    return right(window)


def _never_expired(right: Right, window: OperationWindow, operation: OperationId) -> Any:
    try:
        return right(window, operation)
    except SupersededError:
        return None


def _doubt_at_the_fence_alone(progress: ReplicaProgress) -> bool:
    fenced = any(one.standing is Standing.REMOVED for one in progress.members.values())
    return fenced and not progress.has_quorum()


def _answer_twice(right: Right, lane: PutLane, epoch: int, answer: Any) -> None:
    right(lane, epoch, answer)
    right(lane, epoch, answer)


def _somebody_elses(right: Right, talk: SharedTalk, tag: int, frame: bytes) -> None:
    others = [other for other in talk._tags if other != tag]
    whose = min(others, default=tag)
    right(talk, whose, frame[:5] + whose.to_bytes(4) + frame[9:])


def _age_by_wall_clock(keeper: Timekeeper, wall_ms: int, _monotonic_ms: int) -> int:
    return max(wall_ms, keeper.last_ms)


SNAPSHOT_READERS: Final = (volume_reader, chain_end, membership_change)

JOURNAL_BUGS: Final = (
    PlantedBug(
        name="PUT lane answers twice",
        breaks="the callback of a PUT on a plain socket is called twice",
        plant=wrapped(PutLane, "_answered", _answer_twice),
    ),
    PlantedBug(
        name="an answer for another task",
        breaks="an answer on a shared connection has the tag of another request",
        plant=wrapped(SharedTalk, "_answer", _somebody_elses),
    ),
    PlantedBug(
        name="one member is enough",
        breaks="a record counts as acknowledged when one member has synced it",
        plant=replaced(replica_progress, "needed", lambda _: 1),
    ),
    PlantedBug(
        name="no waiting for the quorum",
        breaks="an operation is answered when its record is written",
        plant=replaced(Acknowledgement, "wait", _no_waiting),
    ),
    PlantedBug(
        name="received counts as synced",
        breaks="replication counts bytes that a member has received and not synced",
        plant=together(
            wrapped(Appender, "_took", _told_on_receipt), wrapped(AppendStream, "_acknowledge", _written_is_synced)
        ),
        seeds_max=800,  # what is received is synced soon, by a disk that is quick half of the time on the spot
    ),
    PlantedBug(
        name="members do not sync",
        breaks="the servers' commit logs are never fdatasync'ed",
        plant=forgets_to_sync("log/"),
    ),
    PlantedBug(
        name="takeover without fences",
        breaks="a new owner reads and writes without claiming the members first",
        plant=wrapped(_Driver, "_ask", _granted_without_asking),
    ),
    PlantedBug(
        name="takeover reads one copy",
        breaks="the chain's end is assembled from one member's copy",
        plant=wrapped(opening, "assemble", _assemble_from_one),
    ),
    PlantedBug(
        name="epoch not raised",
        breaks="a takeover uses the highest epoch it has seen",
        plant=replaced(rules, "next_epoch", lambda state: state.highest),
    ),
    PlantedBug(
        name="an older chain is chosen",
        breaks="headers of the newest epoch are left out when the chain is chosen",
        plant=replaced(Takeover, "chain_facts", property(_oldest)),
    ),
    PlantedBug(
        name="operation ids forgotten",
        breaks="an operation that is sent again is run again",
        plant=replaced(OperationWindow, "find", _nothing),
    ),
    PlantedBug(
        name="operation ids not taken over",
        breaks="a new owner does not know which operations the one before has answered",
        plant=wrapped(opening, "image_of", _image_without_operations),
    ),
    PlantedBug(
        name="a new operation id for each attempt",
        breaks="the client repeats an operation under another id",
        plant=wrapped(RemoteVolume, "_stamp", _stamp_anew),
    ),
    PlantedBug(
        name="preconditions look at what is shown",
        breaks="two creations of one file that wait together both succeed",
        plant=together(
            wrapped(Journal, "_decide", _decide_by_what_is_shown),
            replaced(QuickPuts, "put_soon", lambda *_: False),  # so that PUTs go there, too
        ),
    ),
    PlantedBug(
        name="no preconditions",
        breaks="a file is created over another one",
        plant=replaced(preconditions, "check_write", _nothing),
    ),
    PlantedBug(
        name="rename without preconditions",
        breaks="a file is renamed over another one",
        plant=replaced(preconditions, "check_rename", _always),
    ),
    PlantedBug(
        name="maybe is no",
        breaks="a client that got no answer in time says that nothing was changed",
        plant=wrapped(RetryState, "out_of_time", _surely_not_done),
    ),
    PlantedBug(
        name="servers ignore the claim",
        breaks="members take records from an owner that was replaced",
        seeds_max=400,  # it takes what an owner sends between two segments
        plant=replaced(Namespace, "_check_claim", _nothing),
    ),
    PlantedBug(
        name="what is pending is shown",
        breaks="readers see files whose records are not acknowledged",
        plant=together(
            wrapped(Journal, "read", _read_what_is_pending),
            wrapped(Journal, "open_read", _open_what_is_pending),
            wrapped(Journal, "stat", _stat_what_is_pending),
        ),
    ),
    PlantedBug(
        name="local bytes not checked",
        breaks="what the local copy has is served without comparing its CRC",
        plant=replaced(content, "is_whole", lambda extent, data: len(data) == extent.length),
    ),
    PlantedBug(
        name="wall clock without max()",
        breaks="a record's time is what the wall clock says, also when that was set back",
        plant=replaced(Timekeeper, "next_ms", _wall_clock_alone),
    ),
    PlantedBug(
        name="pins ignored",
        breaks="the past is forgotten although a pin keeps it",
        plant=replaced(Housekeeping, "_pinned", _nobody_pins),
    ),
    PlantedBug(
        name="trim across a clock jump",
        breaks="the past grows old by the wall clock, also when somebody sets that",
        plant=replaced(Timekeeper, "lived_ms", _age_by_wall_clock),
        seeds_max=800,  # of volumes that keep a minute, few meet a jump while enough is written after it
    ),
    PlantedBug(
        name="PUT lane answers at once",
        breaks="a PUT that is answered by a callback does not wait for the quorum",
        plant=replaced(Acknowledgement, "call_back", _answer_now),
    ),
    PlantedBug(
        name="k - 1 after a removal",
        breaks="a volume that loses a member by an operator's wish acknowledges with one member less than a majority",
        plant=wrapped(membership_change, "without_member", _one_less),
    ),
    PlantedBug(
        name="a member that counts without older segments",
        breaks="a member that was away is given the newest segment only, and counts",
        plant=wrapped(Replica, "_fill", _fill_newest_alone),
    ),
    PlantedBug(
        name="a member that counts without the index snapshot",
        breaks="a member that is filled is not given the snapshot that stands for what was trimmed, and counts",
        plant=replaced(Filling, "snapshot", _no_waiting_at_all),
    ),
    PlantedBug(
        name="a snapshot with later answers",
        breaks="an index snapshot has answers of operations whose records come after it",
        plant=wrapped(OperationWindow, "copy", _all_answers),
    ),
    PlantedBug(
        name="a snapshot off the chain",
        breaks="an index snapshot of a past that was given up stands for the volume's",
        plant=together(*(replaced(user, "snapshots_on_chain", _whatever_the_chain) for user in SNAPSHOT_READERS)),
        seeds_max=800,  # it takes a crash between two records, and a past that is given up then
    ),
    PlantedBug(
        name="an expired id that is run again",
        breaks="an operation whose answer is not kept any more is taken for a new one",
        plant=wrapped(OperationWindow, "find", _never_expired),
    ),
    PlantedBug(
        name="must_stop looks only at the moment of a fence",
        breaks="an owner that is fenced by some members, and loses one of the others later, waits for ever",
        plant=together(
            replaced(ReplicaProgress, "must_stop", _doubt_at_the_fence_alone),
            replaced(ReplicaProgress, "is_in_doubt", _never),
        ),
    ),
)
