"""What a server offers to whoever looks at it: between the web endpoint and a server's numbers. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sos_client.serving.access import Right

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sos_client.serving.access import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewerSight:
    """What one token may see: some of the volumes (or namespaces), and whether that is all there are.

    What is not of one volume, such as the process's own numbers, is shown only to those who see all.
    """

    names: frozenset[str]
    is_whole: bool


def sight_of(grant: Grant, names: Iterable[str]) -> ViewerSight:
    """Reading is what it takes."""
    every = frozenset(names)
    seen = frozenset(name for name in every if grant.allows(Right.READ, name))
    whole = grant.allows(Right.READ, "*") if not every else seen == every
    return ViewerSight(names=seen, is_whole=whole)


class StatusSource(Protocol):
    """A server's numbers. What is returned becomes JSON; names in it are those that the sight has, and no others."""

    @property
    def names(self) -> Iterable[str]:
        """Of the volumes (or namespaces) that a token may be for."""

    def urgent(self) -> object:
        """What must be told at once when it changes, such as which members are in sync. Compared, not shown."""

    def live(self, sight: ViewerSight) -> dict[str, object]:
        """What changes all the time; costs next to nothing."""

    def details(self, sight: ViewerSight) -> dict[str, object]:
        """What takes some work to find out, as `refresh` has found it last."""

    @property
    def details_version(self) -> int:
        """Grows whenever `details` would say something else."""

    async def refresh(self) -> None:
        """Find the details out again if they may have changed; within a bounded time. For as long as somebody looks."""

    async def unready(self) -> str | None:
        """Why nothing could be acknowledged at this moment; None if it could. Names no volume."""
