package io.sos.spark.connector.sink;

import io.sos.spark.SparkApplication;
import io.sos.spark.StagedContent;
import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.file.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * One attempt of a task: its rows wait here, and go to the relay as one file when the task has seen them all. So a lost
 * connection, or a relay that is started again, costs a pause and not the task.
 */
final class RowWriter implements DataWriter<InternalRow> {
    private static final int VERSION = 1;
    private static final int HAS_KEY = 1;
    private static final int HAS_SEQUENCE = 2;
    private static final int NO_KEY = -1;
    private static final int VALUE_BYTES_MAX = 4_190_000;
    private static final int KEY_BYTES_MAX = 65_535;
    private static final int BUFFER_BYTES = 64 * 1024;

    private final StagingPlace place;
    private final RowColumns columns;
    private final long batch;
    private final int partition;
    private final String name;
    private final StagedContent content;
    private final DataOutputStream out;
    private long rows;

    RowWriter(StagingPlace place, RowColumns columns, long batch, int partition, long taskId, Path directory)
            throws IOException {
        this.place = place;
        this.columns = columns;
        this.batch = batch;
        this.partition = partition;
        this.name = partition + "-" + taskId;
        this.content = new StagedContent(directory);
        this.out = new DataOutputStream(new BufferedOutputStream(content, BUFFER_BYTES));
        out.writeByte(VERSION);
        out.writeByte((columns.key() >= 0 ? HAS_KEY : 0) | (columns.sequence() >= 0 ? HAS_SEQUENCE : 0));
    }

    @Override
    public void write(InternalRow row) throws IOException {
        if (columns.sequence() >= 0) {
            writeSequence(row);
        }
        if (columns.key() >= 0) {
            writeKey(columns.key(row));
        }
        byte[] value = columns.value(row);
        if (value == null || value.length == 0) {
            throw wrong((value == null ? "no value (it is null)" : "an empty value")
                    + "; sinks know no such rows, so filter them out: where(\"octet_length(value) > 0\")");
        }
        if (value.length > VALUE_BYTES_MAX) {
            throw wrong("a value of " + value.length + " bytes; at most " + VALUE_BYTES_MAX + " can be sent");
        }
        out.writeInt(value.length);
        out.write(value);
        rows++;
    }

    private void writeSequence(InternalRow row) throws IOException {
        if (row.isNullAt(columns.sequence()) || row.getLong(columns.sequence()) < 0) {
            throw wrong("no sequence, or a negative one, and rows are to be ordered by it");
        }
        out.writeLong(row.getLong(columns.sequence()));
    }

    private void writeKey(byte[] key) throws IOException {
        if (key == null) {
            out.writeInt(NO_KEY);
            return;
        }
        if (key.length > KEY_BYTES_MAX) {
            throw wrong("a key of " + key.length + " bytes; at most " + KEY_BYTES_MAX + " can be sent");
        }
        out.writeInt(key.length);
        out.write(key);
    }

    private IOException wrong(String what) {
        return new IOException("sos-connector sink: row " + (rows + 1) + " of partition " + partition + " of batch "
                + batch + " has " + what);
    }

    @Override
    public WriterCommitMessage commit() throws IOException {
        out.flush();
        if (rows > 0) {
            place.client().write(place.part(batch, name), content, true, SparkApplication.current());
        }
        return new StagedPart(partition, name, rows, content.size());
    }

    /** What may have been staged belongs to no batch; the relay deletes it with what the batch leaves. */
    @Override
    public void abort() {}

    @Override
    public void close() {
        content.close();
    }
}
