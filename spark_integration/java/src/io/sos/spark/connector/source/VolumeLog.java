package io.sos.spark.connector.source;

import io.sos.spark.gateway.FileEntry;
import io.sos.spark.gateway.Piece;
import io.sos.spark.gateway.RefusedException;
import io.sos.spark.gateway.ServiceCode;
import io.sos.spark.gateway.ServiceSettings;
import io.sos.spark.gateway.ServiceUnavailableException;
import io.sos.spark.gateway.VolumeClient;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/**
 * The log of one ingest volume as the driver sees it: which messages are there, and where. Files of the log are named after
 * their first message, so most is known from their names; blocks are looked for in those files only where a range begins or
 * ends.
 */
final class VolumeLog {
    private static final int FILES_LOOKED_AT_MAX = 16;

    private final String volume;
    private final ServiceSettings settings;
    private final VolumeClient client;
    private final NavigableMap<Long, FileEntry> files = new TreeMap<>();
    private final Map<Long, FileBlocks> blocks = new LinkedHashMap<>(16, 0.75f, true) {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, FileBlocks> eldest) {
            return size() > FILES_LOOKED_AT_MAX;
        }
    };
    private long identity = -1;
    private long end;

    VolumeLog(String volume, ServiceSettings settings) {
        this.volume = volume;
        this.settings = settings;
        this.client = VolumeClient.of(volume, settings);
    }

    String volume() {
        return volume;
    }

    VolumeClient client() {
        return client;
    }

    /** Looks at what came since the last time; at everything the first time, and whether this is an ingest volume at all. */
    void refresh() throws IOException {
        if (identity < 0) {
            identity = identityOf();
        }
        listFrom(files.isEmpty() ? 0 : files.lastKey());
        if (!files.isEmpty()) {
            end = looked(files.lastKey()).endSequence();
        }
    }

    /** The oldest message that is there now, or the number of the next one if there is none. Asks for it. */
    long oldest() throws IOException {
        List<FileEntry> all = list("");
        files.clear();
        keep(all);
        refresh();
        return files.isEmpty() ? end : files.firstKey();
    }

    /** What there is from this file on. */
    private void listFrom(long file) throws IOException {
        Long before = files.lowerKey(file);
        keep(list(before == null ? "" : IngestPlaces.name(before)));
    }

    private void keep(List<FileEntry> entries) {
        for (FileEntry entry : entries) {
            long first = IngestPlaces.sequenceOf(entry.path());
            if (first >= 0) {
                files.put(first, entry);
            }
        }
    }

    private long identityOf() throws IOException {
        Piece format;
        try {
            format = client.read(IngestPlaces.FORMAT_FILE, 0, 100, null);
        } catch (RefusedException refusal) {
            throw refusal.code() == ServiceCode.NOT_FOUND ? Troubles.notAnIngestVolume(volume, refusal) : refusal;
        }
        String text = new String(format.bytes(), StandardCharsets.US_ASCII);
        if (!text.equals(IngestPlaces.FORMAT_TEXT)) {
            throw new IOException("volume " + volume + " says that its format is '" + text.strip()
                    + "': a newer sos-connector wrote it; use the jar of that one");
        }
        return format.entry().modifiedMillis();
    }

    private List<FileEntry> list(String after) throws IOException {
        try {
            return client.listAfter(IngestPlaces.LOG, after);
        } catch (RefusedException refusal) {
            if (refusal.code() == ServiceCode.NOT_FOUND) {
                return List.of(); // nothing has come yet
            }
            throw refusal;
        }
    }

    /** The blocks of a file, all that it had when it was listed. One without rows may have been written again since then. */
    private FileBlocks looked(long file) throws IOException {
        FileEntry listed = files.get(file);
        try {
            return lookedOnce(file);
        } catch (ServiceUnavailableException | InterruptedIOException | RefusedException failure) {
            throw failure;
        } catch (IOException failure) {
            listFrom(file);
            if (!files.containsKey(file) || files.get(file).equals(listed)) {
                throw failure;
            }
            return lookedOnce(file);
        }
    }

    private FileBlocks lookedOnce(long file) throws IOException {
        FileBlocks found = blocks.computeIfAbsent(file, first -> new FileBlocks(client, first));
        try {
            found.extendTo(files.get(file).size());
        } catch (RefusedException refusal) {
            blocks.remove(file);
            throw refusal.code() == ServiceCode.NOT_FOUND ? Troubles.outOfRetention(volume, file, oldest()) : refusal;
        } catch (IOException | RuntimeException failure) {
            blocks.remove(file);
            throw failure;
        }
        return found;
    }

    /** The number of the next message, when {@link #refresh} looked. */
    long end() {
        return end;
    }

    /** Bytes of the log from this message on, with heads of blocks and what is not a row. */
    long bytesFrom(long sequence) throws IOException {
        return sequence >= end ? 0 : bytesOf(sequence, end);
    }

    /** Bytes of the blocks that have these messages. */
    long bytesOf(long first, long after) throws IOException {
        LogPosition start = startOf(first);
        LogPosition stop = endOf(after - 1);
        long bytes = stop.offset() - start.offset();
        for (FileEntry entry : files.subMap(start.file(), true, stop.file(), false).values()) {
            bytes += entry.size();
        }
        return bytes;
    }

    /** {@code first} is there, and {@code after} is not above what is. Says what is wrong if not. */
    void check(long first, long after) throws IOException {
        if (after > end) {
            refresh();
        }
        if (after > end) {
            throw Troubles.aheadOfVolume(volume, after, end);
        }
        if (first < after && (files.isEmpty() || first < files.firstKey())) {
            throw Troubles.outOfRetention(volume, first, oldest());
        }
    }

    /**
     * How far to go from {@code first} with this many bytes: to the end of a block, but at least by a message, and by a part of
     * a block only if it is larger than that.
     */
    long endWithin(long first, long bytesMax) throws IOException {
        LogPosition start = startOf(first);
        long budget = bytesMax;
        long offset = start.offset();
        for (Map.Entry<Long, FileEntry> file : files.tailMap(start.file(), true).entrySet()) {
            long left = file.getValue().size() - offset;
            if (left > budget) {
                FileBlocks found = looked(file.getKey());
                long reached = found.sequenceWithin(offset + budget);
                return reached > first ? reached : partOfBlock(found, first, bytesMax);
            }
            budget -= left;
            offset = 0;
        }
        return end;
    }

    private static long partOfBlock(FileBlocks found, long first, long bytesMax) {
        int block = found.blockOf(first);
        long bytes = found.endOf(block).offset() - found.startOf(block).offset();
        long rows = found.endSequenceOf(block) - found.firstOf(block);
        return Math.min(found.endSequenceOf(block), first + Math.max(1, rows * bytesMax / Math.max(1, bytes)));
    }

    /** The first message that was received at this time or later, if clocks did not go back; the number of the next one if none was. */
    long firstReceivedFrom(long millis) throws IOException {
        List<Long> firsts = List.copyOf(files.keySet());
        int low = 0;
        int high = firsts.size();
        while (high - low > 1) {
            int middle = (low + high) >>> 1;
            if (receivedOf(firsts.get(middle)) < millis) {
                low = middle;
            } else {
                high = middle;
            }
        }
        return firsts.isEmpty() ? end : looked(firsts.get(low)).firstReceivedFrom(millis);
    }

    private long receivedOf(long file) throws IOException {
        byte[] head = new byte[LogBlock.HEAD_BYTES];
        String path = IngestPlaces.logFile(file);
        client.readInto(path, 0, head, 0, head.length);
        return LogBlock.read(head, 0, path).receivedMillis();
    }

    /** Where the block of this message begins. */
    private LogPosition startOf(long sequence) throws IOException {
        FileBlocks found = looked(files.floorKey(sequence));
        return found.startOf(found.blockOf(sequence));
    }

    private LogPosition endOf(long sequence) throws IOException {
        FileBlocks found = looked(files.floorKey(sequence));
        return found.endOf(found.blockOf(sequence));
    }

    /** The beginning of a block, or of a file if there are many, that is near this message and not after it. */
    long nearBeginning(long sequence, boolean ofFile) throws IOException {
        long file = files.floorKey(sequence);
        if (ofFile) {
            return file;
        }
        FileBlocks found = looked(file);
        return found.firstOf(found.blockOf(sequence));
    }

    /** How many files have messages of this range. */
    int filesOf(long first, long after) {
        return files.subMap(files.floorKey(first), true, after - 1, true).size();
    }

    /** The rows of this range, for one task or for each of {@code shares}. */
    MessageRange range(long first, long after, int share, int shares) throws IOException {
        return new MessageRange(
                volume, settings, identity, first, after, startOf(first), endOf(after - 1), share, shares);
    }
}
