"""Deliberate mistakes in the running programs, each of which the crash test must catch; the proof that it can fail.

python -m tests.chaos.connectors.planted NAME MODULE ARGUMENT...     runs a module of the project with the mistake
"""

from __future__ import annotations

import dataclasses
import runpy
import sys
from collections.abc import Callable  # noqa: TC003 - a table's type
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import trio

from tests.chaos.connectors.events import ConnectorEvent
from tests.chaos.planted import change_java
from tests.chaos.stage import Variant

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from connectors.ingest.ingest_log import IngestLog
    from connectors.relay.batch_rows import BatchRows
    from connectors.relay.coordinator import Command, Coordinator, Decide
    from connectors.relay.manifest import BatchManifest
    from connectors.relay.query_relay import QueryRelay
    from connectors.relay.staged_rows import StagedRun
    from connectors.wire.frames import Frame
    from journal.volume import PathClaim

DRIVER: Final = "tests.chaos.connectors.drive"
LATE_SECONDS: Final = 0.3
"""How much later comes what should have come first, so that kills hit the time between."""
_HEALTHY: Final = ":healthy"


def _no_burden(module: str) -> None:
    del module


def _acknowledge_before_durable(module: str) -> None:
    if module != "connectors":
        return
    from connectors.ingest.ingest_log import IngestLog
    from connectors.ingest.intake import Intake

    settle, commit = Intake.settle, IngestLog._commit

    async def hasty(self: IngestLog) -> None:
        settle(self.intake, self.durable)
        await trio.sleep(LATE_SECONDS)
        await commit(self)

    IngestLog._commit = hasty  # type: ignore[method-assign]
    Intake.settle = lambda *_: None  # type: ignore[method-assign]


def _decide_after_phase_2(module: str) -> None:
    if module != "connectors":
        return
    from connectors.relay.query_relay import QueryRelay

    async def hasty(self: QueryRelay, decide: Decide) -> None:
        self._obey(self._coordinator.decided())
        await trio.sleep(LATE_SECONDS)
        await self.decisions.commit(
            transaction=decide.transaction, batch=decide.batch, ends=decide.ends, rows=self._row_count
        )

    QueryRelay._decide = hasty  # type: ignore[method-assign]


def _tell_late(module: str) -> None:
    """Between the durable decision and phase 2 some time passes."""
    if module != "connectors":
        return
    from connectors.relay.decision_log import DecisionLog

    commit = DecisionLog.commit

    async def late(self: DecisionLog, **decision: Any) -> None:
        await commit(self, **decision)
        await trio.sleep(LATE_SECONDS)

    DecisionLog.commit = late  # type: ignore[method-assign]


def _forget_phase_2(module: str) -> None:
    if module != "connectors":
        return
    from connectors.relay.coordinator import Coordinator

    listed = Coordinator.listed

    def forgetful(self: Coordinator, sink: int, tag: int, transactions: Sequence[str]) -> list[Command]:
        known = [name for name in transactions if name == self.transaction or name not in self._commits]
        return listed(self, sink, tag, known)

    Coordinator.listed = forgetful  # type: ignore[method-assign, assignment]


def _change_transaction_ids(module: str) -> None:
    if module != "connectors":
        return
    from connectors.relay.coordinator import Coordinator

    begin = Coordinator.__init__

    def renamed(self: Coordinator, query: str, **named: Any) -> None:
        begin(self, f"{query}-{named['generation']}", **named)

    Coordinator.__init__ = renamed  # type: ignore[method-assign]


def _send_again_what_was_decided(module: str) -> None:
    if module != "connectors":
        return
    from connectors.relay.batch_rows import BatchRows
    from connectors.relay.coordinator import Coordinator
    from connectors.relay.query_relay import QueryRelay

    commit, begin = QueryRelay.commit, Coordinator.begin

    async def again(self: QueryRelay, manifest: BatchManifest) -> None:
        self._rows = BatchRows(self._spool, manifest)
        await commit(self, manifest)

    def begin_again(self: Coordinator, batch: int, *, refusals_max: int, again: bool = False) -> list[Command]:
        del again
        return begin(self, batch, refusals_max=refusals_max, again=True)

    QueryRelay.commit = again  # type: ignore[method-assign]
    Coordinator.begin = begin_again  # type: ignore[method-assign]


def _answer_late(module: str) -> None:
    """The relay's answer to a commit takes a while, and what was staged stays meanwhile."""
    if module != "connectors":
        return
    from connectors.relay.query_relay import QueryRelay

    commit = QueryRelay.commit

    async def late(self: QueryRelay, manifest: BatchManifest) -> None:
        await commit(self, manifest)
        await trio.sleep(LATE_SECONDS)

    QueryRelay.commit = late  # type: ignore[method-assign]


def _send_losing_attempts(module: str) -> None:
    if module != "connectors":
        return
    from connectors.relay.batch_rows import BatchRows
    from connectors.relay.staged_rows import StagedRowReader

    one_after_another = BatchRows._one_after_another

    async def everything(self: BatchRows) -> AsyncGenerator[StagedRun, None]:
        manifest, spool = self._manifest, self._spool
        folder = spool._directory / manifest.place / str(manifest.batch) / manifest.run
        named = {part.name for part in manifest.parts}
        for path in sorted(folder.glob("*")):
            if path.name not in named:
                reader = StagedRowReader(path.name)
                yield reader.feed(path.read_bytes())
        async for rows in one_after_another(self):
            yield rows

    BatchRows._one_after_another = everything  # type: ignore[method-assign]


def _claim_too_much(module: str) -> None:
    """A sink that has rows says that it has a byte more, as Wallaroo's may after a connection was lost."""
    if module != "connectors":
        return
    from connectors.sink.sink_session import SinkSession
    from connectors.wire.frames import NotifyAckFrame

    say = SinkSession._say

    async def boastful(self: SinkSession, frame: Frame) -> None:
        if isinstance(frame, NotifyAckFrame) and self._transactions.offset:
            frame = dataclasses.replace(frame, point_of_reference=frame.point_of_reference + 1)
        await say(self, frame)

    SinkSession._say = boastful  # type: ignore[method-assign]


def _believe_the_sinks(module: str) -> None:
    if module != "connectors":
        return
    from connectors.relay.query_relay import QueryRelay
    from connectors.wire.limits import NOTHING_SEEN

    def introduced(self: QueryRelay, sink: int, point_of_reference: int) -> None:
        if point_of_reference not in (self._coordinator.offsets[sink], NOTHING_SEEN):
            self._coordinator.move(sink, point_of_reference)
            self.links[sink].drop("rows begin after what it has")

    QueryRelay.introduced = introduced  # type: ignore[method-assign]


def _accept_zombies(module: str) -> None:
    if module != "connectors":
        return
    import connectors.relay.relay
    from connectors.relay.relay import Relay

    commit = Relay.commit

    async def accepting(self: Relay, manifest: BatchManifest, claim: PathClaim) -> None:
        await commit(self, manifest, max(claim, self._queries[manifest.place].claim))

    Relay.commit = accepting  # type: ignore[method-assign]
    connectors.relay.relay._check_latest = lambda *_: None


_STAGED: Final = "        return new StagedPart(partition, name, rows, content.size());"
_fail_after_staging = change_java(
    "connector/sink/RowWriter.java",
    _STAGED,
    "        if (rows > 0 && java.util.concurrent.ThreadLocalRandom.current().nextInt(4) == 0) {\n"
    '            throw new IOException("a task that dies when it has staged everything");\n'
    f"        }}\n{_STAGED}",
    module=DRIVER,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorBug:
    """A mistake: what it is, how it gets into a process, and which events bring it to light."""

    what: str
    plant: Callable[[str], None]
    """Called with the module that is about to run."""
    kinds: Sequence[ConnectorEvent]
    events_max: int
    burden: Callable[[str], None] = _no_burden
    """What brings the mistake to light, and must do no harm without it. Called before `plant`, in both runs."""

    def variant(self, name: str, *, healthy: bool = False) -> Variant:
        """The run with the mistake; or the same run, as slow and as strict, without it."""
        planted = f"{name}{_HEALTHY if healthy else ''}"
        return Variant(launcher=(sys.executable, "-m", "tests.chaos.connectors.planted", planted), master="local[2,20]")


BUGS: Final[dict[str, ConnectorBug]] = {
    "acknowledge_before_durable": ConnectorBug(
        what="the listener acknowledges messages before they are durable",
        plant=_acknowledge_before_durable,
        kinds=(ConnectorEvent.LISTENER,),
        events_max=12,
    ),
    "decide_after_phase_2": ConnectorBug(
        what="the relay makes its decision durable after the sinks were told to commit",
        plant=_decide_after_phase_2,
        kinds=(ConnectorEvent.RELAY,),
        events_max=12,
    ),
    "forget_phase_2": ConnectorBug(
        what="a relay that is started again does not commit what was decided",
        plant=_forget_phase_2,
        burden=_tell_late,
        kinds=(ConnectorEvent.RELAY,),
        events_max=20,
    ),
    "change_transaction_ids": ConnectorBug(
        what="a relay that is started again gives transactions other names, and does not know the old ones",
        plant=_change_transaction_ids,
        kinds=(ConnectorEvent.RELAY,),
        events_max=20,
    ),
    "send_losing_attempts": ConnectorBug(
        what="the relay sends what attempts have staged that did not win",
        plant=_send_losing_attempts,
        burden=_fail_after_staging,
        kinds=(ConnectorEvent.PRODUCER,),
        events_max=12,
    ),
    "send_again_what_was_decided": ConnectorBug(
        what="the relay sends a batch again that was decided before",
        plant=_send_again_what_was_decided,
        burden=_answer_late,
        kinds=(ConnectorEvent.RELAY,),
        events_max=12,
    ),
    "believe_the_sinks": ConnectorBug(
        what="the relay goes on where a sink says that it is",
        plant=_believe_the_sinks,
        burden=_claim_too_much,
        kinds=(ConnectorEvent.SINK, ConnectorEvent.RELAY),
        events_max=12,
    ),
}

ACCEPT_ZOMBIES: Final = "accept_zombies"
"""Spark's own rules stop its zombies, too, before their commit does harm: drivers without such rules show it."""
RELAY_BUGS: Final[dict[str, Callable[[str], None]]] = {ACCEPT_ZOMBIES: _accept_zombies}


def main() -> None:
    """Plant, then run the module as if by `python -m`."""
    name, module, *arguments = sys.argv[1:]
    if name in RELAY_BUGS:
        RELAY_BUGS[name](module)
    else:
        bug = BUGS[name.removesuffix(_HEALTHY)]
        bug.burden(module)
        if not name.endswith(_HEALTHY):
            bug.plant(module)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
