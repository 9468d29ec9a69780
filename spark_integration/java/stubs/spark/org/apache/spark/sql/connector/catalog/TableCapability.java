package org.apache.spark.sql.connector.catalog;

/** What the shim sees of Spark's enum of this name. Compiled against, never shipped. */
public enum TableCapability {
    ACCEPT_ANY_SCHEMA,
    BATCH_READ,
    BATCH_WRITE,
    MICRO_BATCH_READ,
    STREAMING_WRITE
}
