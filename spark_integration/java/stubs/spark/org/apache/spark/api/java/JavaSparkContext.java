package org.apache.spark.api.java;

import org.apache.spark.SparkContext;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public class JavaSparkContext {
    public static JavaSparkContext fromSparkContext(SparkContext context) {
        throw new AssertionError("a stub");
    }

    public <T> JavaRDD<T> emptyRDD() {
        throw new AssertionError("a stub");
    }
}
