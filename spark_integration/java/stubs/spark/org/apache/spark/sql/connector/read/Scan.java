package org.apache.spark.sql.connector.read;

import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface Scan {
    StructType readSchema();

    String description();

    Batch toBatch();

    MicroBatchStream toMicroBatchStream(String checkpointLocation);
}
