package io.sos.spark.connector.source;

import io.sos.spark.gateway.FileEntry;
import io.sos.spark.gateway.RefusedException;
import io.sos.spark.gateway.ServiceCode;
import io.sos.spark.gateway.ServiceSettings;
import io.sos.spark.gateway.ServiceUnavailableException;
import io.sos.spark.gateway.VolumeClient;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The names of a volume's streams, as far as anybody in this JVM had to know one. A stream keeps its first name, so what is
 * known stays right. What is not known is looked for in the newest file of the streams, and in the log from there on.
 */
final class StreamNames {
    private static final ConcurrentMap<Key, StreamNames> ALL = new ConcurrentHashMap<>();
    private static final int STREAMS_MAGIC = 'S' << 24 | 'O' << 16 | 'S' << 8 | 'n';
    private static final int STREAMS_VERSION = 1;
    private static final int STREAMS_HEAD_BYTES = 16;
    private static final int STREAM_BYTES = 8 + 8 + 2;
    /** A listener knows 500,000 streams at most, with names of 32 MiB. */
    private static final long STREAMS_FILE_BYTES_MAX = 256L << 20;

    private final VolumeClient client;
    private final ConcurrentMap<Long, UTF8String> names = new ConcurrentHashMap<>();
    /** The streams of all rows below this sequence number are known. */
    private long completeTo;

    private LogPosition completeAt;

    private record Key(String volume, ServiceSettings settings, long identity) {}

    private StreamNames(VolumeClient client) {
        this.client = client;
    }

    /** {@code identity} tells a volume from one that had the same name: when its format was written. */
    static StreamNames of(VolumeClient client, String volume, ServiceSettings settings, long identity) {
        return ALL.computeIfAbsent(new Key(volume, settings, identity), key -> new StreamNames(client));
    }

    /** A stream was introduced by this name, which is UTF-8, as the listener has seen to. The first one stays. */
    void learn(long streamId, byte[] name) {
        names.putIfAbsent(streamId, UTF8String.fromBytes(name));
    }

    /** The name of the stream of the row with this sequence number. */
    UTF8String find(long streamId, long sequence) throws IOException {
        UTF8String known = names.get(streamId);
        return known != null ? known : look(streamId, sequence);
    }

    private synchronized UTF8String look(long streamId, long sequence) throws IOException {
        completeFor(sequence);
        if (!names.containsKey(streamId)) {
            // The last file of the log, as long as it has no row, may be written again, and its streams go into a file of streams.
            completeTo = 0;
            completeAt = null;
            completeFor(sequence);
        }
        UTF8String name = names.get(streamId);
        if (name == null) {
            throw new IOException("the log is damaged: nothing before sequence " + sequence + " introduces its stream "
                    + Long.toUnsignedString(streamId));
        }
        return name;
    }

    private void completeFor(long sequence) throws IOException {
        if (completeTo > sequence) {
            return;
        }
        List<FileEntry> snapshots = list(IngestPlaces.STREAMS);
        if (!snapshots.isEmpty()) {
            if (firstOf(newestOf(snapshots)) >= completeTo) {
                completeTo = learnNewest(snapshots);
                completeAt = new LogPosition(completeTo, 0);
            }
        }
        if (completeTo > sequence) {
            return;
        }
        if (completeAt == null) {
            List<FileEntry> files = list(IngestPlaces.LOG);
            if (files.isEmpty()) {
                return;
            }
            completeAt = new LogPosition(IngestPlaces.sequenceOf(files.get(0).path()), 0);
        }
        LogCursor log = new LogCursor(client, completeAt, null);
        while (completeTo <= sequence && log.nextBlock()) {
            LogPosition at = log.blockPosition();
            while (log.nextFrame()) {
                if (log.isIntroduction()) {
                    learn(log.streamId(), log.streamName());
                }
            }
            if (log.block().rows() > 0) {
                completeTo = log.block().endSequence();
                completeAt = at;
            }
        }
    }

    private List<FileEntry> list(String directory) throws IOException {
        try {
            return client.list(directory).stream()
                    .filter(entry -> IngestPlaces.sequenceOf(entry.path()) >= 0)
                    .toList();
        } catch (RefusedException refusal) {
            if (refusal.code() == ServiceCode.NOT_FOUND) {
                return List.of();
            }
            throw refusal;
        }
    }

    /** From the newest of these files of streams, or of those that took their place. The sequence number that it goes to. */
    long learnNewest(List<FileEntry> snapshots) throws IOException {
        FileEntry newest = newestOf(snapshots);
        try {
            learnAll(newest);
        } catch (ServiceUnavailableException | InterruptedIOException failure) {
            throw failure;
        } catch (IOException failure) {
            List<FileEntry> now = list(IngestPlaces.STREAMS);
            if (now.isEmpty() || newestOf(now).equals(newest)) {
                throw failure;
            }
            newest = newestOf(now);
            learnAll(newest);
        }
        return firstOf(newest);
    }

    private static FileEntry newestOf(List<FileEntry> snapshots) {
        return snapshots.get(snapshots.size() - 1);
    }

    private static long firstOf(FileEntry file) {
        return IngestPlaces.sequenceOf(file.path());
    }

    private void learnAll(FileEntry file) throws IOException {
        if (file.size() > STREAMS_FILE_BYTES_MAX) {
            throw new IOException(file.path() + " is damaged: it has " + file.size() + " bytes");
        }
        byte[] bytes = new byte[(int) file.size()];
        for (int filled = 0; filled < bytes.length; ) {
            FileEntry entry = client.readInto(file.path(), filled, bytes, filled, bytes.length - filled);
            int read = (int) Math.min(Math.min(1 << 20, bytes.length - filled), entry.size() - filled);
            if (read <= 0) {
                throw new IOException(file.path() + " was replaced while it was read");
            }
            filled += read;
        }
        ByteBuffer streams = ByteBuffer.wrap(bytes);
        boolean isOne = bytes.length >= STREAMS_HEAD_BYTES
                && streams.getInt() == STREAMS_MAGIC
                && streams.getInt() >>> 24 == STREAMS_VERSION;
        if (!isOne) {
            throw new IOException(file.path() + " is not a file of streams of version " + STREAMS_VERSION);
        }
        for (long count = streams.getLong(); count > 0; count--) {
            int size = streams.remaining() < STREAM_BYTES ? -1 : Short.toUnsignedInt(streams.getShort(streams.position() + 16));
            if (size < 0 || streams.remaining() < STREAM_BYTES + size) {
                throw new IOException(file.path() + " is damaged: it is cut short");
            }
            long id = streams.getLong(streams.position());
            int start = streams.position() + STREAM_BYTES;
            learn(id, Arrays.copyOfRange(bytes, start, start + size));
            streams.position(start + size);
        }
    }
}
