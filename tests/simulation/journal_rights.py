"""Tokens of the journal half: rights are taken away and given back while changes wait; services read the file again.

Each service has what it read last, and what was so for each record of an epoch is known: the file as its owner had it
when the record was written. So a change that was let through without its right is seen, however it came to wait.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from journal.errors import JournalCode
from sos_client.serving.access import AccessRules, Grant, Right, new_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from journal.owner.journal import Journal
    from tests.simulation.journal_model import Operation

Grants = dict[str, Grant]

NEEDED: Final[dict[str, frozenset[Right]]] = {
    "put": frozenset({Right.APPEND}),
    "create": frozenset({Right.APPEND}),
    "append": frozenset({Right.APPEND}),
    "delete": frozenset({Right.DELETE}),
    "rename": frozenset({Right.APPEND, Right.DELETE}),
    "read": frozenset({Right.READ}),
}
"""As PROTOCOL.md says it."""
REFUSALS: Final = frozenset({JournalCode.DENIED, JournalCode.AUTH})
LESS: Final = (
    frozenset({Right.READ}),
    frozenset({Right.READ, Right.DELETE}),
    frozenset({Right.READ, Right.APPEND}),
    frozenset({Right.APPEND, Right.DELETE, Right.FENCE}),
    frozenset[Right](),
)
"""What may be left to a client for a while. Nothing: its token is not in the file any more."""


def process_of(operation: Operation) -> str:
    """The client, which has a token, of the task that asked."""
    return operation.client.partition(".")[0]


@dataclass(slots=True)
class _Epoch:
    """From which LSN on its owner had read which tokens."""

    journal: Journal
    begins: list[int]
    grants: list[Grants]

    def at(self, lsn: int) -> Grants:
        """What was in force when the record that begins there was written."""
        return self.grants[bisect_right(self.begins, lsn) - 1]


class ReadTokens(AccessRules):
    """The tokens as one service process has read them."""

    def __init__(self, file: Grants, epochs: dict[int, _Epoch]) -> None:
        super().__init__(None)
        self._path = Path("tokens")  # which says that tokens are needed
        self._file = file
        self._epochs = epochs
        self._own: list[_Epoch] = []
        self.on_reload: Callable[[], None] = lambda: None
        self._grants = tuple(file.values())

    def owns(self, journal: Journal) -> None:
        """This process has taken the volume over."""
        epoch = self._epochs[journal.epoch] = _Epoch(journal, [0], [self._read()])
        self._own.append(epoch)

    def hang_up(self) -> None:
        """SIGHUP: read the file again, and let the sessions know."""
        self._grants = tuple(self._file.values())
        for epoch in self._own:
            epoch.begins.append(int(epoch.journal.log.end))
            epoch.grants.append(self._read())
        self.on_reload()

    def _read(self) -> Grants:
        return {grant.name: grant for grant in self._grants}


class JournalRights:
    """The file of tokens, who reads it, and what was in force when."""

    def __init__(self, clients: Iterable[str]) -> None:
        self.tokens: dict[str, bytes] = {}
        self.file: Grants = {}
        for name in clients:
            text, grant = new_token(name=name, namespaces=("*",), rights=frozenset(Right), expires=None)
            self.tokens[name], self.file[name] = bytes.fromhex(text), grant
        self._whole = dict(self.file)
        self._taken: list[tuple[str, frozenset[Right], float]] = []
        """Who was left with which rights only, and from when on."""
        self._epochs: dict[int, _Epoch] = {}
        self._readers: dict[str, ReadTokens] = {}

    def read_by(self, service: str) -> ReadTokens:
        """The service starts."""
        reader = self._readers[service] = ReadTokens(self.file, self._epochs)
        return reader

    # ── what operators do ─────────────────────────────────────────────────────────────────────────────────────────

    def leave(self, client: str, rights: frozenset[Right]) -> None:
        """Write into the file that this client may do no more than this."""
        self._taken.append((client, rights, trio.current_time()))
        if rights:
            self.file[client] = replace(self._whole[client], rights=rights)
        else:
            self.file.pop(client, None)

    def give_back(self, client: str) -> None:
        """As it was at first."""
        self.file[client] = self._whole[client]

    def hang_up(self, service: str) -> None:
        """SIGHUP, if there was ever a process to get it."""
        if service in self._readers:
            self._readers[service].hang_up()

    # ── what must be true ─────────────────────────────────────────────────────────────────────────────────────────

    def allowed(self, operation: Operation, epoch: int, begin: int) -> bool:
        """Whether its client had the right when the record of this operation was written."""
        if epoch not in self._epochs:
            return False
        grant = self._epochs[epoch].at(begin).get(process_of(operation))
        return grant is not None and NEEDED[operation.kind] <= grant.rights

    def may_refuse(self, operation: Operation, *, until: float) -> bool:
        """Whether somebody had taken a right away that the operation needs, before it was answered."""
        return any(
            client == process_of(operation) and since <= until and (not rights or not NEEDED[operation.kind] <= rights)
            for client, rights, since in self._taken
        )
