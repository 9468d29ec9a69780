package org.apache.spark.sql.connector.expressions;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface SortOrder extends Expression {}
