package org.apache.spark.sql.connector.write.streaming;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface StreamingDataWriterFactory extends Serializable {
    DataWriter<InternalRow> createWriter(int partitionId, long taskId, long epochId);
}
