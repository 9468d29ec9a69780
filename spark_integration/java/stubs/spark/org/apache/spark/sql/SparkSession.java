package org.apache.spark.sql;

import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.types.StructType;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public abstract class SparkSession {
    public static SparkSession active() {
        throw new AssertionError("a stub");
    }

    public abstract Dataset<Row> createDataFrame(JavaRDD<Row> rows, StructType schema);
}
