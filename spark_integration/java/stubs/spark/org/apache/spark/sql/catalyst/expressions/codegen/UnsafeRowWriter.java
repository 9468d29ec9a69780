package org.apache.spark.sql.catalyst.expressions.codegen;

import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public final class UnsafeRowWriter extends UnsafeWriter {
    public UnsafeRowWriter(int numFields, int initialBufferSize) {
        throw new AssertionError("a stub");
    }

    public UnsafeRow getRow() {
        throw new AssertionError("a stub");
    }

    public void zeroOutNullBytes() {
        throw new AssertionError("a stub");
    }

    public void setNullAt(int ordinal) {
        throw new AssertionError("a stub");
    }

    public void write(int ordinal, long value) {
        throw new AssertionError("a stub");
    }
}
