package org.apache.spark.sql.connector.read.streaming;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface SparkDataStream {
    Offset initialOffset();

    Offset deserializeOffset(String json);

    void commit(Offset end);

    void stop();
}
