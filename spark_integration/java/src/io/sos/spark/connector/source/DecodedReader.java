package io.sos.spark.connector.source;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.read.PartitionReader;

/** The rows of one task, their values decoded. */
final class DecodedReader implements PartitionReader<InternalRow> {
    private final MessageReader messages;
    private final UnsafeProjection projection;

    DecodedReader(MessageReader messages, UnsafeProjection projection) {
        this.messages = messages;
        this.projection = projection;
    }

    @Override
    public boolean next() throws IOException {
        return messages.next();
    }

    @Override
    public InternalRow get() {
        return projection.apply(messages.get());
    }

    @Override
    public void close() {
        messages.close();
    }
}
