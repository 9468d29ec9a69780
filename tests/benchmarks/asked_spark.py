"""A warm Spark in a process of its own, asked by lines of JSON; and what is common to the scripts that answer them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.benchmarks.processes import stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql.streaming import StreamingQuery

ROOT: Final = Path(__file__).resolve().parents[2]
READY: Final = "ready"


@contextmanager
def asked_spark(script: str, directory: Path, *arguments: str) -> Iterator[Callable[[object], Any]]:
    """Starts `tests.benchmarks.SCRIPT`, waits until it `answers`; each question then gets its answer."""
    command = [sys.executable, "-m", f"tests.benchmarks.{script}", *arguments]
    with (directory / "spark.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        questions, given = process.stdin, process.stdout

        def answer() -> Any:
            line = given.readline()
            if not line:
                log.seek(0)
                raise RuntimeError(f"Spark ended: {log.read()[-3000:]}")
            return json.loads(line)

        def ask(question: object) -> Any:
            questions.write(json.dumps(question) + "\n")
            questions.flush()
            return answer()

        try:
            assert READY in answer()
            yield ask
        finally:
            questions.close()
            stop(process)


def answer_all(version: str, answer: Callable[[Any], object]) -> None:
    """The script's side: say that Spark of this version is ready, then answer until the input ends."""
    print(json.dumps({READY: version}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


def took(query: StreamingQuery) -> list[dict[str, float]]:
    """What took how many milliseconds, of every batch that had rows."""
    return [dict(one["durationMs"]) for one in query.recentProgress if one["numInputRows"] > 0]


def counted(query: StreamingQuery, *, warm_up: int, batches: int, seconds_max: float) -> list[dict[str, float]]:
    """What the batches after the warm-up took; the query is stopped then. RuntimeError: it ended, or took too long."""
    wanted, deadline = warm_up + batches, time.monotonic() + seconds_max
    while len(done := took(query)) < wanted:
        if not query.isActive or time.monotonic() > deadline:
            raise RuntimeError(f"only {len(done)} of {wanted} batches: {query.exception()}")
        time.sleep(0.1)
    query.stop()
    return done[warm_up:wanted]
