package org.apache.spark.sql.connector.write;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface BatchWrite {}
