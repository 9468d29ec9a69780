"""The claims of a volume in memory: the rules of journal/volume.py written down as plainly as possible."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from journal.errors import FieldValue, JournalCode, JournalError, SupersededError, journal_error
from journal.volume import ClaimedPath, ClaimPage, PathClaim


def _ancestors(path: str) -> list[str]:
    """The root first, the path itself not included."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts))] if path else []


@dataclass
class MemoryClaims:
    """Claims by path, those in force and those that have ended."""

    present: dict[str, PathClaim] = field(default_factory=dict)
    ended: dict[str, PathClaim] = field(default_factory=dict)

    def check(self, path: str, claim: PathClaim | None, *, subtree: bool = False) -> None:
        ended = [] if claim is None else self.ended.items()
        for claimed, holder in [*self.present.items(), *ended]:
            below = subtree and claimed in self.present and path in _ancestors(claimed)
            concerned = claimed in (path, *_ancestors(path)) or below
            if concerned and (claim is None or claim < holder):
                raise SupersededError(
                    JournalCode.FENCED,
                    f"{claimed or '/'} belongs to application {holder.application}",
                    path=path,
                    application=holder.application,
                    start_time=holder.start_time,
                )

    def add(self, path: str, claim: PathClaim) -> None:
        if not path and path not in self.present:
            raise _no(JournalCode.BAD_REQUEST, "the root cannot be claimed")
        if claim.start_time > time.time() * 1000 + 600_000:
            raise _no(JournalCode.BAD_REQUEST, "the claim is from the future")
        if path not in self.present and len(self.present) >= 10_000:
            raise _no(JournalCode.TOO_LARGE, "there are too many claims")
        self.present[path] = claim
        self.ended.pop(path, None)

    def release(self, path: str, claim: PathClaim) -> bool:
        if self.present.get(path, claim) != claim:
            raise SupersededError(JournalCode.FENCED, f"{path} has another claim")
        if path not in self.present:
            return False
        self.ended[path] = self.present.pop(path)
        return True

    def end_within(self, path: str) -> None:
        for claimed in [claimed for claimed in self.present if path in (claimed, *_ancestors(claimed))]:
            self.ended[claimed] = self.present.pop(claimed)

    def page(self, after: str | None, limit: int) -> ClaimPage:
        paths = sorted(path for path in self.present if after is None or path > after)
        claims = tuple(ClaimedPath(path, self.present[path]) for path in paths[:limit])
        return ClaimPage(claims=claims, more=len(paths) > limit)


def _no(code: JournalCode, message: str, **fields: FieldValue) -> JournalError:
    return journal_error(code, message, fields)
