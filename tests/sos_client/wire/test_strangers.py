"""Who answered instead: told from the first bytes, and never of the right peer."""

from __future__ import annotations

import pytest

from sos_client.wire.strangers import JOURNAL_SERVICE, SOS_SERVER, WrongPortError, check_greeted, stranger


@pytest.mark.parametrize(
    ("head", "who"),
    [
        (b"HTTP/", "HTTP"),
        (b"\x15\x03\x03\x00\x02", "TLS"),
        (b"220 m", "begins with '220 m'"),
        (b"-ERR ", "begins with '-ERR '"),
        (b"\x00\x00\x00\x20\xff", SOS_SERVER),
        (b"\x00\x00\x00\x20\xaa", JOURNAL_SERVICE),
        (b"\x00\x00\x00\x20\x02", "connectors"),
    ],
)
def test_who_answers_like_this(head: bytes, who: str) -> None:
    assert who in str(stranger(head))


@pytest.mark.parametrize("head", [b"", b"HTT", b"\0\0\0\x20", b"\0\0\0\x20\x81", b"\0\0\0\0\xff", b"\1\0\0\0\xff"])
def test_what_says_nothing(head: bytes) -> None:
    assert stranger(head) is None
    check_greeted(head, "a:1", SOS_SERVER)


def test_only_somebody_else_is_a_stranger() -> None:
    check_greeted(b"\x00\x00\x00\x20\xff", "a:1", SOS_SERVER)
    with pytest.raises(WrongPortError, match=r"a:1 is the port of a journal service \(--service\); an SOS server was"):
        check_greeted(b"\x00\x00\x00\x20\xaa", "a:1", SOS_SERVER)


@pytest.mark.parametrize("bit", range(40))
def test_a_flipped_bit_in_the_right_peers_welcome_makes_no_stranger(bit: int) -> None:
    for welcome in (b"\x00\x00\x00\x40\x81", b"\x00\x00\x00\x40\xa1"):
        assert stranger((int.from_bytes(welcome, "big") ^ 1 << bit).to_bytes(5, "big")) is None
