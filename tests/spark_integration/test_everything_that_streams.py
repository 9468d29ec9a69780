"""Each kind of query with each state store: run, lose the machine, resume elsewhere, compare with the right answer.

The answers are computed from the input without Spark (`spark_integration/pipelines/queries.py`): those of an
uninterrupted run. Three ways to run Spark, two lives each; every test below looks at one cell of the matrix.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from tests.spark_integration.drive_queries import PROVIDERS, queries_of
from tests.spark_integration.two_lives import PER_FILE, QUERIES, Life, two_lives

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.spark

WAYS: Final = {
    "in one process": ("local[2]", False, list(PROVIDERS)),
    "executors in other processes": ("local-cluster[2,1,1024]", False, list(PROVIDERS)),
    "Spark Connect": ("local[2]", True, ["hdfs", "changelog_v2"]),
}
"""Master, whether by Connect, state stores. By Connect the same is asked in another way: two of them must do."""
COLUMNS: Final = [(way, provider) for way, (_, _, providers) in WAYS.items() for provider in providers]
CELLS: Final = [(way, provider, query) for way, provider in COLUMNS for query in queries_of(provider)]


@pytest.fixture(scope="module")
def lives_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Life]]:
    """Runs each way once, when it is first asked for."""
    known: dict[str, list[Life]] = {}

    def lives(way: str) -> list[Life]:
        if way not in known:
            master, connect, providers = WAYS[way]
            folder = tmp_path_factory.mktemp("lives") / "stage"
            queries = [*QUERIES, "files", "state", "async"]
            known[way] = two_lives(folder, master=master, connect=connect, providers=providers, queries=queries)
        return known[way]

    return lives


@pytest.mark.parametrize(("way", "provider", "query"), CELLS)
def test_right_answer(lives_of: Callable[[str], list[Life]], way: str, provider: str, query: str) -> None:
    for life in lives_of(way):
        assert life.conflicts == []
        assert life.shown[provider, query] == QUERIES[query].answer(life.records)


@pytest.mark.parametrize(("way", "provider"), COLUMNS)
def test_state_data_sources(lives_of: Callable[[str], list[Life]], way: str, provider: str) -> None:
    for life in lives_of(way):
        state = life.report["state"][provider]
        assert {int(key): total for key, total in state["totals"].items()} == QUERIES["totals"].answer(life.records)
        assert state["operators"] == ["stateStoreSave"]


@pytest.mark.parametrize("way", WAYS)
def test_file_sink_and_file_source(lives_of: Callable[[str], list[Life]], way: str) -> None:
    for life in lives_of(way):
        ids = sorted(record.id for record in life.records)
        assert life.report["files"] == {"data": ids, "again": ids}


@pytest.mark.parametrize("way", WAYS)
def test_async_progress_tracking(lives_of: Callable[[str], list[Life]], way: str) -> None:
    """A life may begin with what the one before had read and not yet noted; nothing is left out."""
    for life in lives_of(way):
        again = 2 * PER_FILE if life.begin else 0
        assert life.fresh <= life.report["async"] <= life.fresh + again


@pytest.mark.parametrize("way", [way for way, (_, connect, _) in WAYS.items() if not connect])
def test_each_provider_kept_its_state_as_it_was_told(lives_of: Callable[[str], list[Life]], way: str) -> None:
    """Or the matrix would have fewer columns than it claims."""
    paths = lives_of(way)[-1].paths
    state = {name: [path for path in paths if path.startswith(f"{name}/totals/state/")] for name in PROVIDERS}
    assert any(path.endswith(".delta") for path in state["hdfs"])
    assert any(path.endswith(".zip") for path in state["rocksdb"])
    assert not any(path.endswith(".changelog") for path in state["rocksdb"])
    assert any(path.endswith(".changelog") for path in state["changelog"])
    with_unique_names = re.compile(r"/\d+_[0-9a-f-]{36}\.(zip|changelog)$")
    assert any(with_unique_names.search(path) for path in state["changelog_v2"])
    assert not any(with_unique_names.search(path) for path in state["changelog"])
    assert any(path.endswith(".delta.crc") for path in state["hdfs"]), "file checksums"
