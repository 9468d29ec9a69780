"""The same seed gives the same run: the private bits of trio do what is expected, and nothing else leaks in."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from trio._core import _run as trio_run
from trio.testing import MockClock

from tests.fakes import bell
from tests.simulation import quick_scopes, quick_steps
from tests.simulation.determinism import run_from_seed
from tests.simulation.server_run import PROFILES, simulate_server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ROOT = Path(__file__).parents[2]


async def interleaving() -> str:
    """How ten tasks that do nothing but yield take turns."""
    steps: list[str] = []

    async def step(name: str) -> None:
        for _ in range(5):
            await trio.lowlevel.checkpoint()
            steps.append(name)

    async with trio.open_nursery() as nursery:
        for name in "abcdefghij":
            nursery.start_soon(step, name)
    return "".join(steps)


def test_trio_schedules_from_the_seed() -> None:
    first = [run_from_seed(seed, interleaving) for seed in range(20)]
    assert first == [run_from_seed(seed, interleaving) for seed in range(20)]
    assert len(set(first)) == 20


def test_the_private_names_of_trio_are_there() -> None:
    assert isinstance(trio_run._ALLOW_DETERMINISTIC_SCHEDULING, bool)
    assert isinstance(trio_run._r, random.Random)


def test_everything_is_put_back() -> None:
    def replaced() -> list[object]:
        switch = trio_run._ALLOW_DETERMINISTIC_SCHEDULING
        quick = [getattr(owner, name) for owner, name, _ in (*quick_steps.REPLACED, *quick_scopes.REPLACED)]
        return [os.urandom, time.time, trio_run._r.getstate(), random.getstate(), switch, *quick]

    before = replaced()
    run_from_seed(1, interleaving)
    assert replaced() == before


def test_randomness_and_time_come_from_the_seed() -> None:
    async def draw() -> tuple[bytes, float, float]:
        await trio.sleep(3)
        return os.urandom(8) + random.SystemRandom().randbytes(8), random.random(), trio.current_time()

    assert run_from_seed(5, draw) == run_from_seed(5, draw)
    assert run_from_seed(5, draw)[:2] != run_from_seed(6, draw)[:2]
    assert run_from_seed(5, draw)[2] == 3


async def sleeping_and_cancelling() -> list[tuple[float, str]]:
    """What tasks do, and when, that sleep, wait in vain, wake each other and give each other up."""
    steps: list[tuple[float, str]] = []
    scopes, lot = [trio.CancelScope() for _ in range(8)], trio.lowlevel.ParkingLot()

    async def act(number: int) -> None:
        chance = random.Random(number)
        for step in range(40):
            scopes[number] = trio.CancelScope()
            with scopes[number], trio.move_on_after(chance.choice([0, 0.1, 0.25, 1])):
                await trio.sleep(chance.choice([0, 0.1, 0.25, 0.3]))
                if chance.random() < 0.3:
                    await lot.park()
                with trio.CancelScope(shield=chance.random() < 0.5):
                    await trio.sleep(chance.uniform(0, 0.5))
                steps.append((trio.current_time(), f"{number} {step}"))
                lot.unpark_all()
                scopes[chance.randrange(8)].cancel()
            await trio.lowlevel.checkpoint()
        steps.append((trio.current_time(), f"{number} is done"))

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(act, number)
    return steps


class Disturbed:
    """What tasks wait with, and what others do to it meanwhile."""

    def __init__(self) -> None:
        self.events = [trio.Event() for _ in range(4)]
        self.bells = [bell.Bell() for _ in range(3)]
        self.scopes: list[trio.CancelScope] = []

    async def wait(self, chance: random.Random) -> None:
        what = chance.randrange(9)
        if what == 0:
            await self.events[chance.randrange(4)].wait()
        elif what <= 2:
            await self.bells[chance.randrange(3)].wait(trio.current_time() + chance.choice([0, 0.25, inf]))
        elif what == 3:
            await bell.sleep_for_certain(chance.choice([0, 0.25, 0.5]))
        elif what == 4:
            await trio.lowlevel.checkpoint_if_cancelled()
        elif what == 5:
            await trio.lowlevel.cancel_shielded_checkpoint()
        elif what == 6:
            raise ValueError("on purpose")
        elif what == 7:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep, chance.uniform(0.2, 0.5))  # not in the turn in which others cancel
                await self.wait(chance)
        else:
            await trio.sleep_until(trio.current_time() + 0.25)

    def disturb(self, chance: random.Random) -> None:
        number = chance.randrange(4)
        self.events[number].set()
        self.events[number] = trio.Event()
        self.bells[chance.randrange(3)].ring()
        for scope in chance.sample(self.scopes, min(len(self.scopes), 2)):
            what = chance.randrange(3)
            if what == 0:
                scope.cancel()
            elif what == 1:
                scope.deadline = trio.current_time() + chance.choice([0, 0.25, inf])
            else:
                scope.shield = not scope.shield


async def everything_that_is_quick() -> list[tuple[float, str]]:
    """Events, bells, scopes that are changed while somebody waits in them, nurseries that fail, sleep for certain."""
    steps: list[tuple[float, str]] = []
    shared = Disturbed()

    async def act(number: int) -> None:
        chance = random.Random(number)
        for step in range(60):
            said, scope = "went on", trio.CancelScope(shield=step % 5 == 0)
            shared.scopes.append(scope)
            try:
                with scope, trio.fail_after(chance.choice([0, 0.25, 2])):
                    await shared.wait(chance)
            except trio.TooSlowError:
                said = "too slow"
            except (ValueError, ExceptionGroup):
                said = "failed"
            shared.scopes.remove(scope)
            steps.append((trio.current_time(), f"{number} {step} {said} {scope.cancelled_caught}"))
            shared.disturb(chance)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(act, number)
    return steps


@pytest.mark.parametrize("program", [sleeping_and_cancelling, everything_that_is_quick])
def test_the_loop_does_what_trios_own_does(
    program: Callable[[], Awaitable[list[tuple[float, str]]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(20):
        ours = run_from_seed(seed, program)
        with monkeypatch.context() as patch:
            patch.setattr(trio_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
            trio_run._r.seed(f"schedule {seed}")
            trios = trio.run(program, clock=MockClock(autojump_threshold=0))
        assert [name for _, name in ours] == [name for _, name in trios]
        assert [time for time, _ in ours] == pytest.approx([time for time, _ in trios])


def test_what_nobody_expects_ends_the_run() -> None:
    async def fail() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise KeyError("on purpose")

    with pytest.raises(ExceptionGroup) as caught:
        run_from_seed(1, fail)
    assert caught.group_contains(KeyError)


def test_a_sleep_of_no_length_is_refused() -> None:
    async def never() -> None:
        await trio.sleep(float("nan"))

    with pytest.raises(ValueError, match="non-negative"):
        run_from_seed(1, never)


@pytest.mark.parametrize("seed", range(len(PROFILES)))
def test_the_same_seed_gives_the_same_server_run(seed: int) -> None:
    first, second = simulate_server(seed, keep_trace=True), simulate_server(seed, keep_trace=True)
    assert first.trace == second.trace
    assert first.digest == second.digest
    assert first.digest != simulate_server(seed + len(PROFILES)).digest


@pytest.mark.parametrize("half", ["server", "journal"])
def test_another_process_with_another_hash_seed_gives_the_same_run(half: str) -> None:
    program = f"from tests.simulation.{half}_run import simulate_{half}; print(simulate_{half}(4).digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1
