package org.apache.spark.sql.connector.catalog;

import java.util.Set;
import org.apache.spark.sql.types.StructType;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface Table {
    String name();

    StructType schema();

    Set<TableCapability> capabilities();
}
