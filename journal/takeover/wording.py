"""What a member's refusal and a takeover's end mean: answers for the state machine, words for people. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from journal.errors import (
    FULL,
    DamagedJournalError,
    JournalCode,
    JournalError,
    SupersededError,
    UnavailableError,
    journal_error,
    refused,
)
from journal.records.chain_rules import newest
from journal.takeover.messages import (
    Early,
    Failing,
    FenceMember,
    Full,
    Gone,
    MemberAnswer,
    Overtaken,
    Reason,
    Silent,
)
from journal.takeover.rules import doubtful
from sos_client.wire.errors import ErrorCode, RefusedError

if TYPE_CHECKING:
    from journal.records.membership import Member
    from journal.takeover.messages import Ask, Extend, Read, Write
    from journal.takeover.takeover import Takeover

_NEWER_CLAIM: Final = frozenset({ErrorCode.STALE_EPOCH, ErrorCode.FENCED})
_FULL: Final = (
    "make room on their disks, or lower `storage.reserve_bytes` there for as long as it takes to clean up, or raise "
    "their quota or number of objects; until then the volume can be read with --servers"
)
_FAILING: Final = (
    "these servers' logs say what failed; restart sos-server there when the disk works, or replace the member"
)
_IN_DOUBT: Final = (
    "these servers call the newest segment damaged, so that acknowledged records may be missing at its end there; "
    "bring back the members that are away, or go on with what there is: --accept-loss"
)
_NOBODY_HAS_IT: Final = "sos-journal repair --accept-loss says what would be given up to go on, and asks"
_NOTHING_LEFT: Final = "nothing is left to go on from: restore a backup into another volume"
_EARLY: Final = (
    "somebody who may fence has claimed another member that far ahead, or the clocks of these are slow: they take the "
    "claim when their clocks have come to it, or when that member is stopped"
)
_SPENT: Final = (
    "somebody who may fence has claimed these with the last epoch that there is: they can be read, but never be "
    "written again. If enough others are left, replace them; else restore the volume into another one"
)


def given_up(state: Takeover) -> str:
    """What an operator went on without, for the log."""
    assert state.survivors is not None
    absent = frozenset(newest(state.facts).membership.members) - set(state.survivors.members)
    in_doubt = _names(doubtful(state))
    parts = [f"went on without {_names(absent)}"] if absent else []
    if in_doubt:
        parts.append(f"took the log's end from {in_doubt}, which may have lost its end")
    return "; ".join(parts)


def meaning_of(request: Ask | Read | FenceMember | Extend | Write, error: RefusedError) -> MemberAnswer:
    """What a member's refusal means for a takeover."""
    member = request.member
    if error.code in _NEWER_CLAIM:
        told = error.fields.get("epoch")
        epoch = told if isinstance(told, int) else 0
        is_early = isinstance(request, FenceMember) and epoch < request.epoch
        return Early(member=member) if is_early else Overtaken(member=member, epoch=epoch)
    if error.code is ErrorCode.NOT_FOUND:
        return Gone(member=member)
    if error.code in FULL:
        return Full(member=member)
    if error.code is ErrorCode.IO_ERROR:
        return Failing(member=member)
    if error.code in (ErrorCode.AUTH, ErrorCode.DENIED):
        raise journal_error(JournalCode[error.code.name], f"{member}: {error.message}")
    return Silent(member=member)


def refusal_of(volume: str, state: Takeover) -> JournalError:
    """Why this process is not the owner, in words."""
    refusal = state.refusal
    assert refusal is not None
    lost, full, spent, failing = map(_names, (refusal.lost, refusal.full, refusal.spent, refusal.failing))
    missing, silent = _names(refusal.missing), _names(refusal.missing - refusal.failing)
    early, in_doubt = _names(refusal.early), _names(refusal.doubtful)
    match refusal.reason:
        case Reason.MISSING:
            what = f"too few members of volume {volume} answer"
            found = [("not answering", silent), ("disk fails", failing), ("lost", lost)]
            found += [("claimed for ever", spent), ("full", full)]
            found.append((f"not ready for epoch {state.epoch}", early))
            parts = "; ".join(f"{how}: {members}" for how, members in found if members)
            message = f"{what} ({parts})" if parts else what
            if failing:
                message += f"; {_FAILING}"
            if spent:
                message += f"; {_SPENT}"
            if early:
                message += f"; {_EARLY}"
            if in_doubt:
                message += f"; damaged: {in_doubt}: {_IN_DOUBT}"
            if full:
                return journal_error(JournalCode.NO_SPACE, f"{message}; {_FULL}", {"full": full})
            return UnavailableError(JournalCode.UNAVAILABLE, message, missing=missing, lost=lost)
        case Reason.OVERTAKEN:
            return SupersededError(
                JournalCode.NOT_OWNER,
                f"somebody else is taking volume {volume} over (epoch {state.highest})",
                epoch=state.highest,
            )
        case Reason.LOST:
            message = f"{refusal.detail}; not answering: {missing or 'nobody'}; lost: {lost or 'nobody'}"
            if in_doubt:
                message += f"; damaged: {in_doubt}: {_IN_DOUBT}"
            elif not missing:
                message += f"; {_NOBODY_HAS_IT}"
            return DamagedJournalError(JournalCode.LOST, message, lsn=refusal.lsn, missing=missing, lost=lost)
        case Reason.CHANGE:
            return refused(JournalCode.BAD_REQUEST, refusal.reason.value, volume=volume)
        case Reason.NO_HEADER if state.headless:
            message = (
                f"LOST: no copy that answers has a whole header of any segment of volume {volume}; {_NOTHING_LEFT}"
            )
            return DamagedJournalError(JournalCode.LOST, message, lost=lost)
        case Reason.NO_HEADER:
            return refused(
                JournalCode.VOLUME_NOT_FOUND, f"volume {volume} was never made to its end: make it again", volume=volume
            )


def _names(members: frozenset[Member]) -> str:
    return ", ".join(sorted(str(member) for member in members))
