"""Driver fencing: the later claim wins, everywhere at and below the path."""

from __future__ import annotations

import pytest

from journal import path_claims
from journal.errors import JournalCode, SupersededError
from journal.image import Image
from journal.path_claims import PathClaims
from journal.preconditions import check_claim
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
    assert not check_claim(image, "q", NEW)
    assert check_claim(image, "q", PathClaim(application="app-3", start_time=30))
    with pytest.raises(SupersededError):
        check_claim(image, "q", OLD)


def test_the_number_of_claims_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_claims, "CLAIMS_MAX", 2)
    claims = PathClaims()
    for path in "abac":
        claims.add(path, NEW)
    assert [path for path, _ in claims] == ["a", "c"]
    assert len(claims) == 2
