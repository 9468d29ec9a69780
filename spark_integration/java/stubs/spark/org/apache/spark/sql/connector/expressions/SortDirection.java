package org.apache.spark.sql.connector.expressions;

/** What the shim sees of Spark's enumeration of this name. Compiled against, never shipped. */
public enum SortDirection {
    ASCENDING
}
