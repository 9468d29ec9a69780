"""`sos-journal spark-jar`."""

from __future__ import annotations

import importlib

import click

from journal.errors import JournalCode, refused


@click.command("spark-jar")
def spark_jar() -> None:
    """Print where the jar for Spark's class path is; compiled first where the wheel has none (needs a JDK).

    \b
    spark-submit --jars "$(sos-journal spark-jar)" …
    sos-journal spark-conf sos://payments --service s:7420 --jar "$(sos-journal spark-jar)"
    """
    jar = importlib.import_module("spark_integration.jar")  # of the same wheel, a layer above: only its path is asked
    try:
        click.echo(str(jar.jar_path()))
    except (jar.NoJavaError, jar.CompileError) as error:
        raise refused(JournalCode.UNSUPPORTED, str(error)) from error
