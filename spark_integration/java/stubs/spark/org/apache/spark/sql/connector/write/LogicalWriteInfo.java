package org.apache.spark.sql.connector.write;

import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface LogicalWriteInfo {
    CaseInsensitiveStringMap options();

    String queryId();

    StructType schema();
}
