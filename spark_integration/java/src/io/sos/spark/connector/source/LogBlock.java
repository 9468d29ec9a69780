package io.sos.spark.connector.source;

import java.io.IOException;
import java.nio.ByteBuffer;

/**
 * What the head of a block says, as connectors/ingest/FORMAT.md has it.
 *
 * @param firstSequence of its rows; of the next row, if it has none
 * @param receivedMillis when it was received, since 1970
 */
record LogBlock(long firstSequence, int rows, int framesBytes, long receivedMillis) {
    static final int HEAD_BYTES = 32;
    private static final int MAGIC = 'S' << 24 | 'O' << 16 | 'S' << 8 | 'm';
    private static final int VERSION = 1;
    /** A block is one change of the volume; the format allows more than a listener writes, and this side has to bound it. */
    private static final int FRAMES_BYTES_MAX = 64 << 20;

    /** {@code where} is named when it is not a block. */
    static LogBlock read(byte[] bytes, int position, String where) throws IOException {
        ByteBuffer head = ByteBuffer.wrap(bytes, position, HEAD_BYTES);
        if (head.getInt() != MAGIC) {
            throw new IOException(where + " is damaged: no block of messages begins there");
        }
        int version = head.getInt() >>> 24;
        if (version != VERSION) {
            throw new IOException(where + " has blocks of version " + version
                    + ": a newer sos-connector wrote them; use the jar of that one");
        }
        int framesBytes = head.getInt();
        int rows = head.getInt();
        long firstSequence = head.getLong();
        if (framesBytes < 0 || framesBytes > FRAMES_BYTES_MAX || rows < 0 || firstSequence < 0) {
            throw new IOException(where + " is damaged: a block of " + Integer.toUnsignedString(framesBytes) + " bytes, "
                    + Integer.toUnsignedString(rows) + " rows, from sequence " + Long.toUnsignedString(firstSequence));
        }
        return new LogBlock(firstSequence, rows, framesBytes, head.getLong());
    }

    long endSequence() {
        return firstSequence + rows;
    }

    /** With its head. */
    int size() {
        return HEAD_BYTES + framesBytes;
    }
}
