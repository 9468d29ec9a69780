"""What Spark must be told to keep checkpoints on a volume, as settings. Pure: no Spark, no files, no environment.

`sos-journal spark-conf` prints them, the session helper gives them to a session builder; both take them from here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sos_client.clear_text import leaves_this_host

if TYPE_CHECKING:
    from collections.abc import Mapping

MANAGER_SETTING: Final = "spark.sql.streaming.checkpointFileManagerClass"
REDACTION_SETTING: Final = "spark.redaction.regex"
HADOOP_PREFIX: Final = "spark.hadoop."
SERVICE_KEY: Final = "fs.sos.service"
RELAY_KEY: Final = "fs.sos.relay"
INGEST_VOLUME_KEY: Final = "fs.sos.ingest.volume"
INGEST_SERVICE_KEY: Final = "fs.sos.ingest.service"
TOKEN_KEY: Final = "fs.sos.token"
"""Has a word in it that Spark redacts, in its user interface, its logs and its event log."""

_REDACTION_DEFAULT: Final = "(?i)secret|password|token|access[.]?key"
_TRAIT_MOVED: Final = (4, 1)
_SHELL_SAFE: Final = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAccess:
    """How drivers and executors reach journal service and relay. Files must be at the same path on every host."""

    service: tuple[str, ...]
    relay: str | None = None
    ingest_volume: str | None = None
    ingest_service: str | None = None
    token: str | None = None
    token_file: str | None = None
    tls: bool = False
    authorities: str | None = None
    authorities_file: str | None = None
    insecure: bool = False
    jar: str | None = None


def manager_class(spark_version: str) -> str:
    """Which of the shim's two classes this Spark needs: it moved its trait to another package in 4.1."""
    major, minor = (int(part) for part in re.findall(r"\d+", spark_version)[:2])
    package = "checkpointing" if (major, minor) >= _TRAIT_MOVED else "streaming"
    return f"io.sos.spark.{package}.SosCheckpointFileManager"


def tokens_in_clear_to(access: SparkAccess) -> tuple[str, ...]:
    """The services to which the token would go without TLS, over a network: the shim refuses that."""
    if access.tls or access.insecure or (access.token is None and access.token_file is None):
        return ()
    return tuple(address for address in access.service if leaves_this_host(address))


def hadoop_settings(access: SparkAccess) -> dict[str, str]:
    """The settings fs.sos.*, as a Hadoop configuration has them."""
    settings = {
        "fs.sos.impl": "io.sos.spark.SosFileSystem",
        "fs.AbstractFileSystem.sos.impl": "io.sos.spark.SosAbstractFileSystem",
        # Hadoop would keep the first configuration it sees for a volume; ours share their connections anyway.
        "fs.sos.impl.disable.cache": "true",
        SERVICE_KEY: ",".join(access.service),
    }
    optional = {
        RELAY_KEY: access.relay,
        INGEST_VOLUME_KEY: access.ingest_volume,
        INGEST_SERVICE_KEY: access.ingest_service,
        TOKEN_KEY: access.token,
        "fs.sos.token.file": access.token_file,
        "fs.sos.tls": "true" if access.tls else None,
        "fs.sos.tls.authorities": access.authorities,
        "fs.sos.tls.authorities.file": access.authorities_file,
        "fs.sos.insecure": "true" if access.insecure else None,
    }
    return settings | {key: value for key, value in optional.items() if value is not None}


def spark_settings(access: SparkAccess, *, spark_version: str) -> dict[str, str]:
    """Everything that spark-submit, spark-defaults.conf or a session builder needs."""
    settings = {MANAGER_SETTING: manager_class(spark_version)}
    if access.jar is not None:
        settings["spark.jars"] = access.jar
    return settings | {HADOOP_PREFIX + key: value for key, value in hadoop_settings(access).items()}


def redaction_with_tokens(present: str | None) -> str | None:
    """What spark.redaction.regex must become so that the token is redacted; None when it is as it should be."""
    if present is None:
        return None
    if re.search(present, HADOOP_PREFIX + TOKEN_KEY):
        return None
    return f"{present}|(?i:token)"


def as_properties(settings: Mapping[str, str]) -> str:
    """As lines of spark-defaults.conf."""
    return "".join(f"{key} {_escaped(value)}\n" for key, value in settings.items())


def as_arguments(settings: Mapping[str, str]) -> str:
    """As arguments of spark-submit, for a shell. Arguments are seen by all users of the host: no tokens here."""
    lines = [f"--conf {_quoted(f'{key}={value}')}" for key, value in settings.items()]
    return " \\\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    """Java's property files end a value at the end of its line, and take backslashes away."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(argument: str) -> str:
    if _SHELL_SAFE.fullmatch(argument):
        return argument
    return "'" + argument.replace("'", "'\"'\"'") + "'"
