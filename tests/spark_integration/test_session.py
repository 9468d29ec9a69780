"""What with_sos_checkpoints decides, without starting Spark or anything else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from pyspark.sql import SparkSession

from sos_client.command.parameters import Size
from sos_client.serving.access import AccessRules
from spark_integration import SessionError, session, with_sos_checkpoints
from spark_integration.beside_driver import Wanted, programs
from spark_integration.run_credentials import make_run_credentials

_TOKEN = "ab" * 32


@pytest.fixture(autouse=True)
def _no_spark_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests may run Spark in this process; these are about a process that has not started it yet."""
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    monkeypatch.setattr("pyspark.SparkContext._jvm", None)
    for name in ("SPARK_REMOTE", "MASTER", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_LOCAL_IP"):
        monkeypatch.delenv(name, raising=False)


def _options(builder: SparkSession.Builder) -> dict[str, str]:
    return dict(builder._options)


def test_running_service_needs_settings_only() -> None:
    builder = with_sos_checkpoints(SparkSession.builder.master("local[2]"), volume="v", service=["a:7500", "b:7500"])
    options = _options(builder)
    assert options["spark.hadoop.fs.sos.service"] == "a:7500,b:7500"
    assert options["spark.hadoop.fs.sos.impl"] == "io.sos.spark.SosFileSystem"
    assert options["spark.sql.streaming.checkpointFileManagerClass"].endswith("SosCheckpointFileManager")
    assert options["spark.jars"].endswith(".jar")
    assert options["spark.master"] == "local[2]"


def test_token_is_no_setting_since_settings_are_on_the_jvms_command_line() -> None:
    builder = with_sos_checkpoints(
        SparkSession.builder.master("local"), volume="v", service=["localhost:1"], token=_TOKEN
    )
    assert _TOKEN not in "".join(_options(builder).values())


@pytest.mark.parametrize("where", ["servers", "service"])
def test_a_token_does_not_leave_this_host_without_tls(where: str) -> None:
    there: dict[str, Any] = {where: ["127.0.0.1:1", "elsewhere:1"]}
    with pytest.raises(SessionError, match="would go to elsewhere:1 in clear"):
        with_sos_checkpoints(SparkSession.builder.master("local"), volume="v", token=_TOKEN, **there)


def test_a_token_goes_where_it_is_let_and_the_shim_is_told() -> None:
    builder = SparkSession.builder.master("local")
    told = with_sos_checkpoints(builder, volume="v", service=["elsewhere:1"], token=_TOKEN, insecure=True)
    assert _options(told)["spark.hadoop.fs.sos.insecure"] == "true"


def test_other_jars_stay() -> None:
    builder = SparkSession.builder.config("spark.jars", "/x/other.jar")
    options = _options(with_sos_checkpoints(builder, volume="v", service=["a:1"]))
    assert options["spark.jars"].startswith("/x/other.jar,")


def test_jars_that_spark_submit_was_given_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    submitted = {"spark.jars": "/x/kafka.jar"}
    monkeypatch.setattr(session, "submitted", submitted.get)
    options = _options(with_sos_checkpoints(SparkSession.builder.master("local"), volume="v", service=["a:1"]))
    assert options["spark.jars"].startswith("/x/kafka.jar,")
    submitted["spark.jars"] = "/x/kafka.jar,local:///opt/sos-spark.jar"
    options = _options(with_sos_checkpoints(SparkSession.builder.master("local"), volume="v", service=["a:1"]))
    assert options["spark.jars"] == "/x/kafka.jar,local:///opt/sos-spark.jar"


def test_jars_of_pysparks_own_arguments_would_win_over_the_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars /x/kafka.jar pyspark-shell")
    with pytest.raises(SessionError, match="PYSPARK_SUBMIT_ARGS"):
        with_sos_checkpoints(SparkSession.builder, volume="v", service=["a:1"])
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--jars=/x/kafka.jar,/x/sos-spark.jar pyspark-shell")
    with_sos_checkpoints(SparkSession.builder, volume="v", service=["a:1"])


@pytest.mark.parametrize("name", ["servers", "service"])
def test_addresses_are_a_list(name: str) -> None:
    addresses: dict[str, Any] = {name: "a:1,b:2"}
    with pytest.raises(SessionError, match=re.escape(f"{name}=['a:1', 'b:2']")):
        with_sos_checkpoints(SparkSession.builder, volume="v", **addresses)


def test_redaction_that_would_show_the_token_is_completed() -> None:
    builder = SparkSession.builder.config("spark.redaction.regex", "(?i)secret")
    options = _options(with_sos_checkpoints(builder, volume="v", service=["a:1"]))
    assert re.search(options["spark.redaction.regex"], "spark.hadoop.fs.sos.token")


def test_servers_and_service_exclude_each_other() -> None:
    with pytest.raises(SessionError, match="either"):
        with_sos_checkpoints(SparkSession.builder, volume="v", servers=["a:1"], service=["b:1"])


def test_connect_server_elsewhere_gets_its_settings_printed(capsys: pytest.CaptureFixture[str]) -> None:
    builder = SparkSession.builder.config("spark.remote", "sc://somewhere:15002")
    before = _options(builder)
    assert with_sos_checkpoints(builder, volume="v", service=["a:7500"]) is builder
    assert _options(builder) == before
    said = capsys.readouterr().err
    assert "spark.hadoop.fs.sos.service a:7500" in said
    assert "nothing is started here" in said
    assert "authorities" not in said
    with_sos_checkpoints(builder, volume="v", service=["a:7500"], authorities="-----BEGIN …")
    assert "spark.hadoop.fs.sos.tls.authorities.file /path/to/authorities.pem" in capsys.readouterr().err
    with pytest.raises(SessionError, match="sos-journal serve"):
        with_sos_checkpoints(builder, volume="v")


def test_running_spark_without_the_shim_is_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", object())
    with pytest.raises(SessionError, match="before the first"):
        with_sos_checkpoints(SparkSession.builder, volume="v", service=["a:1"])


@pytest.mark.parametrize(
    ("options", "here"),
    [
        ({}, True),
        ({"spark.master": "local[4]"}, True),
        ({"spark.master": "local-cluster[2,1,1024]"}, True),
        ({"spark.remote": "local[*]"}, True),
        ({"spark.master": "spark://a:7077"}, False),
        ({"spark.master": "k8s://https://a"}, False),
        ({"spark.master": "yarn"}, False),
    ],
)
def test_executors_on_other_hosts_are_told_by_the_master(options: dict[str, str], *, here: bool) -> None:
    builder = SparkSession.builder.config(map=options)
    assert session._target_of(builder).executors_are_here is here


def _wanted(
    tmp_path: Path, *, servers: tuple[str, ...], host: str = "127.0.0.1", authorities: str | None = None
) -> Wanted:
    return Wanted(
        volume="v",
        servers=servers,
        server_token=_TOKEN,
        server_authorities=authorities,
        directory=tmp_path,
        host=host,
    )


FILES_OF_A_JOIN = 160_400
"""200 partitions, four stores in each, by docs/scale.md."""
BYTES_OF_A_FILE = 512
"""In the tree, as --help of sos-journal serve says."""


def test_embedded_starts_a_server_and_a_service_on_loopback(tmp_path: Path) -> None:
    credentials = make_run_credentials(tmp_path, volume="v", certified_host=None)
    server, service, relay = programs(_wanted(tmp_path, servers=()), credentials, tmp_path)
    assert server["name"] == "sos-server"
    assert "{sos-server}" in service["command"]
    assert "{sos-journal}" in relay["command"]
    assert [each["on_demand"] for each in (server, service, relay)] == [False, False, True]
    assert {each["host"] for each in (server, service, relay)} == {"127.0.0.1"}
    for program in (server, service, relay):
        assert {"--tokens", str(credentials.tokens_file)} <= set(program["command"])
    tree_bytes = Size().convert(service["command"][service["command"].index("--tree-bytes-max") + 1], None, None)
    assert tree_bytes > 3 * FILES_OF_A_JOIN * BYTES_OF_A_FILE
    for program in (server, service, relay):
        assert credentials.token not in str(program)


def test_each_shard_has_a_process_and_the_relay_knows_all(tmp_path: Path) -> None:
    credentials = make_run_credentials(tmp_path, volume="v", certified_host=None)
    wanted = replace(_wanted(tmp_path, servers=("a:1",)), shards=3, web="127.0.0.1:7480")
    *services, relay = programs(wanted, credentials, tmp_path)
    assert [each["name"] for each in services] == ["sos-journal", "sos-journal-1", "sos-journal-2"]
    for number, service in enumerate(services):
        command = service["command"]
        assert command[command.index("--shards") + 1] == "3"
        assert command[command.index("--shard") + 1] == str(number)
        assert ("--web" in command) is (number == 0)
    assert "{sos-journal},{sos-journal-1},{sos-journal-2}" in relay["command"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [({"shards": 1}, "2 to 64 shards"), ({"shards": 2, "service": ["a:1"]}, "those that run know")],
)
def test_shards_that_cannot_be(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SessionError, match=sentence):
        with_sos_checkpoints(SparkSession.builder, volume="v", **given)


def test_replicated_starts_no_server(tmp_path: Path) -> None:
    credentials = make_run_credentials(tmp_path, volume="v", certified_host=None)
    service, _ = programs(_wanted(tmp_path, servers=("a:7400", "b:7400")), credentials, tmp_path)
    assert "--tokens" in service["command"]
    assert {"a:7400", "b:7400"} <= set(service["command"])
    assert "--tls-ca" not in service["command"]


def test_servers_are_reached_by_tls_when_it_is_said_whom_to_trust(tmp_path: Path) -> None:
    wanted = _wanted(tmp_path, servers=("a:7400",), authorities="-----BEGIN …")
    service, _ = programs(wanted, make_run_credentials(tmp_path, volume="v", certified_host=None), tmp_path)
    assert service["command"][-2] == "--tls-ca"
    assert Path(service["command"][-1]).read_text() == "-----BEGIN …"


def test_how_long_the_past_is_kept_is_told_to_the_service_that_is_started(tmp_path: Path) -> None:
    wanted = _wanted(tmp_path, servers=())
    credentials = make_run_credentials(tmp_path, volume="v", certified_host=None)
    assert not any("--keep-for" in program["command"] for program in programs(wanted, credentials, tmp_path))
    _, service, _ = programs(replace(wanted, keep_for="7d"), credentials, tmp_path)
    assert service["command"][-2:] == ["--keep-for", "7d"]
    with pytest.raises(SessionError, match="keep_for"):
        with_sos_checkpoints(SparkSession.builder, volume="v", service=["a:1"], keep_for="7d")


def test_a_relay_gets_what_it_needs_for_sinks_on_other_machines(tmp_path: Path) -> None:
    credentials = make_run_credentials(tmp_path, volume="v", certified_host=None)
    *_, relay = programs(_wanted(tmp_path, servers=()), credentials, tmp_path)
    assert "--insecure" not in relay["command"]
    wanted = replace(_wanted(tmp_path, servers=()), insecure=True, relay_options=("--spool-bytes", "50G"))
    *_, relay = programs(wanted, credentials, tmp_path)
    assert relay["command"][-3:] == ["--insecure", "--spool-bytes", "50G"]
    with pytest.raises(SessionError, match="relay_options"):
        with_sos_checkpoints(SparkSession.builder, volume="v", service=["a:1"], relay_options=["--sink-tls"])
    with pytest.raises(SessionError, match=r"relay_options is a list: relay_options=\['--spool-bytes', '50G'\]"):
        with_sos_checkpoints(SparkSession.builder, volume="v", relay_options="--spool-bytes 50G")


def test_a_listener_is_started_where_it_is_wanted(tmp_path: Path) -> None:
    wanted = replace(_wanted(tmp_path, servers=()), listen="127.0.0.1:7431", ingest_volume="v-ingest")
    credentials = make_run_credentials(tmp_path, volume="v", certified_host=None, ingest_volume="v-ingest")
    listener = programs(wanted, credentials, tmp_path)[2]
    assert (listener["name"], listener["says"]) == ("sos-listener", "files")
    assert {"127.0.0.1:7431", "v-ingest", "{sos-server}", "{listen}"} <= set(listener["command"])
    grant = AccessRules(credentials.tokens_file).authenticate(bytes.fromhex(credentials.token), now=0)
    assert grant.reaches("v-ingest")


@pytest.mark.parametrize(
    ("listen", "others", "sentence"),
    [
        ("0.0.0.0:7431", {}, "sources show no token there: say insecure=True"),
        ("127.0.0.1", {}, "the port is missing"),
        ("127.0.0.1:7431", {"service": ["a:1"]}, "beside the other"),
        ("127.0.0.1:7431", {"master": "spark://a:7077"}, "run `sos-connector listen` by itself"),
    ],
)
def test_a_listener_that_cannot_be(listen: str, others: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    builder = SparkSession.builder.master(others.pop("master", "local"))
    with pytest.raises(SessionError, match=sentence):
        with_sos_checkpoints(builder, volume="v", directory=tmp_path, listen=listen, **others)


def test_what_was_wanted_can_be_told_without_its_token(tmp_path: Path) -> None:
    assert _TOKEN not in repr(_wanted(tmp_path, servers=("a:7400",)))


@pytest.mark.parametrize("host", ["192.0.2.7", "driver.example.org"])
def test_beyond_loopback_there_is_a_certificate_and_a_token_for_the_run(tmp_path: Path, host: str) -> None:
    credentials = make_run_credentials(tmp_path, volume="v", certified_host=host)
    service, _ = programs(_wanted(tmp_path, servers=("a:1",), host=host), credentials, tmp_path)
    certificate = credentials.certificate
    assert certificate is not None
    assert service["host"] == host
    assert credentials.token_file.stat().st_mode & 0o077 == 0
    for path in (certificate.file, certificate.key_file, credentials.tokens_file):
        assert str(path) in service["command"]
        assert path.stat().st_mode & 0o077 == 0
    assert credentials.token not in str(service)
    names = x509.load_pem_x509_certificate(certificate.text.encode()).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert [str(name.value) for name in names.value] == [host]
    grant = AccessRules(credentials.tokens_file).authenticate(bytes.fromhex(credentials.token), now=0)
    assert grant.reaches("v")
    assert not grant.reaches("w")
    again = make_run_credentials(tmp_path, volume="v", certified_host=host)
    assert again.token != credentials.token


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ({"service": ["a:1"], "web": "127.0.0.1:7480"}, "web= is for a service that is started here"),
        ({"web": "7480"}, "web=: '7480': the port is missing"),
    ],
)
def test_a_page_is_of_what_is_started_here(wanted: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SessionError, match=re.escape(complaint)):
        with_sos_checkpoints(SparkSession.builder.master("local"), volume="v", **wanted)
