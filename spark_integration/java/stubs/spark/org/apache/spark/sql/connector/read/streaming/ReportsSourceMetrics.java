package org.apache.spark.sql.connector.read.streaming;

import java.util.Map;
import java.util.Optional;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface ReportsSourceMetrics extends SparkDataStream {
    Map<String, String> metrics(Optional<Offset> latestConsumedOffset);
}
