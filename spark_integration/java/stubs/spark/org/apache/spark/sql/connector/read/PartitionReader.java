package org.apache.spark.sql.connector.read;

import java.io.Closeable;
import java.io.IOException;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface PartitionReader<T> extends Closeable {
    boolean next() throws IOException;

    T get();
}
