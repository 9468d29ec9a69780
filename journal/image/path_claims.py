"""Driver fencing: who may change what lies at or below a claimed path. Pure.

A driver claims its checkpoint at query start with (start time, application). The later claim wins; from then on every
change there must carry it or a later one. A driver that was thought dead, and its executors, carry an older one and
are refused.

A claim ends when its path is deleted or moved away, or when it is released. Then whoever has no claim may write there
again, but a driver whose claim is older may not: it has lost the path long ago. That much is remembered of the last
ENDED_MAX claims; unlike a claim in force, one that has ended protects nothing that is there.

Whoever may claim could leave no room for anybody else's. So a client, which the service knows by its token, may have
half of the room that others leave. Whose a claim is stands in no record: a service counts those made through it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, SupersededError, refused
from journal.image.nodes import bytes_of_name
from journal.records.paths import is_within
from journal.volume import PAGE_ENTRIES_MAX, ClaimedPath, ClaimPage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from journal.volume import PathClaim

CLAIMS_MAX: Final = 10_000  # one for each checkpoint that is in use; beyond it a new one is refused, none is forgotten
ENDED_MAX: Final = 1_000  # a driver that was thought dead is found out within hours, not after so many deletions
CLAIM_BYTES: Final = 480  # besides its path and application, in two images; measured in the tests
CLAIM_AHEAD_MS_MAX: Final = 10 * 60 * 1000
"""How far a driver's clock may be ahead of the volume's: a claim locks all earlier ones out until that time comes."""


@dataclass(slots=True)
class PathClaims:
    """The claims of an image, in force and ended."""

    _claims: dict[str, PathClaim] = field(default_factory=dict)
    _ended: dict[str, PathClaim] = field(default_factory=dict)
    _whose: dict[str, str] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)
    _in_order: list[str] | None = None
    kept_bytes: int = 0  # what all of them take in memory, in two images

    def __iter__(self) -> Iterator[tuple[str, PathClaim]]:
        """Path and claim of those in force, the one claimed longest ago first."""
        return iter(self._claims.items())

    def __len__(self) -> int:
        return len(self._claims)

    @property
    def ended(self) -> Iterator[tuple[str, PathClaim]]:
        """Path and claim of those that ended last, the one that ended longest ago first."""
        return iter(self._ended.items())

    def of(self, path: str) -> PathClaim | None:
        """The claim in force on exactly this path."""
        return self._claims.get(path)

    def page(self, *, after: str | None, limit: int) -> ClaimPage:
        """Claims in force whose paths follow `after`, in order."""
        limit = max(1, min(limit, PAGE_ENTRIES_MAX))
        if self._in_order is None:
            self._in_order = sorted(self._claims)  # thousands, for whoever may read: not for each page
        start = 0 if after is None else bisect_right(self._in_order, after)
        claims = tuple(ClaimedPath(path, self._claims[path]) for path in self._in_order[start : start + limit])
        return ClaimPage(claims=claims, more=len(self._in_order) > start + limit)

    def add(self, path: str, claim: PathClaim) -> None:
        """Apply a claim that was checked when it was written."""
        self._in_order = None
        self._take_out(self._claims, path)
        self._take_out(self._ended, path)
        self._claims[path] = claim
        self.kept_bytes += bytes_of_claim(path, claim)

    def check_room(self, whose: str) -> None:
        """TOO_LARGE if there is no room for one more claim of this client; "": of nobody that is known."""
        others = len(self._claims) - self._counts[whose]
        if whose and self._counts[whose] >= (CLAIMS_MAX - others) // 2:
            who = f"{self._counts[whose]} claims were made with the token {whose!r}, which is half of the room for it"
        elif len(self._claims) >= CLAIMS_MAX:
            most = "".join(f", {count} with the token {one!r}" for one, count in self._counts.most_common(1))
            who = f"there are {CLAIMS_MAX} claims already{most}"
        else:
            return
        help_text = "end those of queries that are over with `sos-journal claims release`, or delete their checkpoints"
        raise refused(JournalCode.TOO_LARGE, f"{who}: {help_text}")

    def count_for(self, path: str, whose: str) -> None:
        """The claim on this path, which is made now, is of this client."""
        self._forget_whose(path)
        if whose:
            self._whose[path] = whose
            self._counts[whose] += 1

    def _forget_whose(self, path: str) -> None:
        if (whose := self._whose.pop(path, None)) is not None:
            self._counts[whose] -= 1
            if not self._counts[whose]:
                del self._counts[whose]

    def end(self, path: str, *, time_ms: int) -> None:
        """Apply the release of the claim on exactly this path. One from the future would lock every driver out."""
        self._in_order = None
        self._forget_whose(path)
        claim = self._take_out(self._claims, path)
        if claim is not None and claim.start_time <= time_ms + CLAIM_AHEAD_MS_MAX:
            self.add_ended(path, claim)

    def end_within(self, path: str, *, time_ms: int) -> None:
        """What lies at `path` and below is gone from there, and with it the claims."""
        for claimed in [claimed for claimed in self._claims if is_within(claimed, path)]:
            self.end(claimed, time_ms=time_ms)

    def add_ended(self, path: str, claim: PathClaim) -> None:
        """Remember a claim that has ended."""
        self._take_out(self._ended, path)
        self._ended[path] = claim
        self.kept_bytes += bytes_of_claim(path, claim)
        if len(self._ended) > ENDED_MAX:
            self._take_out(self._ended, next(iter(self._ended)))

    def _take_out(self, claims: dict[str, PathClaim], path: str) -> PathClaim | None:
        claim = claims.pop(path, None)
        if claim is not None:
            self.kept_bytes -= bytes_of_claim(path, claim)
        return claim

    def check(self, path: str, claim: PathClaim | None, *, subtree: bool = False) -> None:
        """FENCED if a change at `path` needs a later claim. `subtree`: the change concerns all below it, too."""
        if not self._claims and not self._ended:
            return
        at, claims, ended = path, self._claims, self._ended
        while True:
            if at in claims or at in ended:
                self._check_one(at, path, claim)
            if not at:
                break
            at = at.rpartition("/")[0]
        if subtree:
            for claimed in self._claims:
                if is_within(claimed, path):
                    self._check_one(claimed, path, claim)

    def _check_one(self, claimed: str, path: str, claim: PathClaim | None) -> None:
        holder = self._claims.get(claimed) or (None if claim is None else self._ended.get(claimed))
        if holder is None or (claim is not None and claim >= holder):
            return
        who = f"application {claim.application}" if claim else "a writer without a claim"
        help_text = "" if claim else "; once its query is over, `sos-journal claims release` frees the path"
        raise fenced_by(claimed, holder, f"{who} may not change {path or '/'} any more{help_text}", path=path)

    def copy(self) -> PathClaims:
        """An independent copy, which is for reading: it does not know whose claims are."""
        return PathClaims(dict(self._claims), dict(self._ended), kept_bytes=self.kept_bytes)


def bytes_of_claim(path: str, claim: PathClaim) -> int:
    """What one takes in memory: both images share the strings."""
    return CLAIM_BYTES + bytes_of_name(path) + bytes_of_name(claim.application)


def fenced_by(claimed: str, holder: PathClaim, consequence: str, *, path: str | None = None) -> SupersededError:
    """FENCED: who has claimed, and what follows from it for the change at `path` (None: at the claimed one)."""
    return SupersededError(
        JournalCode.FENCED,
        f"{claimed or '/'} belongs to application {holder.application}, which claimed it at start time "
        f"{holder.start_time}; {consequence}",
        path=claimed if path is None else path,
        claimed=claimed,
        application=holder.application,
        start_time=holder.start_time,
    )
