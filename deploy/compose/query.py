"""A streaming query whose checkpoint lies on the volume; `spark-submit` brings the settings."""

from __future__ import annotations

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("payments").getOrCreate()
spark.sparkContext.setLogLevel("WARN")
query = (
    spark.readStream.format("rate")
    .load()
    .writeStream.format("console")
    .option("checkpointLocation", "sos://payments/q1")
    .start()
)
query.awaitTermination()
