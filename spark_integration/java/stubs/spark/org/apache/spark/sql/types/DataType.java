package org.apache.spark.sql.types;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public abstract class DataType {
    public String catalogString() {
        throw new AssertionError("a stub");
    }
}
