"""`sos-connector postgres`: rows into a table of PostgreSQL, in two phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from connectors.cli.receive import run_sink, sink_options, sink_settings
from connectors.sink.transactions import SinkTransactions
from sos_client.command.running import run_async
from sos_client.serving.event_log import EventLog

if TYPE_CHECKING:
    from connectors.sink.sink_log import SinkLog

EXAMPLES = """\b
Examples:
  createdb clicks; psql clicks -c "create table rows (key text, value text)"
  sos-connector postgres --dsn "dbname=clicks" --table rows --log rows.log
  sos-connector postgres --dsn "host=db dbname=clicks" --table visits --json --log visits.log"""


@click.command("postgres", epilog=EXAMPLES)
@click.option(
    "--dsn",
    default="",
    envvar="SOS_POSTGRES",
    help="Where the database is, as for psql; what is not there comes from PGHOST, PGUSER, … [SOS_POSTGRES].",
)
@click.option("--table", required=True, help="TABLE or SCHEMA.TABLE, with a column `value` (and `key`).")
@click.option("--json", "is_json", is_flag=True, help="Rows are JSON objects; their fields are the table's columns.")
@click.option("--create", is_flag=True, help="Make the table, with a column `value`, if there is none.")
@click.option("--name", help="Of this sink, one for each log in the database; default: the table's.")
@sink_options
def postgres_command(*, dsn: str, table: str, is_json: bool, create: bool, name: str | None, **options: Any) -> None:
    """Take rows from a relay into a table, each batch by PREPARE TRANSACTION and COMMIT PREPARED, until SIGTERM.

    Prints `ready HOST:PORT`. The database needs max_prepared_transactions of at least the number of its sinks. In the
    table `sos_sinks` it notes what was committed last. A row that the database does not take makes the vote an abort;
    the reason is in this command's log. A database that is away is waited for.

    A prepared transaction is never ended for its age: what the relay decided counts, whenever it comes. Those that no
    vote was given for are rolled back; those that wait for long are named in the log.
    """
    try:
        from connectors.sink.postgres_sink import PostgresSink
    except ImportError as error:
        raise click.UsageError("PostgreSQL needs `pip install sos-checkpoints[postgres]`") from error
    settings = sink_settings(options)
    event_log = EventLog()

    def opened(log: SinkLog) -> SinkTransactions:
        sink = PostgresSink(
            dsn,
            table=table,
            name=name or table,
            history=log.history,
            is_json=is_json,
            create=create,
            say=lambda sentence: event_log.warning("postgres", said=sentence),
        )
        return SinkTransactions(log, sink.receive, sink.prepare, sink.commit, sink.abort, rules=settings.rules)

    run_async(run_sink, settings, opened)
