package org.apache.spark.sql.connector.read;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface ScanBuilder {
    Scan build();
}
