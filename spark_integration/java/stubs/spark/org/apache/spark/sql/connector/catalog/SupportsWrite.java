package org.apache.spark.sql.connector.catalog;

import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface SupportsWrite extends Table {
    WriteBuilder newWriteBuilder(LogicalWriteInfo info);
}
