"""with_sos_checkpoints: a session builder whose streaming queries keep their checkpoints on a volume.

Decides what must be started and which settings Spark needs; starting is beside_driver's, the settings' text is
journal/spark_settings's.
"""

from __future__ import annotations

import os
import shlex
import socket
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark.sql import SparkSession

from journal.checkpoint.spark_settings import (
    HADOOP_PREFIX,
    REDACTION_SETTING,
    SERVICE_KEY,
    TOKEN_KEY,
    SparkAccess,
    as_properties,
    redaction_with_tokens,
    spark_settings,
)
from journal.records.shards import SHARDS_MAX
from sos_client.clear_text import leaves_this_host
from sos_client.net.addresses import parse_address
from sos_client.serving.kept_port import KeptPort
from sos_client.settings import SettingsError
from spark_integration.beside_driver import LOOPBACK, BesideDriver, Wanted, start_beside_driver
from spark_integration.driver_jvm import SHIM_JAR, SessionError, check_jvm, submitted
from spark_integration.jar import jar_path
from spark_integration.pyspark_private import builder_options, running_context, set_hadoop_setting, share_options
from spark_integration.run_profile import PROFILES_NAME, forget, tell_this_process, write_run_profile

if TYPE_CHECKING:
    from collections.abc import Sequence

_JARS_SETTING: Final = "spark.jars"
_SAME_HOST_MASTERS: Final = ("local",)  # local, local[N], local-cluster[...]
_EMBEDDED_NOTICE: Final = (
    "sos: embedded: the checkpoints of volume {volume!r} are kept on this machine alone, in {directory}. They survive "
    "the end of Spark and of this process. They do not survive the loss of this machine or disk: give servers=[...] "
    "for that."
)
_SERVERS_NOTICE: Final = "sos: the checkpoints of volume {volume!r} are kept on {servers}."
_INSIDE_NOTICE: Final = (
    "sos: a journal service runs here at {service}; to look inside from a shell while it does: "
    "export SOS_PROFILES={profiles}; sos-journal batches sos://{volume}"
)
_NO_WEB_NOTICE: Final = 'sos: web="127.0.0.1:7480" would serve a page, health and metrics (/metrics) of it.'
_WEB_NOTICE: Final = "sos: the page of volume {volume!r}: {url} (it asks for the token: cat {token_file})"
_LISTENING_NOTICE: Final = (
    "sos: a listener takes messages at {0} into volume {1!r}: sos-connector send FILE --to {0}; read them with "
    'spark.readStream.format("sos-connector"), and look at it with sos-connector status {1} --service {2}'
)

_lock = threading.Lock()
_running: dict[str, BesideDriver] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """Where Spark runs, as far as the builder tells."""

    master: str
    remote: str | None

    @property
    def is_elsewhere(self) -> bool:
        """A Spark Connect server that somebody else runs."""
        return self.remote is not None and not self.remote.startswith("local")

    @property
    def executors_are_here(self) -> bool:
        return (self.remote or self.master).startswith(_SAME_HOST_MASTERS)


def with_sos_checkpoints(
    builder: SparkSession.Builder,
    *,
    volume: str,
    servers: Sequence[str] = (),
    service: Sequence[str] = (),
    token: str | None = None,
    authorities: str | None = None,
    directory: str | Path | None = None,
    keep_for: str | None = None,
    insecure: bool = False,
    web: str | None = None,
    listen: str | None = None,
    listen_volume: str | None = None,
    relay_options: Sequence[str] = (),
    shards: int | None = None,
) -> SparkSession.Builder:
    """The builder, told to keep checkpoints of `sos://VOLUME/...`; call getOrCreate() on what is returned.

    Nothing given: embedded; starts an SOS server and a journal service beside this driver, on this machine only.
    `servers`: starts a journal service here, which keeps `volume` (made by `sos-journal create`) on those SOS servers.
    `service`: starts nothing; a journal service runs at these addresses. `token` and `authorities` (certificates to
    trust, as PEM text; with them TLS is spoken) are for the servers or the service, whichever is given; without TLS a
    token goes to this host only, unless `insecure`. `keep_for`, such as "7d", is how long the volume's past is kept
    (else as it was made: embedded, for ever). `web`, such as "127.0.0.1:7480": where what is started here serves its
    page. `shards`: the volume is spread over so many journals, a process each (as it was made; embedded: is made now).

    `listen`, such as "127.0.0.1:7431": starts a listener, which sources need no token for (beyond this host it wants
    `insecure`), on the volume `listen_volume` (VOLUME-ingest); the source `sos-connector` finds it without options.
    Where a journal service is started, a relay is, too, when the first query needs one: a sink of
    `writeStream.format("sos-connector")`; `relay_options`, such as ["--sink-tls"] or ["--spool-bytes", "50G"], are for
    it, and `insecure` lets it reach sinks elsewhere without TLS. What was started ends with this process, however it
    ends. For a Spark Connect server elsewhere nothing is started; the settings that it needs are printed.
    """
    _check_given(service, servers, shards, keep_for=keep_for, web=web, listen=listen, relay_options=relay_options)
    _check_exposure((*servers, *service), token=token, encrypted=insecure or authorities is not None)
    target = _target_of(builder)
    _check_listening(listen, target, insecure=insecure)
    access = SparkAccess(service=tuple(service), token=token, authorities=authorities, insecure=insecure)
    if target.is_elsewhere:
        return _for_connect_elsewhere(builder, volume, access)
    check_jvm()
    _check_running_session(volume, tuple(service))
    access = replace(access, tls=authorities is not None)
    if not service:
        wanted = Wanted(
            volume=volume,
            servers=tuple(servers),
            server_token=token,
            server_authorities=authorities,
            directory=Path(directory) if directory is not None else default_directory(volume),
            host=LOOPBACK if target.executors_are_here else _own_host(builder),
            keep_for=keep_for,
            insecure=insecure,
            web=None if web is None else _web_address(web),
            relay_options=tuple(relay_options),
            shards=shards,
        )
        access = _started(_with_listener(wanted, listen, listen_volume))
    return _configured(builder, replace(access, jar=str(jar_path())))


def stop_beside_driver(volume: str) -> None:
    """End what with_sos_checkpoints started for the volume; without this it ends when the process does."""
    with _lock:
        running = _running.pop(volume, None)
    if running is not None:
        forget(running.folder / PROFILES_NAME)
        running.stop()


def default_directory(volume: str) -> Path:
    """Where an embedded volume lies, and the cache of a replicated one."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return data / "sos-checkpoints" / volume


def _web_address(text: str) -> str:
    """With a port: it is the same when what is started here is started again."""
    try:
        address = parse_address(text, what="web=")
    except SettingsError as error:
        raise SessionError(str(error)) from error
    if address.port:
        return text
    with KeptPort(address.host) as port:
        return str(replace(address, port=port.port))


def _with_listener(wanted: Wanted, listen: str | None, volume: str | None) -> Wanted:
    ingest_volume = volume or f"{wanted.volume}-ingest"
    return wanted if listen is None else replace(wanted, listen=listen, ingest_volume=ingest_volume)


def _started(wanted: Wanted) -> SparkAccess:
    with _lock:
        running = _running.get(wanted.volume)
        if running is None or not running.is_running():
            running = start_beside_driver(wanted)
            _running[wanted.volume] = running
            profiles = write_run_profile(running)
            tell_this_process(profiles)
            if wanted.is_embedded:
                _say(_EMBEDDED_NOTICE.format(volume=wanted.volume, directory=wanted.directory))
            else:
                _say(_SERVERS_NOTICE.format(volume=wanted.volume, servers=", ".join(wanted.servers)))
            where = {"service": ", ".join(running.services), "profiles": shlex.quote(str(profiles))}
            _say(_INSIDE_NOTICE.format(volume=wanted.volume, **where))
            if wanted.web is None:
                _say(_NO_WEB_NOTICE)
            else:
                scheme = "https" if running.credentials.certificate else "http"
                token_file = shlex.quote(str(running.credentials.token_file))
                _say(_WEB_NOTICE.format(volume=wanted.volume, url=f"{scheme}://{wanted.web}/", token_file=token_file))
            if wanted.listen is not None:
                _say(_LISTENING_NOTICE.format(wanted.listen, wanted.ingest_volume, running.files_address))
        elif running.wanted != wanted:
            raise SessionError(
                f"volume {wanted.volume!r} is already served for this process with other settings: {running.wanted}. "
                "Use those, or call stop_beside_driver() first."
            )
    credentials = running.credentials
    certificate = credentials.certificate
    return SparkAccess(
        service=running.services,
        relay=running.relay_address,
        ingest_volume=wanted.ingest_volume,
        ingest_service=running.files_address,
        token=credentials.token,
        authorities=certificate.text if certificate else None,
        tls=certificate is not None,
    )


def _configured(builder: SparkSession.Builder, access: SparkAccess) -> SparkSession.Builder:
    options = builder_options(builder)
    public = replace(access, token=None)
    for key, value in spark_settings(public, spark_version=pyspark.__version__).items():
        if key == _JARS_SETTING:
            value = _jars_with(value, options.get(key) or submitted(key))
        builder.config(key, value)
    redaction = redaction_with_tokens(options.get(REDACTION_SETTING) or submitted(REDACTION_SETTING))
    if redaction is not None:
        builder.config(REDACTION_SETTING, redaction)
    return _with_token(builder, access.token) if access.token is not None else builder


def _with_token(builder: SparkSession.Builder, token: str) -> SparkSession.Builder:
    """A builder that hands the token over inside the JVM: a setting would be on its command line, for all to see."""

    class BuilderWithToken(SparkSession.Builder):  # type: ignore[misc]
        def getOrCreate(self) -> SparkSession:  # noqa: N802 - PySpark's name
            session = super().getOrCreate()
            set_hadoop_setting(running_context(), TOKEN_KEY, token)
            return session

    with_token = BuilderWithToken()
    share_options(with_token, builder_options(builder))
    return with_token


def _for_connect_elsewhere(builder: SparkSession.Builder, volume: str, given: SparkAccess) -> SparkSession.Builder:
    if not given.service:
        raise SessionError(
            "With a Spark Connect server elsewhere nothing is started here: run `sos-journal serve` where that server "
            "can reach it, and give its address as service=[...]."
        )
    access = SparkAccess(
        service=given.service,
        jar=str(jar_path()),
        token_file="/path/to/token" if given.token else None,
        authorities_file="/path/to/authorities.pem" if given.authorities else None,
        tls=given.authorities is not None,
        insecure=given.insecure,
    )
    text = as_properties(spark_settings(access, spark_version=pyspark.__version__))
    _say(
        f"sos: the Spark Connect server decides where checkpoints of sos://{volume}/ are kept; nothing is started "
        f"here. It needs these settings (spark-defaults.conf), and the jar on its host:\n\n{text}"
    )
    return builder


def _target_of(builder: SparkSession.Builder) -> _Target:
    options = builder_options(builder)
    remote = options.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    master = options.get("spark.master") or submitted("spark.master") or os.environ.get("MASTER") or "local[*]"
    return _Target(master=master, remote=remote)


def _check_listed(**lists: Sequence[str]) -> None:
    for name, given in lists.items():
        if isinstance(given, str):
            raise SessionError(f"{name} is a list: {name}={given.replace(',', ' ').split()}")


def _check_exposure(addresses: Sequence[str], *, token: str | None, encrypted: bool) -> None:
    exposed = [address for address in addresses if leaves_this_host(address)]
    if token is not None and exposed and not encrypted:
        raise SessionError(
            f"the token would go to {', '.join(exposed)} in clear: give authorities=, so that TLS is spoken, or say "
            "insecure=True"
        )


def _check_given(
    service: Sequence[str],
    servers: Sequence[str],
    shards: int | None,
    *,
    keep_for: str | None,
    web: str | None,
    listen: str | None,
    relay_options: Sequence[str],
) -> None:
    _check_listed(servers=servers, service=service, relay_options=relay_options)
    _check_shards(shards, service)
    if not service:
        return
    if servers:
        raise SessionError("give either servers=, to start a journal service here, or service=, to use one that runs")
    if keep_for is not None:
        raise SessionError("keep_for= is for a service that is started here; the one that runs has --keep-for")
    if web is not None:
        raise SessionError("web= is for a service that is started here; the one that runs has --web")
    if listen is not None:
        raise SessionError("listen= is for a service that is started here; run `sos-connector listen` beside the other")
    if relay_options:
        raise SessionError("relay_options= are for a relay that is started here; give them to the one that runs")


def _check_shards(shards: int | None, service: Sequence[str]) -> None:
    if shards is None:
        return
    if service:
        raise SessionError("shards= is for services that are started here; those that run know how many there are")
    if not 2 <= shards <= SHARDS_MAX:
        raise SessionError(f"a volume can be spread over 2 to {SHARDS_MAX} shards, not {shards}")


def _check_listening(listen: str | None, target: _Target, *, insecure: bool) -> None:
    if listen is None:
        return
    try:
        address = parse_address(listen, what="listen")
    except SettingsError as error:
        raise SessionError(str(error)) from error
    if target.is_elsewhere or not target.executors_are_here:
        raise SessionError(
            "listen= is for executors on this machine; for a cluster run `sos-connector listen` by itself, and tell "
            "the source in its options volume and service"
        )
    if not (address.loopback or insecure):
        raise SessionError(
            f"{listen} can be reached from other machines, and sources show no token there: say insecure=True where "
            "only senders that may write reach it, or run `sos-connector listen` itself with --tls-cert and --tokens"
        )


def _check_running_session(volume: str, service: tuple[str, ...]) -> None:
    """A context that runs keeps the service it was started with; the same again changes nothing."""
    context = running_context()
    if context is None:
        return
    wanted = ",".join(service)
    if not service and volume in _running:
        wanted = ",".join(_running[volume].services)
    present = context.getConf().get(HADOOP_PREFIX + SERVICE_KEY)
    if present != wanted:
        raise SessionError(
            f"Spark runs already in this process, and its checkpoints go to {present}: stop that session first. All "
            "queries of a session can share one volume, each with a path of its own below it."
        )


def _jars_with(shim: str, present: str | None) -> str:
    """Spark's list of jars; the setting replaces what --jars and --packages gave."""
    if not present:
        return shim
    if any(PurePosixPath(jar.strip()).name.startswith(SHIM_JAR) for jar in present.split(",")):
        return present
    return f"{present},{shim}"


def _own_host(builder: SparkSession.Builder) -> str:
    """The address under which executors elsewhere reach this host: the one that Spark tells them, if it was told."""
    key = "spark.driver.host"
    told = builder_options(builder).get(key) or submitted(key) or os.environ.get("SPARK_LOCAL_IP")
    if told:
        return str(told)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing; tells which of this host's addresses leads outside
        return str(probe.getsockname()[0])


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
