package org.apache.spark.unsafe.types;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public final class UTF8String {
    private UTF8String() {}

    public static UTF8String fromBytes(byte[] bytes) {
        throw new AssertionError("a stub");
    }

    public byte[] getBytes() {
        throw new AssertionError("a stub");
    }
}
