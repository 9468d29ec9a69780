package org.apache.spark.sql.catalyst;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public abstract class InternalRow implements SpecializedGetters {}
