package org.apache.spark.sql.connector.write.streaming;

import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface StreamingWrite {
    StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info);

    default boolean useCommitCoordinator() {
        throw new AssertionError("a stub");
    }

    void commit(long epochId, WriterCommitMessage[] messages);

    void abort(long epochId, WriterCommitMessage[] messages);
}
