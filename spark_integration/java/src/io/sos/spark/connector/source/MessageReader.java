package io.sos.spark.connector.source;

import io.sos.spark.gateway.VolumeClient;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.unsafe.types.UTF8String;

/** The rows of one task, in the order of their sequence numbers. */
final class MessageReader implements PartitionReader<InternalRow> {
    private final MessageRange range;
    private final LogCursor log;
    private final StreamNames names;
    private final MessageRow row = new MessageRow();
    /** Of the row that comes next. */
    private long sequence;

    private boolean isInBlock;
    private long nameOf;
    private UTF8String name;

    MessageReader(MessageRange range) {
        VolumeClient client = VolumeClient.of(range.volume(), range.settings());
        this.range = range;
        this.log = new LogCursor(client, range.start(), range.end());
        this.names = StreamNames.of(client, range.volume(), range.settings(), range.identity());
    }

    @Override
    public boolean next() throws IOException {
        try {
            return advance();
        } catch (IOException failure) {
            throw Troubles.whileReading(failure, range);
        }
    }

    private boolean advance() throws IOException {
        while (sequence < range.after()) {
            if (!isInBlock && !nextBlock()) {
                throw new IOException("the log of volume " + range.volume() + " ends before sequence " + range.after());
            }
            isInBlock = log.nextFrame();
            if (isInBlock && isRowOfThisTask()) {
                return true;
            }
        }
        return false;
    }

    private boolean nextBlock() throws IOException {
        if (!log.nextBlock()) {
            return false;
        }
        sequence = log.block().firstSequence();
        row.receivedMicros = TimeUnit.MILLISECONDS.toMicros(log.block().receivedMillis());
        return true;
    }

    /** Looks at the present frame; makes {@link #row} of it if it is one. */
    private boolean isRowOfThisTask() throws IOException {
        if (!log.isRow()) {
            if (log.isIntroduction()) {
                names.learn(log.streamId(), log.streamName());
            }
            return false;
        }
        long own = sequence++;
        if (own < range.first()) {
            return false;
        }
        long streamId = log.streamId();
        if (!range.has(streamId)) {
            return false;
        }
        row.streamId = streamId;
        row.streamName = nameOf(streamId, own);
        row.messageId = log.messageId();
        row.eventTime = log.eventTime();
        row.sequence = own;
        row.bytes = log.bytes();
        row.keyStart = log.keyStart();
        row.valueStart = log.valueStart();
        row.valueEnd = log.frameEnd();
        return true;
    }

    private UTF8String nameOf(long streamId, long own) throws IOException {
        if (name == null || streamId != nameOf) {
            name = names.find(streamId, own);
            nameOf = streamId;
        }
        return name;
    }

    @Override
    public InternalRow get() {
        return row;
    }

    @Override
    public void close() {}
}
