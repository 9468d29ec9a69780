"""CSV files → Spark → PostgreSQL, each row once, whatever is killed; started again it goes on with new files.

    createdb shop; psql shop -c "create table orders (id bigint, item text, price double precision)"
    python examples/csv_to_postgres.py ./incoming "id bigint, item string, price double" "dbname=shop" orders

The database needs max_prepared_transactions. All state is in ./orders.sos: keep it as long as the table.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from spark_integration import with_sos_checkpoints

incoming, schema, database, table = sys.argv[1:5]
listen = sys.argv[5] if len(sys.argv) > 5 else "127.0.0.1:7500"
state = Path(f"{table}.sos")
state.mkdir(exist_ok=True)

sink_log = str(state / "sink.log")
command = [sys.executable, "-m", "connectors", "postgres", "--dsn", database, "--table", table, "--json"]
sink = subprocess.Popen([*command, "--log", sink_log, "--listen", listen], stdout=subprocess.PIPE, text=True)
assert sink.stdout is not None
ready, _, address = sink.stdout.readline().strip().partition(" ")
if ready != "ready":
    sys.exit("the sink did not start")

builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
spark = with_sos_checkpoints(builder, volume="orders", directory=state / "volume").getOrCreate()
try:
    files = spark.readStream.schema(schema).options(header="true", escape='"')  # quotes are doubled, as RFC 4180 has it
    rows = files.csv(incoming)
    query = (
        rows.selectExpr("to_json(struct(*)) AS value")
        .writeStream.format("sos-connector")
        .option("connect", address)
        .option("checkpointLocation", "sos://orders/csv")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
finally:
    spark.stop()
    sink.terminate()
    sink.wait()
