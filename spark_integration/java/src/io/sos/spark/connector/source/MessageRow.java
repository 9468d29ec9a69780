package io.sos.spark.connector.source;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A message as a row of Spark, where it lies in what was read: nothing is copied before a column is asked for. One object
 * serves all rows of a task, as those of Spark's own sources do. What a newer Spark may ask of a row besides is about types
 * that no column has.
 */
final class MessageRow extends InternalRow {
    /** Ids and sequence numbers are the 64 bits of the protocol; event times are as they were sent. */
    static final StructType SCHEMA = new StructType()
            .add("stream_id", DataTypes.LongType, false)
            .add("stream_name", DataTypes.StringType, false)
            .add("message_id", DataTypes.LongType, false)
            .add("event_time", DataTypes.LongType, false)
            .add("key", DataTypes.BinaryType, true)
            .add("value", DataTypes.BinaryType, false)
            .add("sequence", DataTypes.LongType, false)
            .add("received", DataTypes.TimestampType, false);

    private static final int STREAM_ID = 0;
    static final int STREAM_NAME = 1;
    private static final int MESSAGE_ID = 2;
    private static final int EVENT_TIME = 3;
    private static final int KEY = 4;
    static final int VALUE = 5;
    private static final int SEQUENCE = 6;
    private static final int RECEIVED = 7;
    private static final int COLUMNS = 8;

    long streamId;
    UTF8String streamName;
    long messageId;
    long eventTime;
    long sequence;
    long receivedMicros;
    byte[] bytes;
    int keyStart;
    int valueStart;
    int valueEnd;

    @Override
    public int numFields() {
        return COLUMNS;
    }

    @Override
    public boolean isNullAt(int ordinal) {
        return ordinal == KEY && keyStart == valueStart;
    }

    @Override
    public long getLong(int ordinal) {
        return switch (ordinal) {
            case STREAM_ID -> streamId;
            case MESSAGE_ID -> messageId;
            case EVENT_TIME -> eventTime;
            case SEQUENCE -> sequence;
            case RECEIVED -> receivedMicros;
            default -> throw new IllegalArgumentException("column " + ordinal + " is not a number");
        };
    }

    @Override
    public UTF8String getUTF8String(int ordinal) {
        return streamName;
    }

    @Override
    public byte[] getBinary(int ordinal) {
        return ordinal == KEY
                ? Arrays.copyOfRange(bytes, keyStart, valueStart)
                : Arrays.copyOfRange(bytes, valueStart, valueEnd);
    }

    @Override
    public Object get(int ordinal, DataType dataType) {
        return switch (ordinal) {
            case STREAM_NAME -> streamName;
            case KEY -> isNullAt(KEY) ? null : getBinary(KEY);
            case VALUE -> getBinary(VALUE);
            default -> getLong(ordinal);
        };
    }

    /** For those who keep rows: apart from what is read next. */
    @Override
    public InternalRow copy() {
        MessageRow copy = new MessageRow();
        copy.streamId = streamId;
        copy.streamName = streamName;
        copy.messageId = messageId;
        copy.eventTime = eventTime;
        copy.sequence = sequence;
        copy.receivedMicros = receivedMicros;
        copy.bytes = Arrays.copyOfRange(bytes, keyStart, valueEnd);
        copy.valueStart = valueStart - keyStart;
        copy.valueEnd = valueEnd - keyStart;
        return copy;
    }

    @Override
    public void setNullAt(int ordinal) {
        throw new UnsupportedOperationException("rows of a source are not changed");
    }

    @Override
    public void update(int ordinal, Object value) {
        throw new UnsupportedOperationException("rows of a source are not changed");
    }
}
