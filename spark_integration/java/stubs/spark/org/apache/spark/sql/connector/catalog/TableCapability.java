package org.apache.spark.sql.connector.catalog;

/** What the shim sees of Spark's enum of this name. Compiled against, never shipped. */
public enum TableCapability {
    BATCH_READ,
    MICRO_BATCH_READ
}
