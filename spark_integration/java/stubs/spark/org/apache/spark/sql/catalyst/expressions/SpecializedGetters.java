package org.apache.spark.sql.catalyst.expressions;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface SpecializedGetters {
    boolean isNullAt(int ordinal);

    long getLong(int ordinal);

    UTF8String getUTF8String(int ordinal);

    byte[] getBinary(int ordinal);

    Object get(int ordinal, DataType dataType);
}
