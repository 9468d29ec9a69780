package org.apache.spark.sql.connector.read;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface PartitionReaderFactory extends Serializable {
    PartitionReader<InternalRow> createReader(InputPartition partition);
}
