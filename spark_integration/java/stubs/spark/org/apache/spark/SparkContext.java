package org.apache.spark;

import org.apache.hadoop.conf.Configuration;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public class SparkContext {
    public static SparkContext getOrCreate() {
        throw new AssertionError("a stub");
    }

    public Configuration hadoopConfiguration() {
        throw new AssertionError("a stub");
    }

    public int defaultParallelism() {
        throw new AssertionError("a stub");
    }

    public String getLocalProperty(String key) {
        throw new AssertionError("a stub");
    }
}
