"""The log of decisions on a volume: one writer, files that are continued, answers that are lost."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from connectors.relay import decision_log
from connectors.relay.decision_log import DecisionLog
from journal.errors import JournalCode, JournalError, SupersededError, UnavailableError
from journal.volume import OperationId, PathClaim
from tests.fakes.memory_volume import MemoryVolume

if TYPE_CHECKING:
    from journal.volume import FileStatus


class ClientOfMemory(MemoryVolume):
    """A volume that gives ids, as a client of a service does. `losses`: how the next appends' answers are lost."""

    def __init__(self) -> None:
        super().__init__(name="v")
        self._numbers = itertools.count(1)
        self.losses: list[str] = []

    def new_operation(self) -> OperationId:
        return OperationId(client=bytes(16), sequence=next(self._numbers))

    async def append(self, path: str, data: Any, **more: Any) -> FileStatus:
        how = self.losses.pop(0) if self.losses else ""
        if how == "request":
            raise UnavailableError(JournalCode.UNAVAILABLE, "nobody there")
        status = await super().append(path, data, **more)
        if how == "answer":
            raise UnavailableError(JournalCode.OUTCOME_UNKNOWN, "no answer")
        return status


def log_on(volume: ClientOfMemory, *, start_time: int = 1) -> DecisionLog:
    claim = PathClaim(start_time=start_time, application="a")
    return DecisionLog(volume, checkpoint="c/q1", query="q", place="q", claim=claim, wall_ms=lambda: 7)


async def opened(volume: ClientOfMemory, *, start_time: int = 1, relay: str = "r") -> DecisionLog:
    log = log_on(volume, start_time=start_time)
    await log.open(sinks=("a:1", "b:1"), relay=relay)
    return log


async def commit(log: DecisionLog, batch: int) -> None:
    name = f"q:{batch}:{log.history.generation}.1"
    await log.commit(transaction=name, batch=batch, ends=(batch * 10, batch), rows=1)


async def test_the_next_relay_knows_what_was_decided() -> None:
    volume = ClientOfMemory()
    first = await opened(volume)
    assert (first.history.generation, first.history.ends, first.history.last_batch) == (1, (0, 0), None)
    await commit(first, 4)
    second = await opened(volume)
    assert (second.history.generation, second.history.ends, second.history.last_batch) == (2, (40, 4), 4)
    assert second.history.commits == {"q:4:1.1": 4}


async def test_a_relay_that_another_has_replaced_decides_nothing() -> None:
    volume = ClientOfMemory()
    first = await opened(volume)
    second = await opened(volume)
    with pytest.raises(SupersededError, match="another relay has taken over"):
        await first.check()
    with pytest.raises(SupersededError, match="another relay has taken over"):
        await commit(first, 0)
    await second.check()
    await commit(second, 0)
    await second.check()
    assert (await opened(volume)).history.commits == {"q:0:2.1": 0}


async def test_a_relay_of_an_earlier_driver_decides_nothing() -> None:
    volume = ClientOfMemory()
    first = await opened(volume, start_time=1)
    await opened(volume, start_time=2)
    with pytest.raises(JournalError) as error:
        await commit(first, 0)
    assert error.value.code is JournalCode.FENCED
    with pytest.raises(SupersededError):
        await opened(volume, start_time=1)


async def test_files_are_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "FILE_LINES_MAX", 5)
    volume = ClientOfMemory()
    log = await opened(volume)
    for batch in range(40):
        await commit(log, batch)
        again = log_on(volume)
        await again._read(2)
        assert again.history.last_batch == batch
        assert again.history.ends == (batch * 10, batch)
    page = await volume.list("_sos_connector/c/q1/q")
    assert len(page.entries) == 2
    assert all(entry.size < 10_000 for entry in page.entries)
    follower = await opened(volume)
    assert len(follower.history.commits) == 40
    with pytest.raises(SupersededError):
        await commit(log, 40)


async def test_a_crash_while_a_file_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "FILE_LINES_MAX", 3)
    volume = ClientOfMemory()
    log = await opened(volume)
    await commit(log, 0)
    await log._append({"kind": "continued", "file": 2})  # and then it dies
    second = await opened(volume)
    assert (second.history.generation, second.history.last_batch) == (2, 0)
    await commit(second, 1)
    assert (await opened(volume)).history.last_batch == 1
    with pytest.raises(SupersededError):
        await commit(log, 1)


@pytest.mark.parametrize("how", [["request"], ["answer"], ["request", "answer"], ["answer", "request"]])
async def test_what_is_lost_is_found_out(how: list[str], autojump_clock: object) -> None:
    del autojump_clock
    volume = ClientOfMemory()
    log = await opened(volume)
    volume.losses = how
    await commit(log, 0)
    await commit(log, 1)
    assert (await opened(volume)).history.commits == {"q:0:1.1": 0, "q:1:1.1": 1}


async def test_an_answer_that_is_lost_and_another_relay(autojump_clock: object) -> None:
    """It was decided, and then replaced: the next relay has it; this one only learns that it has no say."""
    del autojump_clock
    volume = ClientOfMemory()
    log = await opened(volume)

    async def append(path: str, data: Any, **more: Any) -> FileStatus:
        await MemoryVolume.append(volume, path, data, **more)
        volume.append = original  # type: ignore[method-assign]
        await opened(volume)
        raise UnavailableError(JournalCode.OUTCOME_UNKNOWN, "no answer")

    original = volume.append
    volume.append = append  # type: ignore[method-assign]
    with pytest.raises(SupersededError):
        await commit(log, 0)
    assert (await opened(volume)).history.commits == {"q:0:1.1": 0}


async def test_another_number_of_sinks_is_refused() -> None:
    volume = ClientOfMemory()
    await opened(volume)
    with pytest.raises(JournalError, match="has had 2 sinks, and 1 are named now"):
        await log_on(volume).open(sinks=("a:1",), relay="r")


async def test_sinks_that_have_changed_places_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "FILE_LINES_MAX", 3)
    volume = ClientOfMemory()
    await opened(volume)
    swapped = log_on(volume)
    await swapped.open(sinks=("b:1", "a:1"), relay="r")  # they have nothing yet
    log = await opened(volume)
    for batch in (1, 2):  # into files that are continued
        await commit(log, batch)
        with pytest.raises(JournalError, match="are named in another order: b:1, a:1; before, it was a:1, b:1"):
            await log_on(volume).open(sinks=("b:1", "a:1"), relay="r")
        log = await opened(volume)
    await log_on(volume).open(sinks=("b:1", "c:1"), relay="r")  # moved: their addresses may change
