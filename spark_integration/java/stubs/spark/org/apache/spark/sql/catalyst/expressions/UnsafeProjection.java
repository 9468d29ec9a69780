package org.apache.spark.sql.catalyst.expressions;

import org.apache.spark.sql.catalyst.InternalRow;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public abstract class UnsafeProjection {
    public abstract UnsafeRow apply(InternalRow row);
}
