"""Deliberate mistakes, each of which a crash test must catch; the proof that it can fail.

python -m tests.chaos.planted NAME MODULE ARGUMENT...      runs a module of the project with the mistake in it
"""

from __future__ import annotations

import os
import random
import runpy
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

import spark_integration.jar
from spark_integration.pipelines.driver_process import PROGRAM
from tests.chaos.events import Kind
from tests.chaos.stage import Variant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from journal.owner.journal import Journal
    from journal.volume import OperationId

_ANSWER_SECONDS: Final = 0.3
"""How much later a service answers, so that kills hit the time between a durable record and its answer."""
_REFUSED_SHARE: Final = 0.1
"""How many of the state files are refused where errors in close() are to be seen."""


_HEALTHY: Final = ":healthy"


def _change_all(change: Callable[..., Any]) -> None:
    """Let every change go this way, PUTs too, which mostly have a shorter one."""
    from journal.owner.journal import Journal

    Journal.change = change  # type: ignore[method-assign]
    Journal.put_soon = lambda *_, **__: False  # type: ignore[method-assign]


def _answer_late(module: str) -> None:
    if module != "journal":
        return
    from journal.owner.journal import Journal

    change = Journal.change

    async def late(self: Journal, *arguments: Any, **options: Any) -> Any:
        answer = await change(self, *arguments, **options)
        await trio.sleep(_ANSWER_SECONDS)
        return answer

    _change_all(late)


def _refuse_state_files(module: str) -> None:
    """As if there were no room for some of them: the query fails, and goes on with the next driver."""
    if module != "journal":
        return
    from journal.errors import JournalCode, refused
    from journal.owner.journal import Journal

    put = Journal.put

    async def refusing(self: Journal, path: str, payload: Any, **options: Any) -> Any:
        if "/state/" in path and random.random() < _REFUSED_SHARE:
            raise refused(JournalCode.NO_SPACE, f"there is no room for {path}")
        return await put(self, path, payload, **options)

    Journal.put = refusing  # type: ignore[method-assign]
    Journal.put_soon = lambda *_, **__: False  # type: ignore[method-assign]


def _answer_before_durable(module: str) -> None:
    if module != "journal":
        return
    from journal.errors import JournalError
    from journal.owner.journal import Journal

    change = Journal.change

    async def hasty(self: Journal, check: Any, operation: Any, payload: Any = b"", **named: Any) -> Any:
        if not payload:  # Spark looks at once for a directory that it has made: no test of crashes is needed for that
            return await change(self, check, operation, payload, **named)
        answer = self._decide(check, operation or self._next_operation(), payload, **named)
        if isinstance(answer, JournalError):
            raise answer
        return answer

    _change_all(hasty)


def _forget_operations(module: str) -> None:
    if module == "journal":
        from journal.image.operation_window import OperationWindow

        def find(self: OperationWindow, operation: OperationId) -> None:
            pass

        OperationWindow.find = find  # type: ignore[method-assign]


def _do_not_sync(module: str) -> None:
    if module == "sos_server":
        os.fdatasync = os.fsync = lambda fd: None


def change_java(file: str, old: str, new: str, *, module: str = PROGRAM) -> Callable[[str], None]:
    """Compiles the shim from changed sources, in the driver's process."""
    driver = module

    def plant(module: str) -> None:
        if module != driver:
            return
        sources = Path(tempfile.mkdtemp(prefix="sos-planted-")) / "java"
        shutil.copytree(spark_integration.jar._SOURCES, sources)
        path = sources / "src" / "io" / "sos" / "spark" / file
        text = path.read_text()
        assert text.count(old) == 1, f"{file} no longer has the line that is to be changed"
        path.write_text(text.replace(old, new))
        spark_integration.jar._SOURCES = sources  # type: ignore[misc]
        spark_integration.jar._RESOURCES = sources / "resources"  # type: ignore[misc]

    return plant


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """A mistake: what it is, how it gets into a process, and which events bring it to light."""

    what: str
    plant: Callable[[str], None]
    """Called with the module that is about to run."""
    kinds: Sequence[Kind]
    events_max: int
    settings: dict[str, str]
    driver_may_fail: bool = False
    burden: Callable[[str], None] = _answer_late
    """What brings the mistake to light, and must do no harm without it. Called before `plant`, in both runs."""

    def variant(self, name: str, *, healthy: bool = False) -> Variant:
        """The run with the mistake; or the same run, as slow and as strict, without it."""
        planted = f"{name}{_HEALTHY if healthy else ''}"
        return Variant(
            launcher=(sys.executable, "-m", "tests.chaos.planted", planted),
            settings=self.settings,
            master="local[2]",
            driver_may_fail=self.driver_may_fail,
        )


BUGS: Final[dict[str, Bug]] = {
    "answer_before_durable": Bug(
        what="the journal service answers before the members have synced",
        plant=_answer_before_durable,
        kinds=(Kind.SERVICE, Kind.QUORUM),
        events_max=20,
        settings={},
    ),
    "forget_operation_id": Bug(
        what="the journal service does not remember the answers of operations",
        plant=_forget_operations,
        kinds=(Kind.SERVICE,),
        events_max=20,
        settings={},
    ),
    "new_id_for_each_attempt": Bug(
        what="the shim sends an operation again under another id",
        plant=change_java(
            "gateway/VolumeClient.java", "OperationStamp(operation, claim", "OperationStamp(OPERATIONS.lend(), claim"
        ),
        kinds=(Kind.SERVICE,),
        events_max=20,
        settings={},
    ),
    "swallow_an_error_in_close": Bug(
        what="the shim's close() does not throw when the file could not be published",
        plant=change_java(
            "UncommittedFile.java",
            "            state = State.FAILED;\n            failure = e;\n            throw e;",
            "            state = State.PUBLISHED;",
        ),
        # A state file is missing, and nobody needs it before the next driver loads the state.
        kinds=(Kind.DRIVER,),
        events_max=8,
        settings={"spark.sql.streaming.stateStore.minDeltasForSnapshot": "1000"},
        burden=_refuse_state_files,
        driver_may_fail=True,
    ),
    "acknowledge_before_fsync": Bug(
        what="the SOS servers do not sync what they acknowledge",
        plant=_do_not_sync,
        kinds=(Kind.BLACKOUT,),
        events_max=4,
        settings={},
    ),
}


def main() -> None:
    """Plant, then run the module as if by `python -m`."""
    name, module, *arguments = sys.argv[1:]
    bug = BUGS[name.removesuffix(_HEALTHY)]
    bug.burden(module)
    if not name.endswith(_HEALTHY):
        bug.plant(module)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
