"""What becomes of figures: tables, charts, and the parts of the document between markers."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks import charts
from tests.benchmarks.comparison import Result, figure
from tests.benchmarks.curves import Chart, Curve, read_bytes, read_charts, write_charts
from tests.benchmarks.profiles import Line, Profile, lines_of
from tests.benchmarks.svg import BAR_SCALE_MAX, Bar, bar_chart, line_chart, nice_top, short

if TYPE_CHECKING:
    from pathlib import Path

RESULT = Result(
    name="appends",
    ours=12_345.6,
    peer=1000.0,
    peer_name="Redis",
    unit="1/s",
    ratio=12.3456,
    goal=8.0,
    suite="appends",
    rounds=3,
    ratios=[12.0, 12.3456, 13.5],
    generator_share=0.5,
    stolen=0.0,
)
CHART = Chart(
    key="stored",
    title="Appends < reads & others",
    x="stored",
    y="per second",
    unit_of_x="bytes",
    curves=(
        Curve(name="ours", points=((1 << 20, 10.0), (1 << 30, 20.0))),
        Curve(name="theirs", points=((1 << 20, 5.0),)),
    ),
    note="Sparse.",
)
PROFILE = Profile(
    path="append",
    what="appends",
    process="sos",
    operation="append",
    per_second=1000.0,
    user_microseconds=6.0,
    system_microseconds=4.0,
    lines=(Line(where="disk: write", share=0.25),),
)


def test_a_goal_is_a_row_with_its_verdict() -> None:
    rows = charts.goals_table([RESULT, replace(RESULT, ratio=7.99), replace(RESULT, goal=None)]).splitlines()
    assert rows[2] == "| appends | 12,346 | Redis: 1,000 | 1/s | 12.35 | 8 | 12.00 – 13.50 | **reached** |"
    assert rows[3].endswith("| 7.99 | 8 | 12.00 – 13.50 | not reached |")
    assert len(rows) == 4


def test_what_has_no_goal_is_in_the_other_table() -> None:
    assert charts.others_table([RESULT]) == "None."
    assert "| appends | 12,346 | Redis: 1,000 | 1/s |" in charts.others_table([replace(RESULT, goal=None)])


def test_a_bar_does_not_end_a_cell() -> None:
    assert charts.table(["a"], [["x | y"]]).splitlines()[-1] == "| x \\| y |"


def test_the_text_between_markers_is_replaced_and_nothing_else() -> None:
    begin, end = "<!-- goals: written by `python -m tests.benchmarks.charts` -->", "<!-- end of goals -->"
    text = f"before\n{begin}\nold\n{end}\nafter\n"
    once = charts.between_markers(text, "goals", "new\n")
    assert once == f"before\n{begin}\n\nnew\n\n{end}\nafter\n"
    assert charts.between_markers(once, "goals", "new") == once


@pytest.mark.parametrize(
    "text", ["", "<!-- end of goals -->", "<!-- goals: written by `python -m tests.benchmarks.charts` -->"]
)
def test_markers_that_are_missing_are_said(text: str) -> None:
    with pytest.raises(ValueError, match="goals"):
        charts.between_markers(text, "goals", "new")


def test_charts_are_well_formed_have_every_point_and_do_not_change() -> None:
    drawn = line_chart(CHART)
    root = ElementTree.fromstring(drawn)
    words = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert len([element for element in root.iter() if element.tag.endswith("circle")]) == 3
    assert {"Appends < reads & others", "1 MiB", "1 GiB", "ours", "theirs"} <= set(words)
    assert line_chart(CHART) == drawn
    assert "prefers-color-scheme: dark" in drawn


def test_points_lie_where_their_values_are() -> None:
    chart = replace(CHART, curves=(Curve(name="a", points=((1.0, 0.0), (10.0, 50.0), (100.0, 100.0))),), unit_of_x="")
    circles = [e for e in ElementTree.fromstring(line_chart(chart)).iter() if e.tag.endswith("circle")]
    x = [float(circle.get("cx", "")) for circle in circles]
    y = [float(circle.get("cy", "")) for circle in circles]
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.2)  # logarithmic
    assert y[0] - y[1] == pytest.approx(y[1] - y[2], abs=0.2)
    assert y[0] > y[2]  # upwards


def test_a_distribution_has_per_cent_upwards_and_round_numbers_across() -> None:
    curves = tuple(
        Curve(name=name, points=((1.0, 400.0 + more), (50.0, 800.0 + more), (99.0, 1900.0)))
        for name, more in (("a", 0), ("b", 9))
    )
    chart = replace(CHART, curves=curves, unit_of_x="", x="per cent", y="ms", distribution=True)
    root = ElementTree.fromstring(line_chart(chart))
    across = {"0", "400", "800", "1,200", "1,600", "2,000"}
    words = [str(element.text) for element in root.iter() if element.tag.endswith("text")]
    assert [word for word in words if word in across] == ["0", "0", "400", "800", "1,200", "1,600", "2,000"]
    circles = [element for element in root.iter() if element.tag.endswith("circle")]
    x, y = ([float(circle.get(name, "")) for circle in circles[:3]] for name in ("cx", "cy"))
    assert x[1] - x[0] == pytest.approx((x[2] - x[0]) * 4 / 15, abs=0.2)
    assert y[0] - y[1] == pytest.approx(y[1] - y[2], abs=0.2)
    assert y[0] > y[2]


def test_one_point_can_be_drawn() -> None:
    ElementTree.fromstring(line_chart(replace(CHART, curves=(Curve(name="a", points=((5.0, 0.0),)),))))


def test_a_bar_is_as_long_as_its_part_of_the_goal() -> None:
    bars = [Bar(name="a", of_goal=0.5, told="1 of 2"), Bar(name="b", of_goal=1.0, told="2 of 2")]
    bars.append(Bar(name="c", of_goal=10 * BAR_SCALE_MAX, told="much"))
    root = ElementTree.fromstring(bar_chart("Goals", bars))
    found = [element for element in root.iter() if element.tag.endswith("rect")]
    widths = [float(bar.get("width", "")) for bar in found]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.2)
    assert widths[2] == pytest.approx(BAR_SCALE_MAX * widths[1], abs=0.2)
    assert found[0].get("class") != found[1].get("class")


@pytest.mark.parametrize(
    ("value", "top"), [(0.0, 1.0), (0.9, 1.0), (1.0, 1.0), (11.0, 20.0), (2001.0, 2500.0), (8.1, 10.0)]
)
def test_axes_end_at_round_numbers(value: float, top: float) -> None:
    assert nice_top(value) == pytest.approx(top)


def test_numbers_are_written_as_people_read_them() -> None:
    assert [short(1.5e6), short(20_000), short(1234.56), short(0.25)] == ["1.5 M", "20 k", "1235", "0.25"]
    assert [figure(1234.5), figure(12.345)] == ["1,234", "12.3"]
    assert [read_bytes(512), read_bytes(1 << 20), read_bytes(100 << 30), read_bytes(1 << 40)] == [
        "512 B", "1 MiB", "100 GiB", "1 TiB",
    ]  # fmt: skip


def test_charts_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    write_charts(tmp_path / "growth.json", [CHART])
    assert read_charts(tmp_path / "growth.json") == [CHART]


def test_growth_tells_every_figure() -> None:
    told = charts.growth_section([replace(CHART, curves=CHART.curves[:1])])
    assert "![Appends < reads & others](performance/stored.svg)" in told
    assert "| per second, by stored | 1 MiB | 1 GiB |" in told
    assert "| ours | 10 | 20 |" in told
    assert told.endswith("Sparse.")


def test_a_profile_tells_microseconds() -> None:
    assert "| `disk: write` | 25.0% | 2.50 |" in charts.profile_tables([PROFILE])


def test_samples_are_weighed_with_what_their_thread_computed() -> None:
    stacks = (
        "thread (7): MainThread;run (trio/_core/_run.py:1);parse (sos_client/wire/frames.py) 30\n"
        "thread (7): MainThread;run (trio/_core/_run.py:1);send (sos_client/stream.py) 10\n"
        "thread (8): sync log/0001;_work (journal/sync_thread.py:40) 1000\n"
    )
    found = lines_of(stacks, {7: 4.0, 8: 1.0, 9: 0.0})
    assert found == (
        Line(where="wire.frames: parse", share=0.6),
        Line(where="journal.sync_thread: _work", share=0.2),
        Line(where="sos_client.stream: send", share=0.2),
    )


def test_everything_follows_from_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = tmp_path / "performance.md"
    document.write_text(charts.DOCUMENT.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(charts, "DOCUMENT", document)
    (tmp_path / "machine.json").write_text(json.dumps({"memory": "24 GiB"}))
    (tmp_path / "bench.json").write_text(json.dumps([asdict(RESULT)]))
    (tmp_path / "profiles.json").write_text(json.dumps([asdict(PROFILE)]))
    write_charts(tmp_path / "growth.json", [CHART])
    files = charts.rendered(tmp_path)
    assert {path.name for path in files} == {"goals.svg", "stored.svg", "performance.md"}
    document.write_text(files[document], encoding="utf-8")
    assert charts.rendered(tmp_path)[document] == files[document]


@pytest.mark.skipif(not (charts.FIGURES / "bench.json").exists(), reason="no figures are kept beside the document")
def test_the_document_says_what_the_figures_beside_it_say() -> None:
    wrong = [path.name for path, text in charts.rendered(charts.FIGURES).items() if path.read_text("utf-8") != text]
    assert not wrong, "run: python -m tests.benchmarks.charts"
