package org.apache.spark.sql.catalyst.expressions.codegen;

import org.apache.spark.unsafe.types.UTF8String;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public abstract class UnsafeWriter {
    public final void write(int ordinal, UTF8String input) {
        throw new AssertionError("a stub");
    }

    public final void write(int ordinal, byte[] input, int offset, int numBytes) {
        throw new AssertionError("a stub");
    }

    public final void reset() {
        throw new AssertionError("a stub");
    }
}
