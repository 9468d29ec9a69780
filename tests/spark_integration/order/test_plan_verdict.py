"""Verdicts on plans as Spark 3.5 to 4.3 print them (plans/*.txt), and on small ones for each rule."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from spark_integration.order.plan_nodes import NODES, table_of_nodes
from spark_integration.order.plan_text import attribute, lists_in, output_of, parse_plan, split_list
from spark_integration.order.plan_verdict import Layout, OrderVerdict, PlanVerdict, Rows, verdict_of
from spark_integration.order.verdict_text import as_text

PLANS: Final = Path(__file__).parent / "plans"
ROOT: Final = Path(__file__).resolve().parents[3]
LINES: Final = ("3.5", "4.0", "4.1", "4.2", "4.3")
KEPT: Final = (True, True, True)
EXCHANGED: Final = (False, True, False)
BROKEN: Final = (False, False, False)
# What is tried: per key from ranges, per key from a source with each key in one partition, per partition.
EXPECTED: Final = {
    "filter": KEPT,
    "explode": KEPT,
    "udf": KEPT,
    "pandas_udf": KEPT,
    "mapInPandas": KEPT,
    "mapInArrow": KEPT,
    "coalesce": KEPT,
    "observe": KEPT,
    "sample": KEPT,
    "union": KEPT,
    "join_static": KEPT,
    "orderBy": KEPT,
    "repartition_1": EXCHANGED,
    "repartition_key": EXCHANGED,
    "repartition_n_key": EXCHANGED,
    "repartition_range": EXCHANGED,
    "join_static_hash": EXCHANGED,
    "dedup": EXCHANGED,
    "dedup_wm": EXCHANGED,
    "sortWithinPartitions_seq": (True, True, False),
    "window": (True, True, False),
    "repartition_n": BROKEN,
    "agg": BROKEN,
    "agg_collect": BROKEN,
    "join_ss": BROKEN,
    "join_static_merge": BROKEN,
    "applyInPandasWithState": BROKEN,
    "applyInPandas_batch": BROKEN,
    "limit": BROKEN,
    "sortWithinPartitions": BROKEN,
    "distinct": BROKEN,
    "cogroup": BROKEN,
    "tws_pandas": BROKEN,
    "tws_row": BROKEN,
}
SINCE: Final = {"tws_pandas": "4.0", "tws_row": "4.1"}


def plans_of(line: str) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for part in (PLANS / f"{line}.txt").read_text(encoding="utf-8").split("#### ")[1:]:
        name, _, rest = part.partition("\n")
        for plan in rest.split("## ")[1:]:
            kind, _, text = plan.partition("\n")
            found[name, kind] = text
    return found


def judged(plan: str) -> tuple[bool, bool, bool]:
    ways: list[tuple[tuple[str, ...], str]] = [(("key",), "ranges"), (("key",), "keys"), ((), "ranges")]
    kept = [verdict_of(plan, sequence="sequence", keys=keys, source=way).is_kept for keys, way in ways]  # type: ignore[arg-type]
    return (kept[0], kept[1], kept[2])


@pytest.mark.parametrize("line", LINES)
def test_plans_of_every_spark(line: str) -> None:
    plans = plans_of(line)
    names = {name for name, _ in plans}
    assert names >= {name for name in EXPECTED if SINCE.get(name, "") <= line} - {"cogroup"}
    # In a batch, dropDuplicates is an aggregate, not a node of its own.
    wrong = {
        (name, kind): judged(text)
        for (name, kind), text in plans.items()
        if judged(text) != (BROKEN if (name, kind) == ("dedup", "batch executed") else EXPECTED[name])
    }
    assert not wrong


def verdict(plan: str, keys: tuple[str, ...] = ("key",), **more: object) -> PlanVerdict:
    return verdict_of(plan, sequence="sequence", keys=keys, **more)  # type: ignore[arg-type]


SCAN: Final = "MicroBatchScan[sequence#1L, key#2L, other#3L] class org.example.Scan"
EXCHANGE: Final = "Exchange hashpartitioning(key#2L, 3), REPARTITION_BY_COL, [plan_id=1]"


def tree(*lines: str) -> str:
    """Each line below the one before it."""
    return "\n".join(f"{'   ' * (depth - 1)}+- {line}" if depth else line for depth, line in enumerate(lines))


def test_the_sentence_names_the_line() -> None:
    found = verdict(tree("*(2) Project [sequence#1L, key#2L]", "Exchange RoundRobinPartitioning(2)", SCAN))
    assert found.culprit is not None
    assert (found.culprit.line, found.culprit.verdict) == (2, OrderVerdict.BROKEN)
    assert [node.ordered_after for node in found.nodes] == [False, False, True]
    assert "   2  broken   OUT OF ORDER    Exchange RoundRobin" in as_text(found)
    assert found.as_dict()["nodes"][1]["verdict"] == "broken"
    kept = verdict(SCAN)
    assert kept.culprit is None
    assert as_text(kept).startswith(
        "order is kept\n   1  kept     in order      MicroBatchScan[sequence#1L, key#2L, other#3L] class org.exa…"
    )


def test_an_unknown_node_is_refused() -> None:
    found = verdict(tree("Teleport [key#2L]", SCAN))
    assert found.culprit is not None
    assert (found.culprit.verdict, found.is_kept) == (OrderVerdict.UNKNOWN, False)
    nameless = verdict(tree("?? 17", SCAN))
    assert not nameless.is_kept


def test_a_sort_by_key_and_sequence_restores_what_an_exchange_by_key_has_lost() -> None:
    both = "Sort [key#2L ASC NULLS FIRST, sequence#1L ASC NULLS FIRST], false, 0"
    assert verdict(tree(both, EXCHANGE, "Teleport", SCAN)).is_kept
    for wrong in (
        "Sort [key#2L ASC NULLS FIRST], false, 0",
        "Sort [key#2L ASC NULLS FIRST, sequence#1L DESC NULLS LAST], false, 0",
        "Sort [other#3L ASC NULLS FIRST, sequence#1L ASC NULLS FIRST], false, 0",
        "Sort [(key#2L + 1) ASC NULLS FIRST, sequence#1L ASC NULLS FIRST], false, 0",
        "Sort",
    ):
        assert not verdict(tree(wrong, EXCHANGE, SCAN), source="keys").is_kept
    assert not verdict(tree(both, "Exchange RoundRobinPartitioning(2)", SCAN)).is_kept
    assert not verdict(tree(both, "Exchange hashpartitioning(other#3L, 3)", SCAN)).is_kept


@pytest.mark.parametrize(
    ("exchange", "kept"),
    [
        ("hashpartitioning(key#2L, 3)", True),
        ("hashpartitioning(key#2L, other#3L, 3)", False),
        ("hashpartitioning(pmod(key#2L, 2), 3)", False),
        ("hashpartitioning(3)", False),
        ("SinglePartition", True),
        ("rangepartitioning(sequence#1L ASC NULLS FIRST, 3)", True),
        ("rangepartitioning(sequence#1L DESC NULLS LAST, 3)", False),
        ("rangepartitioning(key#2L ASC NULLS FIRST, 3)", False),
        ("KeyedPartitioning(key#2L", False),
    ],
)
def test_exchanges_of_a_source_with_each_key_in_one_partition(exchange: str, *, kept: bool) -> None:
    assert verdict(tree(f"Exchange {exchange}, X, [plan_id=1]", SCAN), source="keys").is_kept is kept


def test_adaptive_reads() -> None:
    for how, kept in {"": True, " coalesced": True, " local": False, " coalesced and skewed": False}.items():
        assert (
            verdict(tree(f"AQEShuffleRead{how}", "ShuffleQueryStage 0", EXCHANGE, SCAN), source="keys").is_kept is kept
        )


def test_columns_are_followed_through_other_names() -> None:
    renamed = tree(
        "Project [s#7L AS sequence#8L, k#9L AS key#10L]",
        "Exchange hashpartitioning(k#9L, 3)",
        "Project [sequence#1L AS s#7L, key#2L AS k#9L]",
        SCAN,
    )
    assert verdict(renamed, source="keys").is_kept
    computed = tree("Project [sequence#1L, (a#4L % 5) AS key#5L]", "Exchange hashpartitioning(a#4L, 3)", SCAN)
    assert not verdict(computed, source="keys").is_kept
    made = tree("MapInPandas f(x#1)#9, [sequence#11L, key#12L], false", EXCHANGE, SCAN)
    assert verdict(made, source="keys").is_kept
    assert verdict("MapInPandas f(x#1)#9, [sequence#11L, key#12L], false").culprit is not None
    cut = tree("Project [sequence#1L, ... 30 more fields]", EXCHANGE, SCAN)
    assert not verdict(cut, source="keys").is_kept
    twice = "BroadcastHashJoin [key#2L], [key#20L], Inner, BuildRight, false\n:- " + EXCHANGE + "\n:  +- " + SCAN
    twice += "\n+- BroadcastExchange\n   +- LocalTableScan [key#20L]"
    assert not verdict(twice, source="keys").is_kept  # two columns have the name


def test_a_union_takes_columns_by_their_place() -> None:
    inputs = [f"MicroBatchScan[sequence#{n}1L, key#{n}2L, other#{n}3L] class org.example.Scan" for n in (4, 5)]
    exchanged = f"Exchange hashpartitioning(key#52L, 2)\n   +- {inputs[1]}"
    union = f"Union\n:- {inputs[0]}\n+- {exchanged}"
    assert verdict(union, source="keys").is_kept
    assert not verdict(union.replace("(key#52L", "(other#53L"), source="keys").is_kept
    assert verdict(
        f"Exchange hashpartitioning(key#42L, 2)\n+- {union}".replace("\n", "\n   ").replace("   +- Union", "+- Union"),
        source="keys",
    ).is_kept
    narrower = union.replace(", other#53L]", "]")
    assert not verdict(narrower, source="keys").is_kept
    assert verdict("Union").culprit is not None


def test_functions_of_a_key() -> None:
    sort = "Sort [key#2L ASC NULLS FIRST], false, 0"
    head = "FlatMapGroupsInPandas [key#2L], {}(sequence#1L, key#2L)#9, [sequence#11L, key#12L]"
    assert not verdict(tree(head.format("total"), sort, EXCHANGE, SCAN), source="keys").is_kept
    assert verdict(tree(head.format("in_sequence_total"), sort, EXCHANGE, SCAN)).is_kept
    assert verdict(tree(head.format("total"), sort, EXCHANGE, SCAN), in_sequence=("total",)).is_kept
    assert not verdict(tree(head.format("in_sequence_total"), sort, EXCHANGE, SCAN), keys=()).is_kept
    both = "Sort [key#2L ASC NULLS FIRST, sequence#1L ASC NULLS FIRST], false, 0"
    assert verdict(tree(head.format("total"), both, EXCHANGE, SCAN)).is_kept
    with_state = "!FlatMapGroupsInPandasWithState in_sequence_f(sequence#1L)#9, [key#2L], [sequence#11L, key#12L], []"
    assert verdict(tree(with_state, sort, EXCHANGE, SCAN)).is_kept
    assert not verdict(tree("FlatMapGroupsInPandas", sort, EXCHANGE, SCAN)).is_kept


def test_a_join_keeps_its_streamed_side() -> None:
    def join(node: str) -> str:
        left, right = tree(SCAN), tree("Exchange RoundRobinPartitioning(2)", "LocalTableScan [key#20L, name#21]")
        return f"{node}\n:- {left}\n+- " + right.replace("\n", "\n   ")

    assert verdict(join("BroadcastHashJoin [key#2L], [key#20L], LeftOuter, BuildRight"), keys=()).is_kept
    assert not verdict(join("BroadcastHashJoin [key#2L], [key#20L], RightOuter, BuildLeft"), keys=()).is_kept
    assert not verdict(join("SortMergeJoin [key#2L], [key#20L], RightOuter"), keys=()).is_kept
    assert verdict(join("SortMergeJoin [key#2L], [key#20L], Inner"), keys=()).is_kept
    assert not verdict(join("SortMergeJoin [key#2L], [key#20L], FullOuter"), keys=()).is_kept
    assert not verdict("BroadcastHashJoin Inner").is_kept


def test_coalesce_needs_partitions_that_may_be_read_anywhere() -> None:
    near = SCAN.replace("org.example.Scan", "org.apache.spark.sql.kafka010.KafkaScan")
    assert not verdict(tree("Coalesce 2", near)).is_kept
    assert verdict(tree("Coalesce 2", near), source="keys").is_kept
    assert verdict(tree("Coalesce 2", SCAN.replace("org.example", "io.sos.spark"))).is_kept


def test_rows_of_another_plan() -> None:
    plan = tree("Filter (key#2L > 1)", "Scan ExistingRDD[sequence#1L,key#2L]")
    assert not verdict(plan).is_kept
    assert verdict(plan, scanned=Rows(in_order=True, layout=Layout.TOGETHER)).is_kept
    assert not verdict(tree(SCAN, "InMemoryRelation")).is_kept


def test_the_text_of_a_plan() -> None:
    adaptive = (
        "== Physical Plan ==\nAdaptiveSparkPlan isFinalPlan=true\n+- == Final Plan ==\n   ResultQueryStage 1\n"
        f"   +- {SCAN}\n+- == Initial Plan ==\n   Exchange RoundRobinPartitioning(2)\n   +- Range (0, 9)\n\n"
    )
    assert verdict(adaptive).is_kept
    assert [node.text.split()[0] for node in verdict(adaptive).nodes] == [
        "AdaptiveSparkPlan",
        "ResultQueryStage",
        "MicroBatchScan[sequence#1L,",
    ]
    inside = f"Union\n:- AdaptiveSparkPlan\n:  +- == Initial Plan ==\n:     Range (0, 9)\n+- {SCAN}"
    assert [child.name for child in parse_plan(inside).children] == ["AdaptiveSparkPlan", "MicroBatchScan"]
    with pytest.raises(ValueError, match="no plan"):
        parse_plan("== Physical Plan ==\n\n")
    with pytest.raises(ValueError, match="line 2 of the plan has no line above it"):
        parse_plan("Range (0, 9)\nRange (0, 9)")


def test_parts_of_a_line() -> None:
    assert split_list("a, f(b, c), [d, e]") == ["a", "f(b, c)", "[d, e]"]
    assert split_list("") == []
    assert lists_in("X [a, b], f([c]), [d]") == [["a", "b"], ["d"]]
    assert attribute("window#123-T1000ms") == attribute("window#123")
    assert attribute("(a#1 + 1)") is None
    generated = parse_plan(tree("Generate posexplode([1,2]), [key#2L], false, [pos#22]", SCAN))
    assert [one.name for one in output_of(generated)] == ["sequence", "key", "other", "pos"]
    assert output_of(parse_plan("Project")) == []
    assert output_of(parse_plan(tree("MapInArrow f()#2", SCAN))) == []


def test_every_node_is_in_the_table_of_the_document() -> None:
    table = table_of_nodes()
    assert all(f"`{name}`" in table for name in NODES)
    assert table in (ROOT / "docs" / "order.md").read_text(encoding="utf-8")


def test_a_plan_that_does_not_say_what_its_nodes_do_is_told_from_others() -> None:
    formatted = (
        "== Physical Plan ==\n* Project (2)\n+- StreamingRelation (1)\n\n\n(1) StreamingRelation\nOutput [1]: [a#0]\n"
    )
    with pytest.raises(ValueError, match=r"spark\.sql\.ui\.explainMode=simple"):
        parse_plan(formatted)
    everything = "== Parsed Logical Plan ==\nRepartition 2, true\n+- Relation [a#0]\n\n== Physical Plan ==\n" + tree(
        SCAN
    )
    assert parse_plan(everything).name == parse_plan(tree(SCAN)).name


@pytest.mark.parametrize(("arguments", "code"), [(["--key", "key", "--source", "keys"], 0), ([], 1)])
def test_the_command(tmp_path: Path, arguments: list[str], code: int) -> None:
    (tmp_path / "plan").write_text(tree(EXCHANGE, SCAN), encoding="utf-8")
    command = [sys.executable, "-m", "spark_integration.order", str(tmp_path / "plan"), *arguments]
    run = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == code
    assert json.loads(run.stdout)["order"] == ("refused" if code else "kept")
    assert (
        "no plan"
        in subprocess.run(
            [sys.executable, "-m", "spark_integration.order", "-"],
            cwd=ROOT,
            input="",
            capture_output=True,
            text=True,
            check=False,
        ).stderr
    )
