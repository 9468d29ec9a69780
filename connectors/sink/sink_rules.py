"""Faults that a sink commits when it is told to: to see what becomes of a query whose sink behaves like that.

Pure. The format is that of Wallaroo's sink, a Python tuple in each line; empty lines and those with # are passed over:

    ("txnid-regexp", REGEXP, VOTE, CLOSE_BEFORE, CLOSE_AFTER)    when the transaction's id matches
    ("stream-content", 1, REGEXP)                                vote abort when a row matches
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sos_client.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from journal.volume import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRule:
    """What to do about phase 1 of a transaction."""

    pattern: re.Pattern[str]
    vote: bool
    close_before: bool
    close_after: bool


@dataclass(frozen=True, slots=True)
class SinkRules:
    """All of them. Of several that match the last one counts."""

    votes: tuple[VoteRule, ...] = ()
    contents: tuple[re.Pattern[bytes], ...] = ()

    def for_transaction(self, transaction: str) -> VoteRule | None:
        """The rule for it, if there is one."""
        return next((rule for rule in reversed(self.votes) if rule.pattern.search(transaction)), None)

    def refuse_row(self, row: Buffer) -> bool:
        """Whether the transaction of this row is to be voted abort."""
        return any(pattern.search(row) for pattern in self.contents)


def parse_rules(lines: Iterable[str]) -> SinkRules:
    """The rules of a file. SettingsError names the line that is not one."""
    votes: list[VoteRule] = []
    contents: list[re.Pattern[bytes]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            match ast.literal_eval(line.strip()):
                case ("txnid-regexp", str(regexp), bool(vote), bool(before), bool(after)):
                    rule = VoteRule(pattern=re.compile(regexp), vote=vote, close_before=before, close_after=after)
                    votes.append(rule)
                case ("stream-content", int(), str(regexp)):
                    contents.append(re.compile(regexp.encode()))
                case (str(comment),) if comment:
                    pass
                case _:
                    raise ValueError("it is neither of the two kinds")  # noqa: TRY301
        except (ValueError, SyntaxError, re.error, MemoryError, RecursionError) as error:
            raise SettingsError(f"line {number} of the rules is not a rule: {error}") from None
    return SinkRules(votes=tuple(votes), contents=tuple(contents))
