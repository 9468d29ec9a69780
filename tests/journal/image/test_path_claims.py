"""Driver fencing: the later claim wins, everywhere at and below the path."""

from __future__ import annotations

import tracemalloc

import pytest

from journal.errors import JournalCode, RefusedByVolumeError, SupersededError
from journal.image import path_claims
from journal.image.image import Image
from journal.image.path_claims import CLAIM_AHEAD_MS_MAX, CLAIMS_MAX, ENDED_MAX, PathClaims, bytes_of_claim
from journal.image.preconditions import check_claim, check_release
from journal.volume import PathClaim

OLD = PathClaim(application="app-1", start_time=10)
NEW = PathClaim(application="app-2", start_time=20)


def _claims() -> PathClaims:
    claims = PathClaims()
    claims.add("q/one", NEW)
    return claims


@pytest.mark.parametrize("path", ["q/one", "q/one/offsets/7"])
@pytest.mark.parametrize("claim", [None, OLD, PathClaim(application="app-1", start_time=20)])
def test_an_older_claim_or_none_is_fenced(path: str, claim: PathClaim | None) -> None:
    with pytest.raises(SupersededError, match="app-2") as caught:
        _claims().check(path, claim)
    assert caught.value.code == JournalCode.FENCED
    assert caught.value.fields["start_time"] == 20


@pytest.mark.parametrize("claim", [NEW, PathClaim(application="app-0", start_time=21)])
def test_the_same_or_a_later_claim_may_go_on(claim: PathClaim) -> None:
    _claims().check("q/one/offsets/7", claim, subtree=True)


@pytest.mark.parametrize("path", ["q", "q/onemore", "q/two", "other"])
def test_paths_elsewhere_are_free(path: str) -> None:
    _claims().check(path, None)


@pytest.mark.parametrize("path", ["", "q"])
def test_a_claimed_path_cannot_be_removed_or_moved_from_above(path: str) -> None:
    with pytest.raises(SupersededError):
        _claims().check(path, OLD, subtree=True)


def test_a_claim_on_the_root_covers_everything() -> None:
    claims = PathClaims()
    claims.add("", NEW)
    with pytest.raises(SupersededError):
        claims.check("any/where", OLD)


def test_claiming_again_is_nothing_new_and_claiming_older_is_fenced() -> None:
    image = Image()
    image.claims.add("q", NEW)
    assert not check_claim(image, "q", NEW, now_ms=100)
    assert check_claim(image, "q", PathClaim(application="app-3", start_time=30), now_ms=100)
    with pytest.raises(SupersededError):
        check_claim(image, "q", OLD, now_ms=100)


def test_beyond_the_number_of_claims_a_new_one_is_refused_and_none_is_forgotten() -> None:
    image = Image()
    image.claims.add("live", NEW)
    for number in range(CLAIMS_MAX - 1):
        image.claims.add(f"junk/{number}", OLD)
    with pytest.raises(RefusedByVolumeError, match="sos-journal claims release") as caught:
        check_claim(image, "one/more", NEW, now_ms=100)
    assert caught.value.code is JournalCode.TOO_LARGE
    assert check_claim(image, "live", PathClaim(application="app-3", start_time=30), now_ms=100)
    with pytest.raises(SupersededError):
        image.claims.check("live/offsets/0", OLD)
    image.claims.end("junk/7", time_ms=100)
    assert check_claim(image, "one/more", NEW, now_ms=100)


def make(image: Image, path: str, whose: str) -> None:
    """As a journal makes a claim."""
    if check_claim(image, path, NEW, now_ms=100, whose=whose):
        image.claims.add(path, NEW)


def test_nobody_takes_more_than_half_of_the_room_that_others_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_claims, "CLAIMS_MAX", 10)
    image = Image()
    for number in range(2):
        make(image, f"before/{number}", "")
    for number in range(4):
        make(image, f"weak/{number}", "weak")
    with pytest.raises(
        RefusedByVolumeError, match=r"4 claims were made with the token 'weak'.*claims release"
    ) as caught:
        make(image, "weak/4", "weak")
    assert caught.value.code is JournalCode.TOO_LARGE
    make(image, "weak/3", "weak")  # again, which is nothing new
    for number in range(2):
        make(image, f"q/{number}", "driver")
    image.claims.end("weak/0", time_ms=100)
    image.claims.end_within("weak/1", time_ms=100)
    make(image, "weak/4", "weak")
    with pytest.raises(RefusedByVolumeError, match="'weak'"):
        make(image, "weak/5", "weak")
    for number in range(3):
        make(image, f"unknown/{number}", "")
    with pytest.raises(RefusedByVolumeError, match="10 claims already, 3 with the token 'weak': end those"):
        make(image, "unknown/4", "")


def test_who_takes_a_claim_over_is_the_one_it_counts_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_claims, "CLAIMS_MAX", 4)
    image = Image()
    for path in ("a", "b"):
        make(image, path, "first")
    with pytest.raises(RefusedByVolumeError):
        make(image, "c", "first")
    later = PathClaim(application="app-3", start_time=30)
    assert check_claim(image, "a", later, now_ms=100, whose="second")
    image.claims.add("a", later)
    with pytest.raises(RefusedByVolumeError, match="1 claims were made with the token 'second'"):
        make(image, "c", "second")


def test_a_token_whose_claims_have_ended_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_claims, "CLAIMS_MAX", 2)
    image = Image()
    for number in range(5):
        make(image, f"q/{number}", "one after the other")
        image.claims.end(f"q/{number}", time_ms=100)
    make(image, "q/5", "another")
    with pytest.raises(RefusedByVolumeError, match="'another'"):
        make(image, "q/6", "another")


def test_claims_that_ended_fence_older_ones_and_only_the_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_claims, "ENDED_MAX", 2)
    claims = PathClaims()
    for path in ("a", "b/c", "b/d"):
        claims.add(path, NEW)
    claims.end("a", time_ms=100)
    claims.end_within("b", time_ms=100)
    assert ([path for path, _ in claims.ended], len(claims)) == (["b/c", "b/d"], 0)
    claims.check("a/x", OLD)
    claims.check("b/c/x", None, subtree=True)
    with pytest.raises(SupersededError):
        claims.copy().check("b/c/x", OLD)
    claims.add("b/c", NEW)
    assert [path for path, _ in claims.ended] == ["b/d"]


def test_a_claim_from_the_future_is_refused_and_ends_without_a_trace() -> None:
    image, future = Image(), PathClaim(application="app-3", start_time=100 + CLAIM_AHEAD_MS_MAX + 1)
    with pytest.raises(RefusedByVolumeError, match="set the driver's clock"):
        check_claim(image, "q", future, now_ms=100)
    assert check_claim(image, "q", future, now_ms=101)
    image.claims.add("q", future)
    assert check_release(image, "q", future)
    image.claims.end("q", time_ms=100)
    image.claims.check("q", NEW)


def test_the_root_is_claimed_only_by_who_has_it_from_before() -> None:
    image = Image()
    with pytest.raises(RefusedByVolumeError, match="path below"):
        check_claim(image, "", NEW, now_ms=100)
    image.claims.add("", OLD)
    assert check_claim(image, "", NEW, now_ms=100)


def test_only_the_claim_that_is_named_is_released() -> None:
    image = Image()
    assert not check_release(image, "q", NEW)
    image.claims.add("q", NEW)
    with pytest.raises(SupersededError, match="app-2"):
        check_release(image, "q", OLD)
    assert check_release(image, "q", NEW)


def test_claims_are_paged_in_order_of_paths() -> None:
    claims = PathClaims()
    for path in ("c", "a/b", "", "a"):
        claims.add(path, NEW)
    first = claims.page(after=None, limit=3)
    assert ([one.path for one in first.claims], first.more) == (["", "a", "a/b"], True)
    claims.add("b", NEW)
    claims.end("c", time_ms=100)
    assert [one.path for one in claims.page(after="a/b", limit=3).claims] == ["b"]
    claims.add("c", NEW)
    claims.end("b", time_ms=100)
    for _ in range(2):  # the second time from the order that is kept
        rest = claims.page(after="a/b", limit=3)
        assert ([one.path for one in rest.claims], rest.more) == (["c"], False)


def test_what_claims_take_is_counted() -> None:
    claims = PathClaims()
    tracemalloc.start()
    try:
        twin = PathClaims()
        for number in range(5_600):
            path, application = f"queries/{number:040}", f"application_{number:030}"
            for one in claims, twin:
                one.add(path, PathClaim(start_time=1_700_000_000_000 + number, application=application))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 * claims.kept_bytes < taken < claims.kept_bytes
    claims.add(path, PathClaim(start_time=2, application="another"))
    claims.end(f"queries/{0:040}", time_ms=0)
    claims.end_within("queries", time_ms=1_800_000_000_000)
    left = claims.copy()
    assert left.kept_bytes == sum(bytes_of_claim(path, claim) for path, claim in left.ended)
    assert len(list(left.ended)) == ENDED_MAX
