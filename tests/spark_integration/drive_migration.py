"""A driver for spark-submit, as a user would write it: the same query on one checkpoint location after the other.

spark-submit … drive_migration.py SPECIFICATION.json      knows nothing of SOS but the locations
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from spark_integration.pipelines.batch_folder import batch_writer
from spark_integration.pipelines.queries import TOTALS, records_stream
from spark_integration.pipelines.records import write_file


def main() -> None:
    specification = json.loads(Path(sys.argv[1]).read_text())
    spark = SparkSession.builder.getOrCreate()
    for number, (location, command) in enumerate(specification["steps"]):
        write_file(Path(specification["input"]), number, per_file=specification["per_file"])
        stream = TOTALS.build(records_stream(spark, specification["input"])).writeStream.outputMode("update")
        stream = stream.option("checkpointLocation", location).trigger(availableNow=True)
        stream.foreachBatch(batch_writer(Path(specification["output"]))).start().awaitTermination()
        if command:
            subprocess.run(command, check=True)
    spark.stop()


if __name__ == "__main__":
    main()
