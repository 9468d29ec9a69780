package org.apache.spark.sql;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public interface Row {}
