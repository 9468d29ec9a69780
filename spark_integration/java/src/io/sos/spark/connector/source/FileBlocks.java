package io.sos.spark.connector.source;

import io.sos.spark.gateway.FileEntry;
import io.sos.spark.gateway.VolumeClient;
import java.io.IOException;
import java.util.Arrays;

/**
 * Where the blocks of one file of the log lie, as far as it was looked at. Of large blocks only the heads are read, of small
 * ones everything: what costs is asking.
 */
final class FileBlocks {
    private static final int SMALL_BLOCKS_BYTES = 64 << 10;
    private static final int PIECE_BYTES = 256 << 10;
    private static final int HEADS_BYTES = 4 << 10;

    private final VolumeClient client;
    private final long file;
    private final String path;
    private long[] firsts = new long[16];
    private long[] offsets = new long[16];
    private long[] received = new long[16];
    private int count;
    private long endOffset;
    private long endSequence;
    private byte[] window = new byte[0];
    private long windowOffset;

    FileBlocks(VolumeClient client, long file) {
        this.client = client;
        this.file = file;
        this.path = IngestPlaces.logFile(file);
        this.endSequence = file;
    }

    /** Looks at what the file has up to {@code size}, which is where a block ends. */
    void extendTo(long size) throws IOException {
        if (endSequence == file || size < endOffset) {
            forget(); // a file without rows may be written again, with other blocks
        }
        while (endOffset + LogBlock.HEAD_BYTES <= size) {
            int head = headAt(endOffset, size);
            LogBlock block = LogBlock.read(window, head, path + " at byte " + endOffset);
            if (block.firstSequence() != endSequence) {
                throw new IOException(path + " is damaged: it goes on with sequence " + block.firstSequence() + " after "
                        + endSequence);
            }
            if (endOffset + block.size() > size) {
                break;
            }
            add(block);
        }
        window = new byte[0];
        if (endOffset != size) {
            throw new IOException(path + " is damaged: it has " + size + " bytes, of which " + endOffset + " are blocks");
        }
    }

    private void forget() {
        count = 0;
        endOffset = 0;
        endSequence = file;
    }

    /** Where in the window the head at this offset of the file lies. */
    private int headAt(long offset, long size) throws IOException {
        if (offset < windowOffset || offset + LogBlock.HEAD_BYTES > windowOffset + window.length) {
            boolean isOfSmallBlocks = count == 0 || endOffset / count < SMALL_BLOCKS_BYTES;
            int length = (int) Math.min(size - offset, isOfSmallBlocks ? PIECE_BYTES : HEADS_BYTES);
            byte[] bytes = new byte[length];
            FileEntry entry = client.readInto(path, offset, bytes, 0, length);
            if (entry.size() < offset + length) {
                throw new IOException(path + " was replaced while it was read");
            }
            window = bytes;
            windowOffset = offset;
        }
        return (int) (offset - windowOffset);
    }

    private void add(LogBlock block) {
        if (count == firsts.length) {
            firsts = Arrays.copyOf(firsts, 2 * count);
            offsets = Arrays.copyOf(offsets, 2 * count);
            received = Arrays.copyOf(received, 2 * count);
        }
        firsts[count] = block.firstSequence();
        offsets[count] = endOffset;
        received[count] = block.receivedMillis();
        count++;
        endOffset += block.size();
        endSequence = block.endSequence();
    }

    long file() {
        return file;
    }

    /** After the last row that was looked at. */
    long endSequence() {
        return endSequence;
    }

    /** The block that has this row of the file. */
    int blockOf(long sequence) {
        int low = 0;
        int high = count;
        while (high - low > 1) {
            int middle = (low + high) >>> 1;
            if (firsts[middle] <= sequence) {
                low = middle;
            } else {
                high = middle;
            }
        }
        return low; // the last one that begins there or before: those before it with the same number have no rows
    }

    long firstOf(int block) {
        return firsts[block];
    }

    long endSequenceOf(int block) {
        return block + 1 < count ? firsts[block + 1] : endSequence;
    }

    LogPosition startOf(int block) {
        return new LogPosition(file, offsets[block]);
    }

    LogPosition endOf(int block) {
        return new LogPosition(file, block + 1 < count ? offsets[block + 1] : endOffset);
    }

    /** The first row that was received at this time or later; {@link #endSequence} if there is none. */
    long firstReceivedFrom(long millis) {
        for (int block = 0; block < count; block++) {
            if (received[block] >= millis) {
                return firsts[block];
            }
        }
        return endSequence;
    }

    /** The end of the last block that ends at this offset or before, as a sequence number; that of the file if there is none. */
    long sequenceWithin(long offset) {
        int block = Arrays.binarySearch(offsets, 0, count, Math.min(offset, endOffset));
        if (offset >= endOffset) {
            return endSequence;
        }
        return firsts[block >= 0 ? block : -block - 2];
    }
}
