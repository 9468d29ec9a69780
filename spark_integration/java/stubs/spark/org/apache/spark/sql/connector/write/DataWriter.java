package org.apache.spark.sql.connector.write;

import java.io.Closeable;
import java.io.IOException;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface DataWriter<T> extends Closeable {
    void write(T record) throws IOException;

    WriterCommitMessage commit() throws IOException;

    void abort() throws IOException;
}
