"""A driver with a listener beside it, to be killed: stores what its query reads, batch by batch.

python -m tests.spark_integration.drive_source FOLDER LISTEN MASTER
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from spark_integration import with_sos_checkpoints
from spark_integration.pipelines.batch_folder import batch_writer


def main() -> None:
    """Run until killed."""
    folder, listen, master = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    builder = builder.config("spark.local.dir", str(folder / "spark"))
    builder = with_sos_checkpoints(builder, volume="payments", directory=folder / "volume", listen=listen)
    spark = builder.getOrCreate()
    (folder / "batches").mkdir(exist_ok=True)
    rows = spark.readStream.format("sos-connector").option("maxRowsPerBatch", 40).option("minPartitions", 2).load()
    query = (
        rows.selectExpr("sequence", "stream_name", "message_id", "cast(value as string) value")
        .writeStream.foreachBatch(batch_writer(folder / "batches"))
        .option("checkpointLocation", "sos://payments/q")
        .start()
    )
    sys.stdout.write("running\n")
    sys.stdout.flush()
    query.awaitTermination()


if __name__ == "__main__":
    main()
