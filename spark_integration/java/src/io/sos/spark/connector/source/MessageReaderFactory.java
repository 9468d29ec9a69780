package io.sos.spark.connector.source;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** In the executors: a reader for each task. */
final class MessageReaderFactory implements PartitionReaderFactory {
    private static final long serialVersionUID = 2L;

    private final ValueDecoding decoding;

    /** {@code decoding} null: values stay bytes. */
    MessageReaderFactory(ValueDecoding decoding) {
        this.decoding = decoding;
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
        MessageReader messages = new MessageReader((MessageRange) partition);
        return decoding == null ? messages : new DecodedReader(messages, decoding.projection());
    }
}
