package org.apache.spark.api.java;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public class JavaRDD<T> {}
