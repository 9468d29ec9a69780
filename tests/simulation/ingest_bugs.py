"""Mistakes in listener and ingest volume, as data: rules of acknowledging, order and possession, each broken once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from connectors.ingest import recovery
from connectors.ingest.ingest_log import IngestLog
from connectors.ingest.known_streams import KnownStreams
from connectors.listener.active_streams import ActiveStreams
from connectors.listener.source_session import SourceSession
from connectors.wire import session as wire_session
from connectors.wire.frames import AckFrame
from tests.simulation.planting import PlantedBug, replaced, together, wrapped

if TYPE_CHECKING:
    from connectors.ingest.intake import IntakeShare
    from connectors.wire.frames import Frame, MessageFrame, NotifyFrame
    from connectors.wire.message_run import MessageRun
    from tests.simulation.planting import Right


def _nothing(*_: object, **__: object) -> None:
    """Does nothing where something should be done."""


async def _told_before(right: Right, log: IngestLog) -> None:
    log.intake.settle(log.durable)
    log.intake._shares = {sender: type(share)() for sender, share in log.intake._shares.items()}
    await right(log)


def _answer_at_once(session: SourceSession, frame: Frame) -> None:
    session._answers_waiting += 1
    session._due.answers.append(frame)
    session._something_due.set()


def _one_too_many(right: Right, splitter: Any, points: dict[int, int], **named: Any) -> MessageRun | None:
    lower = {stream_id: point - 1 for stream_id, point in points.items()}
    run: MessageRun | None = right(splitter, lower, **named)
    if run is not None:
        points.update(run.points)
    return run


def _taken_again(right: Right, session: SourceSession, frame: MessageFrame) -> None:
    session._log.accepted.points[frame.stream_id] -= 1
    right(session, frame)
    points = session._log.accepted.points
    points[frame.stream_id] = max(points[frame.stream_id], session._session.streams.open_points[frame.stream_id])


async def _one_number_twice(right: Right, log: IngestLog) -> None:
    await right(log)
    log.next_sequence -= log.next_sequence > 0


async def _one_number_left_out(right: Right, log: IngestLog) -> None:
    await right(log)
    log.next_sequence += 1


def _anybody(_active: ActiveStreams[Any], _stream_id: int, owner: Any) -> Any:
    return owner


def _goes_on(session: SourceSession, reason: str) -> None:
    """The stream is given to another connection; the one before goes on sending."""
    if not reason:
        session._over = True
        session._scope.cancel()


def _from_the_start(right: Right, session: SourceSession, frame: NotifyFrame) -> None:
    if frame.stream_id in session._log.accepted.points:
        session._log.accepted.points[frame.stream_id] = -1
    right(session, frame)


def _what_is_durable(right: Right, session: SourceSession, frame: NotifyFrame) -> None:
    log = session._log
    accepted = log.accepted.points.get(frame.stream_id)
    if accepted is not None:
        log.accepted.points[frame.stream_id] = log.durable.points.get(frame.stream_id, -1)
    right(session, frame)


def _credits_twice(right: Right, session: SourceSession, run: MessageRun) -> None:
    right(session, run)
    session._log.intake.share_of(session).credits += run.frames - run.taken


def _a_bit_ahead(right: Right, session: SourceSession, share: IntakeShare) -> None:
    share.points = {stream_id: session._log.accepted.points[stream_id] + 1 for stream_id in share.points}
    right(session, share)


def _end_at_once(right: Right, session: SourceSession, frame: Frame) -> None:
    if isinstance(frame, AckFrame):
        _answer_at_once(session, frame)
    else:
        right(session, frame)


INGEST_BUGS: Final = (
    PlantedBug(
        name="acknowledged before durable",
        breaks="sources are told that their messages are durable before they are written",
        plant=wrapped(IngestLog, "_commit", _told_before),
    ),
    PlantedBug(
        name="NOTIFY answered at once",
        breaks="a source is told a point of reference that is not durable yet",
        plant=replaced(SourceSession, "_answer", _answer_at_once),
    ),
    PlantedBug(
        name="EOS acknowledged at once",
        breaks="the end of a stream is acknowledged with a point of reference that is not durable yet",
        plant=wrapped(SourceSession, "_answer", _end_at_once),
        seeds_max=400,
    ),
    PlantedBug(
        name="dedup wrong by one, in runs",
        breaks="the last message of a stream is taken once more, where many messages are looked at together",
        plant=wrapped(wire_session, "cut_messages", _one_too_many),
    ),
    PlantedBug(
        name="dedup wrong by one, alone",
        breaks="the last message of a stream is taken once more, where a message lay in two receives",
        plant=wrapped(SourceSession, "_take_message", _taken_again),
    ),
    PlantedBug(
        name="snapshot without the tail",
        breaks="a new listener's table of streams is that of the newest file of streams, without what came after it",
        plant=replaced(recovery, "replay", _nothing),
    ),
    PlantedBug(
        name="a sequence number twice",
        breaks="a new listener gives the last sequence number once more",
        plant=wrapped(IngestLog, "open", _one_number_twice),
    ),
    PlantedBug(
        name="a sequence number left out",
        breaks="a new listener leaves a sequence number out",
        plant=wrapped(IngestLog, "open", _one_number_left_out),
    ),
    PlantedBug(
        name="two owners of a stream",
        breaks="a stream is given to whoever asks",
        plant=replaced(ActiveStreams, "take", _anybody),
    ),
    PlantedBug(
        name="who lost a stream goes on",
        breaks="a connection whose stream was given to the next one of the same program is still listened to",
        plant=replaced(SourceSession, "drop", _goes_on),
        seeds_max=800,
    ),
    PlantedBug(
        name="a stream that is opened again starts at nothing",
        breaks="the point of reference goes back to nothing with each NOTIFY",
        plant=wrapped(SourceSession, "_open_stream", _from_the_start),
    ),
    PlantedBug(
        name="points of reference go back",
        breaks="NOTIFY is answered with what is durable, though more has come",
        plant=wrapped(SourceSession, "_open_stream", _what_is_durable),
    ),
    PlantedBug(
        name="a credit counted twice",
        breaks="a message that was here before gives its credit back twice",
        plant=wrapped(SourceSession, "_take_run", _credits_twice),
    ),
    PlantedBug(
        name="acknowledged what was not sent",
        breaks="an acknowledgement names the message after the last one",
        plant=wrapped(SourceSession, "durable", _a_bit_ahead),
    ),
    PlantedBug(
        name="streams forgotten",
        breaks="a file of streams that is written has no points of reference",
        plant=together(replaced(KnownStreams, "point_of_reference", lambda *_: (1 << 64) - 1)),
    ),
)
