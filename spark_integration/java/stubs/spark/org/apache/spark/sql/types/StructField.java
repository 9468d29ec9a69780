package org.apache.spark.sql.types;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public class StructField {
    public String name() {
        throw new AssertionError("a stub");
    }

    public DataType dataType() {
        throw new AssertionError("a stub");
    }
}
