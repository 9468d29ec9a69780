"""spark-conf: the settings it prints, those it refuses to print, and its hint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.journal.cli.conftest import RunMain


def test_spark_conf_hints_at_a_path_never_at_the_root(run_main: RunMain) -> None:
    options = ("--service", "a:7420", "--spark-version", "4.1.1")
    assert (
        "checkpointLocation = sos://payments/NAME-OF-THE-QUERY" in run_main("spark-conf", "payments", *options).stderr
    )
    hint = run_main("spark-conf", "sos://payments/q1", *options).stderr
    assert hint.rstrip().endswith("checkpointLocation = sos://payments/q1")


def test_spark_conf_prints_settings(run_main: RunMain) -> None:
    ended = run_main("spark-conf", "sos://payments", "--service", "a:7420,b:7420", "--spark-version", "4.1.1", "--json")
    settings = json.loads(ended.stdout)
    assert settings["spark.hadoop.fs.sos.service"] == "a:7420,b:7420"
    assert "checkpointing" in settings["spark.sql.streaming.checkpointFileManagerClass"]
    text = run_main("spark-conf", "payments", "--service", "a:7420", "--spark-version", "4.0.2", "--format", "submit")
    assert text.stdout.startswith("--conf spark.sql.streaming.checkpointFileManagerClass=")


def test_spark_conf_prints_no_settings_that_the_shim_refuses(run_main: RunMain) -> None:
    asked = ["spark-conf", "payments", "--service", "a:7420", "--token-file", "/etc/t", "--spark-version", "4.1.1"]
    ended = run_main(*asked)
    assert ended.exit_code == 2
    assert "in clear" in ended.stderr
    assert "spark.hadoop.fs.sos.insecure true" in run_main(*asked, "--insecure").stdout
    assert "insecure" not in run_main(*asked, "--tls").stdout
