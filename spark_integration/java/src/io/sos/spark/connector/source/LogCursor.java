package io.sos.spark.connector.source;

import io.sos.spark.gateway.FileEntry;
import io.sos.spark.gateway.VolumeClient;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Arrays;

/**
 * Goes along the log of an ingest volume, block by block and frame by frame, over the ends of its files. What is read is
 * read in pieces as large as the service gives them, and looked at where it lies.
 */
final class LogCursor {
    /** The frames that a log may have, and where their bodies have what (connectors/wire/PROTOCOL.md). */
    private static final int NOTIFY = 3;

    private static final int NAME_BYTES = 8;
    private static final int NAME = 10;
    private static final int POINT_BYTES = 8;

    private static final int MESSAGE = 5;
    private static final int MESSAGE_ID = 8;
    private static final int EVENT_TIME = 16;
    private static final int KEY_BYTES = 24;
    private static final int KEY = 26;

    private static final int PIECE_BYTES = 1 << 20;
    private static final int LENGTH_BYTES = 4;
    private static final int FRAME_BYTES_MAX = 4 << 20;

    private final VolumeClient client;
    private final LogPosition end;
    private byte[] bytes;
    private ByteBuffer numbers;
    private int position;
    private int limit;
    private long file;
    private String path;
    /** In the file, of what is read next. */
    private long offset;
    /** Of the file when it was read last; -1: not yet. */
    private long size = -1;

    private LogBlock block;
    private int framesLeft;
    private int rowsSeen;
    private boolean isMessage;
    private int bodyStart;
    private int valueStart;
    private int bodyEnd;

    /**
     * From {@code start}, where a block begins, to {@code end}, where one ends. {@code end} null: as far as it is asked, which is
     * not beyond the last row that is there.
     */
    LogCursor(VolumeClient client, LogPosition start, LogPosition end) {
        this.client = client;
        this.end = end;
        boolean isInOneFile = end != null && end.file() == start.file();
        long all = isInOneFile ? end.offset() - start.offset() : PIECE_BYTES;
        grow((int) Math.min(PIECE_BYTES, all) + LogBlock.HEAD_BYTES);
        open(start.file(), start.offset());
    }

    private void open(long newFile, long newOffset) {
        file = newFile;
        path = IngestPlaces.logFile(newFile);
        offset = newOffset;
        size = -1;
        position = 0;
        limit = 0;
    }

    /** Whether there is another block. What is left of the one before is passed over. */
    boolean nextBlock() throws IOException {
        skipRest();
        while (!fill(LogBlock.HEAD_BYTES)) {
            if (limit > position) {
                throw new IOException(path + " is damaged: it ends within the head of a block");
            }
            boolean isEnd = end != null ? file == end.file() : block == null || block.endSequence() <= file;
            if (isEnd) {
                return false;
            }
            if (block == null || block.endSequence() <= file) {
                throw new IOException(path + " ends before a row, and is not the last file of the log");
            }
            open(block.endSequence(), 0);
        }
        LogBlock next = LogBlock.read(bytes, position, path + " at byte " + (offset - (limit - position)));
        if (block != null && next.firstSequence() != block.endSequence()) {
            throw new IOException(path + " is damaged: it goes on with sequence " + next.firstSequence() + " after "
                    + block.endSequence());
        }
        position += LogBlock.HEAD_BYTES;
        block = next;
        framesLeft = next.framesBytes();
        rowsSeen = 0;
        return true;
    }

    /** The present block. */
    LogBlock block() {
        return block;
    }

    /** Where the present block begins, as long as none of its frames was looked at. */
    LogPosition blockPosition() {
        return new LogPosition(file, offset - (limit - position) - LogBlock.HEAD_BYTES);
    }

    /** Whether the block has another frame; then it lies whole in {@link #bytes}. */
    boolean nextFrame() throws IOException {
        if (framesLeft == 0) {
            if (rowsSeen != block.rows()) {
                throw damaged("has " + rowsSeen + " rows instead of " + block.rows());
            }
            return false;
        }
        need(LENGTH_BYTES);
        int length = numbers.getInt(position);
        if (length < 1 || length > FRAME_BYTES_MAX || LENGTH_BYTES + length > framesLeft) {
            throw damaged("has a frame of " + Integer.toUnsignedString(length) + " bytes");
        }
        need(LENGTH_BYTES + length);
        int type = bytes[position + LENGTH_BYTES];
        bodyStart = position + LENGTH_BYTES + 1;
        bodyEnd = position + LENGTH_BYTES + length;
        position = bodyEnd;
        framesLeft -= LENGTH_BYTES + length;
        isMessage = type == MESSAGE;
        if (isMessage) {
            lookAtMessage();
        } else if (type != NOTIFY) {
            throw damaged("has a frame of type " + type);
        }
        return true;
    }

    private void lookAtMessage() throws IOException {
        int size = bodyEnd - bodyStart;
        int headBytes = size < KEY ? KEY : KEY + Short.toUnsignedInt(numbers.getShort(bodyStart + KEY_BYTES));
        if (headBytes > size) {
            throw damaged("has a MESSAGE that is cut short");
        }
        valueStart = bodyStart + headBytes;
        if (valueStart < bodyEnd) {
            rowsSeen++;
        }
    }

    /** Whether the frame is a MESSAGE that makes a row. One without payload only moves the point of reference of its stream. */
    boolean isRow() {
        return isMessage && valueStart < bodyEnd;
    }

    /** Whether the frame is a NOTIFY: a stream gets its name. */
    boolean isIntroduction() {
        return !isMessage;
    }

    long streamId() {
        return numbers.getLong(bodyStart);
    }

    long messageId() {
        return numbers.getLong(bodyStart + MESSAGE_ID);
    }

    long eventTime() {
        return numbers.getLong(bodyStart + EVENT_TIME);
    }

    /** Where the key of a MESSAGE lies in {@link #bytes}: up to the value. */
    int keyStart() {
        return bodyStart + KEY;
    }

    /** Up to the frame's end. */
    int valueStart() {
        return valueStart;
    }

    int frameEnd() {
        return bodyEnd;
    }

    /** The name in a NOTIFY. */
    byte[] streamName() throws IOException {
        int start = bodyStart + NAME;
        int size = bodyEnd - start < POINT_BYTES ? -1 : Short.toUnsignedInt(numbers.getShort(bodyStart + NAME_BYTES));
        if (size < 0 || start + size + POINT_BYTES != bodyEnd) {
            throw damaged("has a broken NOTIFY");
        }
        return Arrays.copyOfRange(bytes, start, start + size);
    }

    /** What was read, until the next frame is asked for. */
    byte[] bytes() {
        return bytes;
    }

    private IOException damaged(String what) {
        return new IOException("the block of sequence " + block.firstSequence() + " in " + path + " is damaged: it " + what);
    }

    private void skipRest() {
        int here = Math.min(framesLeft, limit - position);
        position += here;
        offset += framesLeft - here;
        framesLeft = 0;
    }

    private void need(int wanted) throws IOException {
        if (!fill(wanted)) {
            throw damaged("is cut short");
        }
    }

    /** Whether this many bytes lie from {@link #position} on; reads on if they do not. */
    private boolean fill(int wanted) throws IOException {
        while (limit - position < wanted) {
            System.arraycopy(bytes, position, bytes, 0, limit - position);
            limit -= position;
            position = 0;
            if (bytes.length < wanted) {
                grow(wanted + PIECE_BYTES);
            }
            long left = leftInFile();
            if (left == 0) {
                return false;
            }
            int length = (int) Math.min(Math.min(PIECE_BYTES, bytes.length - limit), left);
            FileEntry entry = client.readInto(path, offset, bytes, limit, length);
            int filled = (int) Math.max(0, Math.min(length, entry.size() - offset));
            size = entry.size();
            if (filled == 0 && end != null && file == end.file()) {
                throw new IOException(path + " was put back while it was read: it ends at byte " + size + ", before "
                        + end.offset());
            }
            limit += filled;
            offset += filled;
        }
        return true;
    }

    private long leftInFile() {
        if (end != null && file == end.file()) {
            return Math.max(0, end.offset() - offset);
        }
        return size < 0 ? PIECE_BYTES : Math.max(0, size - offset);
    }

    private void grow(int capacity) {
        bytes = bytes == null ? new byte[capacity] : Arrays.copyOf(bytes, capacity);
        numbers = ByteBuffer.wrap(bytes);
    }
}
