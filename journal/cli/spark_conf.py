"""`sos-journal spark-conf`."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

import click

from journal.checkpoint.spark_settings import (
    SparkAccess,
    as_arguments,
    as_properties,
    spark_settings,
    tokens_in_clear_to,
)
from journal.cli.locations import LocationType
from journal.errors import JournalCode, refused
from sos_client.command.output import note, print_json
from sos_client.command.parameters import AddressList
from sos_client.command.profiles import PROFILE_OPTION, chosen_profile

if TYPE_CHECKING:
    from journal.records.location import Location

_FORMATS: Final = ("properties", "submit", "json")


@click.command("spark-conf")
@click.argument("location", type=LocationType())
@click.option("--service", type=AddressList(), envvar="SOS_SERVICE", help="Journal services [SOS_SERVICE].")
@PROFILE_OPTION
@click.option("--spark-version", help="Version of Spark (default: that of the installed PySpark).")
@click.option("--jar", metavar="PATH", help="The shim's jar, where driver and executors find it.")
@click.option("--token-file", metavar="PATH", help="File with the token, at the same path on every host.")
@click.option("--tls", is_flag=True, help="Speak TLS.")
@click.option("--tls-ca", metavar="PATH", help="Certificates to trust (PEM), at the same path on every host.")
@click.option("--insecure", is_flag=True, help="Let the token go to other hosts without TLS.")
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    default="properties",
    show_default=True,
    help="Lines for spark-defaults.conf, arguments for spark-submit, or JSON.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def spark_conf(
    *,
    location: Location,
    service: tuple[str, ...] | None,
    profile: str | None,
    spark_version: str | None,
    jar: str | None,
    token_file: str | None,
    tls: bool,
    tls_ca: str | None,
    insecure: bool,
    form: str,
    as_json: bool,
) -> None:
    """Print Spark's settings for keeping checkpoints on a volume.

    \b
    sos-journal spark-conf sos://payments --service a:7420,b:7420 >> conf/spark-defaults.conf
    eval "spark-submit $(sos-journal spark-conf payments --service a:7420 --format submit) app.py"
    """
    known = chosen_profile(profile)
    if not service:
        service, way = known.services, known.to_services
        token_file = token_file or (str(way.token_file) if way.token_file else None)
        tls_ca = tls_ca or (str(way.tls_ca) if way.tls_ca else None)
        tls, insecure = tls or bool(way.tls), insecure or bool(way.insecure)
    if not service:
        raise refused(JournalCode.BAD_REQUEST, "say where the journal service is: --service HOST:PORT, or a --profile")
    access = SparkAccess(
        service=service,
        token_file=token_file,
        tls=tls or tls_ca is not None,
        authorities_file=tls_ca,
        insecure=insecure,
        jar=jar,
    )
    exposed = tokens_in_clear_to(access)
    if exposed:
        raise refused(
            JournalCode.BAD_REQUEST,
            f"the token would go to {', '.join(exposed)} in clear: give --tls, --tls-ca or --insecure",
        )
    settings = spark_settings(access, spark_version=spark_version or _installed())
    if as_json or form == "json":
        print_json(settings)
    else:
        click.echo(as_arguments(settings) if form == "submit" else as_properties(settings), nl=False)
    if jar is None:
        note("no --jar: put the shim's jar on Spark's class path yourself")
    if location.path:
        note(f"then use checkpointLocation = {location}")
    else:
        note(f"then use checkpointLocation = {location}NAME-OF-THE-QUERY: each query needs a path of its own")


def _installed() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError as error:
        message = "PySpark is not installed here, so say which version Spark has: --spark-version 4.1.1"
        raise refused(JournalCode.BAD_REQUEST, message) from error
