package org.apache.spark.sql.connector.read.streaming;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface SupportsAdmissionControl extends SparkDataStream {
    ReadLimit getDefaultReadLimit();

    Offset latestOffset(Offset start, ReadLimit limit);

    Offset reportLatestOffset();
}
