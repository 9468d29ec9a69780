"""Driver fencing: who may change what lies at or below a claimed path. Pure.

A driver claims its checkpoint at query start with (start time, application). The later claim wins; from then on every
change there must carry it or a later one. A driver that was thought dead, and its executors, carry an older one and
are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from journal.errors import JournalCode, SupersededError
from journal.paths import is_within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from journal.volume import PathClaim

CLAIMS_MAX: Final = (
    10_000  # one for each checkpoint that was ever started; beyond it the longest untouched is forgotten
)


@dataclass(slots=True)
class PathClaims:
    """The claims of an image. Claims outlive the path: deleting a checkpoint lets no old driver back in."""

    _claims: dict[str, PathClaim] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[str, PathClaim]]:
        """Path and claim, the one claimed longest ago first."""
        return iter(self._claims.items())

    def __len__(self) -> int:
        return len(self._claims)

    def of(self, path: str) -> PathClaim | None:
        """The claim on exactly this path."""
        return self._claims.get(path)

    def add(self, path: str, claim: PathClaim) -> None:
        """Apply a claim that was checked when it was written."""
        self._claims.pop(path, None)
        self._claims[path] = claim
        if len(self._claims) > CLAIMS_MAX:
            del self._claims[next(iter(self._claims))]

    def check(self, path: str, claim: PathClaim | None, *, subtree: bool = False) -> None:
        """FENCED if a change at `path` needs a later claim. `subtree`:

        the change moves or removes all below it, too.
        """
        if not self._claims:
            return
        at = path
        while True:
            self._check_one(at, path, claim)
            if not at:
                break
            at = at.rpartition("/")[0]
        if subtree:
            for claimed in self._claims:
                if is_within(claimed, path):
                    self._check_one(claimed, path, claim)

    def _check_one(self, claimed: str, path: str, claim: PathClaim | None) -> None:
        holder = self._claims.get(claimed)
        if holder is None or (claim is not None and claim >= holder):
            return
        who = f"application {claim.application}" if claim else "a writer without a claim"
        raise SupersededError(
            JournalCode.FENCED,
            f"{claimed or '/'} belongs to application {holder.application}, which claimed it at start time "
            f"{holder.start_time}; {who} may not change {path or '/'} any more",
            path=path,
            claimed=claimed,
            application=holder.application,
            start_time=holder.start_time,
        )

    def copy(self) -> PathClaims:
        """An independent copy."""
        return PathClaims(dict(self._claims))
