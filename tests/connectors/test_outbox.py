"""What a source holds of a stream until it is acknowledged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.source.outbox import Outbox
from connectors.wire.limits import NOTHING_SEEN
from sos_client.wire.errors import MisuseError, ProtocolError


def filled(*ids: int) -> Outbox:
    outbox = Outbox()
    for message_id in ids:
        assert outbox.add(message_id, b"%d" % message_id)
    return outbox


def test_what_is_sent_waits_for_its_acknowledgement() -> None:
    outbox = filled(1, 5, 9)
    assert outbox.held_bytes == 3
    assert outbox.take(2) == [b"1", b"5"]
    assert not outbox.empty
    assert outbox.acknowledge(5) == 2
    assert (outbox.point, outbox.held_bytes) == (5, 1)
    assert outbox.take(2) == [b"9"]
    assert outbox.acknowledge(9) == 1
    assert outbox.empty


def test_what_was_on_its_way_is_sent_again() -> None:
    outbox = filled(1, 2, 3)
    outbox.take(2)
    outbox.fly_again()
    outbox.acknowledge(1)
    assert outbox.take(9) == [b"2", b"3"]


def test_what_is_there_already_is_not_sent() -> None:
    outbox = Outbox()
    outbox.acknowledge(7)
    assert not outbox.add(6, b"6")
    assert not outbox.add(7, b"7")
    assert outbox.add(8, b"8")
    outbox.acknowledge(8)
    assert outbox.empty


@pytest.mark.parametrize("message_id", [3, 2, NOTHING_SEEN])
def test_ids_grow(message_id: int) -> None:
    with pytest.raises(MisuseError):
        filled(3).add(message_id, b"x")


def test_a_point_of_reference_does_not_go_back() -> None:
    outbox = filled(3)
    outbox.acknowledge(NOTHING_SEEN)
    outbox.acknowledge(3)
    for point in (2, NOTHING_SEEN):
        with pytest.raises(ProtocolError, match="has lost"):
            outbox.acknowledge(point)


def test_many_are_added_as_each_would_be() -> None:
    outbox = filled(3)
    outbox.acknowledge(5)
    assert outbox.add_many([4, 5], [b"4", b"5"]) == 0
    assert outbox.add_many([6, 8], [b"6", b"8"]) == 2
    for ids in ([8, 9], [9, 9], [9, NOTHING_SEEN], [10, 9]):
        with pytest.raises(MisuseError, match="must grow"):
            outbox.add_many(ids, [b"x", b"x"])
    assert outbox.take(1) == [b"6"]
    assert outbox.acknowledge(6) == 1
    assert outbox.add_many([9, 10, 11], [b"9", b"10", b"11"]) == 5
    assert outbox.take(2) == [b"8", b"9"]
    assert (outbox.acknowledge(10), outbox.held_bytes, outbox.take(9)) == (4, 2, [b"11"])


STEPS = st.tuples(st.sampled_from(["add", "add many", "take", "lose", "acknowledge"]), st.integers(0, 100))


@given(st.lists(STEPS, max_size=60))
def test_a_listener_that_drops_what_it_has_gets_everything_once(steps: list[tuple[str, int]]) -> None:
    outbox, next_id, stored = Outbox(), 0, list[int]()

    def arrive(frames: list[bytes]) -> None:
        stored.extend(int(frame) for frame in frames if not stored or int(frame) > stored[-1])

    for step, number in steps:
        if step == "add":
            outbox.add(next_id, b"%d" % next_id)
            next_id += 1
        elif step == "add many":
            ids = list(range(next_id, next_id + number % 9 + 1))
            outbox.add_many(ids, [b"%d" % each for each in ids])
            next_id = ids[-1] + 1
        elif step == "take":
            arrive(outbox.take(number % 3))
        elif step == "lose":
            outbox.fly_again()
        elif stored and stored[number % len(stored)] >= outbox.point:
            outbox.acknowledge(stored[number % len(stored)])
    outbox.fly_again()
    arrive(outbox.take(next_id))
    assert stored == list(range(next_id))
