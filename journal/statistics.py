"""A volume in numbers, for metrics: values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatistics:
    """One member, as the owner sees it."""

    address: str
    in_sync: bool
    lag_bytes: int
    uncleaned: bool = False  # what retention has given up could not be deleted there


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeStatistics:
    """An owned volume at one moment. LSNs are byte offsets in its log."""

    epoch: int
    written_lsn: int
    acknowledged_lsn: int
    oldest_lsn: int
    files: int
    tree_bytes: int  # what files, directories and claims take in the service's memory
    may_lose: int  # how many more members may go before writes stop; negative when they have
    members: tuple[MemberStatistics, ...]
