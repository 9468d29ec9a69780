package org.apache.spark.sql.connector.read.streaming;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public abstract class Offset {
    public abstract String json();
}
