"""Random plans: the ordered sink is right for all of them, and the switch passes none whose rows are out of order."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.spark_integration.order.conftest import new_session
from tests.spark_integration.order.random_plans import OPERATORS, Operator, chains, check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
IN_CI = 200
IN_SOAK = int(os.environ.get("SOS_RANDOM_PLANS", "2000"))
TO_ONE_ON_A_CLUSTER = 20
"""This many plans in one process to one with executors in others, where a plan takes several times as long."""

plans = given(chain=chains, partitions=st.integers(1, 6), keys_together=st.booleans())


def examples(count: int) -> settings:
    return settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))


@examples(IN_CI)
@plans
def test_some_plans(spark: SparkSession, chain: Sequence[Operator], partitions: int, *, keys_together: bool) -> None:
    check(spark, chain, partitions, keys_together=keys_together)


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
@examples(IN_SOAK)
@plans
def test_many_plans(spark: SparkSession, chain: Sequence[Operator], partitions: int, *, keys_together: bool) -> None:
    check(spark, chain, partitions, keys_together=keys_together)


USEFUL: dict[str, tuple[bool, list[Operator]]] = {
    "map, filter, flatMap": (False, [Operator("rename", 1), Operator("filter", 2), Operator("flatMap", 1)]),
    "coalesce": (False, [Operator("filter", 2), Operator("coalesce", 2), Operator("flatMap", 1)]),
    "by key, then sort": (False, [Operator("by key", 4), Operator("sort", 1)]),
    "by key, from keys": (True, [Operator("filter", 3), Operator("by key", 4), Operator("flatMap", 1)]),
    "twice by key, from keys": (True, [Operator("by key", 2), Operator("rename", 1), Operator("by key", 5)]),
    "a table in each task": (False, [Operator("join", 3), Operator("flatMap", 1)]),
    "a union of two parts": (True, [Operator("union", 1)]),
    "a table by key, then sort": (False, [Operator("join", 1), Operator("sort", 1)]),
    "function of a key": (False, [Operator("per key", 1)]),
    "function of a key after another order": (False, [Operator("repartition", 4), Operator("per key", 1)]),
}


@pytest.mark.parametrize("name", USEFUL)
def test_plans_that_are_right_are_passed(spark: SparkSession, name: str) -> None:
    keys_together, chain = USEFUL[name]
    assert check(spark, chain, 4, keys_together=keys_together)


# Jet's matrix: from fewer to more tasks and back, one source and several, with and without a key.
WAYS: dict[str, tuple[int, int]] = {"same": (3, 3), "low to high": (2, 5), "high to low": (6, 2), "one": (1, 4)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("keys_together", [False, True], ids=["ranges", "keys"])
def test_operators_by_parallelism(spark: SparkSession, way: str, *, keys_together: bool) -> None:
    before, after = WAYS[way]
    for name in OPERATORS:
        check(
            spark,
            [Operator("filter", 4), Operator(name, after), Operator("map", 1)],
            before,
            keys_together=keys_together,
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], SparkSession]]:
    """Started when it is asked for, because there is one Spark at a time."""
    opened: list[SparkSession] = []

    def start() -> SparkSession:
        from pyspark.sql import SparkSession

        if not opened:
            if running := SparkSession.getActiveSession():
                running.stop()
            opened.append(new_session(tmp_path_factory.mktemp("cluster"), "local-cluster[2,1,1024]"))
        return opened[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        yield start
        for session in opened:
            session.stop()


@examples(IN_CI // TO_ONE_ON_A_CLUSTER)
@plans
def test_some_plans_on_a_cluster(
    cluster: Callable[[], SparkSession], chain: Sequence[Operator], partitions: int, *, keys_together: bool
) -> None:
    check(cluster(), chain, partitions, keys_together=keys_together)


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
@examples(IN_SOAK // TO_ONE_ON_A_CLUSTER)
@plans
def test_many_plans_on_a_cluster(
    cluster: Callable[[], SparkSession], chain: Sequence[Operator], partitions: int, *, keys_together: bool
) -> None:
    check(cluster(), chain, partitions, keys_together=keys_together)
