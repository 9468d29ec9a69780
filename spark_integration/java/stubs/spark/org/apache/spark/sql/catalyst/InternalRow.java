package org.apache.spark.sql.catalyst;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public abstract class InternalRow implements SpecializedGetters {
    public abstract int numFields();

    public abstract void setNullAt(int ordinal);

    public abstract void update(int ordinal, Object value);

    public abstract InternalRow copy();
}
