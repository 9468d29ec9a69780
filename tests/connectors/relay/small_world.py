"""A world that is small enough to be explored wholly: a coordinator, the log of decisions, strict sinks, a driver.

Everything that can happen next is an action; a fault is an action that costs one of a few that a world allows. A frame
on its way is lost with its connection. What a sink does in its own process is one step: that it stored something and
did not say so is the case in which its answer is lost.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from connectors.relay.coordinator import (
    AskUncommitted,
    Command,
    Coordinator,
    Decide,
    Drop,
    EndTransaction,
    Failed,
    Finished,
    Prepare,
    Stray,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROW_BYTES = 10
"""What each batch has for each sink: offsets are 0, 10, 20…"""


class ViolationError(Exception):
    """Something that must never happen has happened."""


@dataclass
class StrictSink:
    """What a sink has on its disk, and in the connection that it has now."""

    committed: list[tuple[str, str]] = field(default_factory=list)  # transaction, content
    prepared: dict[str, tuple[bool, int, int, str]] = field(default_factory=dict)
    offset: int = 0
    tentative: str = ""
    connected: bool = False

    @property
    def committed_end(self) -> int:
        return ROW_BYTES * len(self.committed)

    def hello(self) -> None:
        """What was not prepared is forgotten."""
        self.connected = True
        self.tentative = ""
        ends = [after for vote, _, after, _ in self.prepared.values() if vote]
        self.offset = ends[0] if ends else self.committed_end

    def take(self, message: tuple[Any, ...], *, vote: bool) -> tuple[Any, ...] | None:
        """What it answers. It dies of what Wallaroo's dies of."""
        match message:
            case ("rows", first, content):
                if self.prepared:
                    raise ViolationError("a sink dies: rows between phase 1 and phase 2")
                if first != self.offset:
                    raise ViolationError(f"a sink dies: rows at {first}, where {self.offset} follows")
                self.offset += ROW_BYTES
                self.tentative = content
            case ("phase 1", transaction, first, after):
                if self.prepared:
                    raise ViolationError("a sink dies: a second transaction is prepared")
                self.prepared[transaction] = (vote, first, after, self.tentative)
                return ("vote", transaction, vote)
            case ("phase 2", transaction, commit) if transaction in self.prepared:
                self._end(transaction, commit=commit)
            case ("list", tag):
                return ("listed", tag, tuple(self.prepared))
        return None

    def _end(self, transaction: str, *, commit: bool) -> None:
        voted, first, after, content = self.prepared.pop(transaction)
        if commit and not voted:
            raise ViolationError("a sink dies: what it voted to abort is committed")
        if commit and after != self.offset:
            raise ViolationError("a sink dies: a commit of what is not the end of what it has")
        if commit:
            self.committed.append((transaction, content))
        else:
            self.offset = first
        self.tentative = ""


@dataclass
class LyingSink(StrictSink):
    """One that does not keep what it has voted for: it never lists it, or forgets it with its connection.

    What comes of that at this sink is its own affair. The others, and the relay, must not suffer from it.
    """

    forgets: bool = False

    def hello(self) -> None:
        super().hello()
        if self.forgets:
            self.prepared.clear()

    def take(self, message: tuple[Any, ...], *, vote: bool) -> tuple[Any, ...] | None:
        match message:
            case ("phase 1", transaction, first, after):
                self.prepared = {transaction: (vote, first, after, "")}
                return ("vote", transaction, vote)
            case ("phase 2", transaction, _):
                self.prepared.pop(transaction, None)
            case ("list", tag):
                return ("listed", tag, tuple(self.prepared) if self.forgets else ())
        return None


@dataclass
class SmallWorld:
    """Its whole state. `kind` makes the coordinator, so that one with a mistake can be put in its place."""

    sinks: list[StrictSink]
    batches: int
    faults: int
    kind: Callable[..., Coordinator] = Coordinator
    fenced: bool = True
    decided: list[tuple[str, int, tuple[int, ...]]] = field(default_factory=list)  # on the volume
    generation: int = 0
    to_sink: list[list[tuple[Any, ...]]] = field(default_factory=list)
    to_relay: list[list[tuple[Any, ...]]] = field(default_factory=list)
    sending: dict[int, tuple[str, int]] = field(default_factory=dict)
    deciding: Decide | None = None
    left_behind: Decide | None = None  # what a relay that was replaced is still writing
    batch: int = 0  # the driver's
    run: int = 1
    asked: bool = False
    content: str = ""  # of the batch that the relay has
    coordinator: Coordinator | None = None
    told: list[str] = field(default_factory=list)  # what happened, in words, when it is wanted
    telling: bool = False

    def __post_init__(self) -> None:
        self.to_sink = [[] for _ in self.sinks]
        self.to_relay = [[] for _ in self.sinks]
        self.start_relay()

    @property
    def _honest(self) -> list[StrictSink]:
        return [sink for sink in self.sinks if not isinstance(sink, LyingSink)]

    # ── the relay's process ───────────────────────────────────────────────────────────────────────────────────────────

    def start_relay(self) -> None:
        """As a relay begins: it reads the decisions, and nobody else writes any from here on."""
        self.generation += 1
        for sink in range(len(self.sinks)):
            self._hang_up(sink)
        self.sending.clear()
        offsets = self.decided[-1][2] if self.decided else (0,) * len(self.sinks)
        commits = [(transaction, batch) for transaction, batch, _ in self.decided]
        self.coordinator = self.kind("q", generation=self.generation, offsets=offsets, commits=commits)
        self.asked = False  # the driver's request is lost with it

    def obey(self, commands: list[Command]) -> None:
        for command in commands:
            self.tell(f"  relay: {spoken(command)}")
            match command:
                case AskUncommitted(sink=sink, tag=tag):
                    self._send(sink, ("list", tag))
                case EndTransaction(sink=sink, transaction=transaction, commit=commit):
                    self._send(sink, ("phase 2", transaction, commit))
                case Prepare(sink=sink, transaction=transaction, first=first):
                    self.sending[sink] = (transaction, first)
                    self._send(sink, ("rows", first, self.content))
                case Drop(sink=sink):
                    self._hang_up(sink)
                    self.sending.pop(sink, None)
                case Decide():
                    self.deciding = command
                case Finished(batch=batch):
                    self._finished(batch)
                case Failed(batch=batch):
                    self.asked = False
                    self.run += 1
                case Stray():
                    raise ViolationError("a transaction that nobody knows, though no sink has forgotten anything")

    def _send(self, sink: int, message: tuple[Any, ...]) -> None:
        if self.sinks[sink].connected:
            self.to_sink[sink].append(message)

    def _hang_up(self, sink: int) -> None:
        self.sinks[sink].connected = False
        self.to_sink[sink].clear()
        self.to_relay[sink].clear()

    def _finished(self, batch: int) -> None:
        if batch != self.batch:
            raise ViolationError(f"batch {batch} is said to be committed, where {self.batch} was asked for")
        for sink in self._honest:
            if len(sink.committed) <= batch:
                raise ViolationError(f"batch {batch} is said to be committed, and a sink has not committed it")
        self.batch += 1
        self.asked = False

    # ── what can happen ───────────────────────────────────────────────────────────────────────────────────────────────

    def actions(self) -> Iterator[tuple[Any, ...]]:
        """Everything that can happen now. The last element says whether it is a fault."""
        if self.batch < self.batches and not self.asked:
            yield ("ask", False)
        for sink, state in enumerate(self.sinks):
            if not state.connected:
                yield ("connect", sink, False)
            if sink in self.sending:
                yield ("sent", sink, False)
            if self.to_sink[sink]:
                yield ("to sink", sink, True, False)
            if self.to_relay[sink]:
                yield ("to relay", sink, False)
        if self.deciding is not None:
            yield ("durable", False)
        if self.left_behind is not None:
            yield ("left behind", False)
        if self.faults:
            yield from self._faults()

    def _faults(self) -> Iterator[tuple[Any, ...]]:
        for sink, state in enumerate(self.sinks):
            if state.connected:
                yield ("cut", sink, True)
            if self.to_sink[sink] and self.to_sink[sink][0][0] == "phase 1":
                yield ("to sink", sink, False, True)
        yield ("relay dies", True)
        if self.deciding is not None:
            yield ("relay dies, decided", True)
            yield ("another relay", True)
        if self.asked:
            yield ("driver dies", True)

    def act(self, action: tuple[Any, ...]) -> None:
        self.faults -= action[-1]
        self.tell(named(action))
        assert self.coordinator is not None
        match action:
            case ("ask", _):
                self.asked = True
                if self.coordinator.work is None:
                    self._begin()
            case ("connect", sink, _):
                self.sinks[sink].hello()
                self.obey(self.coordinator.connected(sink))
            case ("sent", sink, _):
                transaction, first = self.sending.pop(sink)
                self.obey(self.coordinator.prepared(sink, transaction, first + ROW_BYTES))
                self._send(sink, ("phase 1", transaction, first, first + ROW_BYTES))
            case ("to sink", sink, vote, _):
                answer = self.sinks[sink].take(self.to_sink[sink].pop(0), vote=vote)
                if answer is not None:
                    self.to_relay[sink].append(answer)
                self._check()
            case ("to relay", sink, _):
                self._hear(sink, self.to_relay[sink].pop(0))
            case ("durable", _):
                self._write(self.deciding)
                self.deciding = None
                self.obey(self.coordinator.decided())
            case ("left behind", _):
                if not self.fenced:
                    self._write(self.left_behind)
                self.left_behind = None
            case ("cut", sink, _):
                self._hang_up(sink)
                self.sending.pop(sink, None)
                self.obey(self.coordinator.lost(sink))
            case ("driver dies", _):
                self.asked = False
                self.run += 1
            case _:
                self._relay_ends(action[0])
        self._ask_again()

    def _relay_ends(self, how: str) -> None:
        deciding, self.deciding = self.deciding, None
        if how == "relay dies, decided":
            self._write(deciding)
        elif how == "another relay":
            self.left_behind = deciding
        self.run += 1
        self.start_relay()

    def _write(self, decide: Decide | None) -> None:
        assert decide is not None
        self.decided.append((decide.transaction, decide.batch, decide.ends))

    def _begin(self) -> None:
        assert self.coordinator is not None
        self.content = f"{self.batch} of run {self.run}"
        self.obey(self.coordinator.begin(self.batch, refusals_max=2))

    def _ask_again(self) -> None:
        """A driver that was started again waits until what its predecessor asked for is over."""
        if self.asked and self.batch < self.batches and self.coordinator is not None and self.coordinator.work is None:
            self._begin()

    def _hear(self, sink: int, message: tuple[Any, ...]) -> None:
        assert self.coordinator is not None
        match message:
            case ("vote", transaction, commit):
                self.obey(self.coordinator.voted(sink, transaction, commit=commit))
            case ("listed", tag, transactions):
                self.obey(self.coordinator.listed(sink, tag, transactions))

    # ── what must hold ────────────────────────────────────────────────────────────────────────────────────────────────

    def _check(self) -> None:
        longest: list[tuple[str, str]] = max((sink.committed for sink in self._honest), key=len, default=[])
        for sink in self._honest:
            if sink.committed != longest[: len(sink.committed)]:
                raise ViolationError("two sinks have committed different transactions")
        batches = [content.partition(" ")[0] for _, content in longest]
        if batches != [str(batch) for batch in range(len(batches))]:
            raise ViolationError(f"batches {batches} are committed")

    def check_end(self) -> None:
        """Nothing can happen any more but faults."""
        if self.batch < self.batches:
            raise ViolationError(f"batch {self.batch} is never committed")
        if any(sink.prepared for sink in self._honest):
            raise ViolationError("something stays prepared")

    def tell(self, line: str) -> None:
        if self.telling:
            self.told.append(line)

    def frozen(self) -> bytes:
        return pickle.dumps(self)


def named(action: tuple[Any, ...]) -> str:
    """An action in words."""
    match action:
        case ("ask", _):
            return "driver asks for the next batch"
        case ("connect", sink, _):
            return f"sink {sink} is connected"
        case ("sent", sink, _):
            return f"sink {sink} has been sent its rows, and phase 1"
        case ("to sink", sink, True, _):
            return f"sink {sink} takes the next message"
        case ("to sink", sink, False, _):
            return f"sink {sink} takes phase 1, and votes abort"
        case ("to relay", sink, _):
            return f"relay hears sink {sink}"
        case ("durable", _):
            return "the decision is durable"
        case ("left behind", _):
            return "the first relay's decision reaches the volume"
        case ("cut", sink, _):
            return f"the connection of sink {sink} is cut"
        case ("another relay", _):
            return "another relay takes the decisions over"
        case ("relay dies, decided", _):
            return "the decision is durable; the relay dies before it knows"
    return f"the {action[0]}"


def spoken(command: Command) -> str:
    """A command in words."""
    match command:
        case AskUncommitted(sink=sink):
            return f"LIST_UNCOMMITTED to sink {sink}"
        case EndTransaction(sink=sink, transaction=transaction, commit=commit):
            return f"PHASE_2 {'commit' if commit else 'abort'} {transaction} to sink {sink}"
        case Prepare(sink=sink, transaction=transaction, first=first):
            return f"{transaction}: rows from {first} to sink {sink}"
        case Drop(sink=sink, reason=reason):
            return f"hangs up on sink {sink}: {reason}"
        case Decide(transaction=transaction):
            return f"writes that {transaction} is committed"
        case Finished(batch=batch):
            return f"batch {batch} is committed at every sink"
        case Failed(batch=batch, sink=sink):
            return f"batch {batch} is given up, for sink {sink}"
        case Stray(sink=sink, transaction=transaction):
            return f"sink {sink} lists {transaction}, which is unknown"


def explore(world: SmallWorld) -> int:
    """Go through every order of everything that can happen; how many states there are. ViolationError with the way."""
    seen: set[int] = set()
    stack: list[tuple[bytes, tuple[tuple[Any, ...], ...]]] = [(world.frozen(), ())]
    while stack:
        frozen, way = stack.pop()
        actions = list(pickle.loads(frozen).actions())
        if all(action[-1] for action in actions):
            _checked(pickle.loads(frozen), way)
        for action in actions:
            after: SmallWorld = pickle.loads(frozen)
            try:
                after.act(action)
            except (ViolationError, AssertionError) as error:
                raise _with_way(error, (*way, action)) from None
            key = hash(_key(after))
            if key not in seen:
                seen.add(key)
                stack.append((after.frozen(), (*way, action)))
    return len(seen)


def _checked(world: SmallWorld, way: tuple[tuple[Any, ...], ...]) -> None:
    try:
        world.check_end()
    except ViolationError as error:
        raise _with_way(error, way) from None


def _with_way(error: Exception, way: tuple[tuple[Any, ...], ...]) -> ViolationError:
    return ViolationError("\n".join([str(error), *map(named, way)]))


def _key(world: SmallWorld) -> str:
    """The state as a text that is the same for the same state."""
    coordinator = world.coordinator
    return repr(
        (sorted(vars(coordinator).items()), sorted((k, v) for k, v in vars(world).items() if k != "coordinator"))
    )
