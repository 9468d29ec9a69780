package org.apache.spark.sql.types;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public class DataTypes {
    public static final DataType StringType = null;
    public static final DataType BinaryType = null;
    public static final DataType LongType = null;
    public static final DataType TimestampType = null;
}
