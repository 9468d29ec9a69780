package org.apache.spark.sql.connector.read.streaming;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface MicroBatchStream extends SparkDataStream {
    Offset latestOffset();

    InputPartition[] planInputPartitions(Offset start, Offset end);

    PartitionReaderFactory createReaderFactory();
}
