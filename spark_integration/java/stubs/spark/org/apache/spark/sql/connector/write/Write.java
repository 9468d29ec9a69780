package org.apache.spark.sql.connector.write;

import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface Write {
    default String description() {
        throw new AssertionError("a stub");
    }

    default BatchWrite toBatch() {
        throw new AssertionError("a stub");
    }

    default StreamingWrite toStreaming() {
        throw new AssertionError("a stub");
    }
}
