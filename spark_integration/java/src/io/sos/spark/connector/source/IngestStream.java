package io.sos.spark.connector.source;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/**
 * Ingest volumes as a stream of Spark. A batch is a range of sequence numbers of each volume, so it has the same rows whenever
 * it is read. Of one thread, that of the query.
 */
final class IngestStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
    private final Map<String, VolumeLog> logs;
    private final Map<String, ReaderMark> marks;
    private final StartingPoint startingPoint;
    private final FirstOffset firstOffset;
    private final BatchLimit limit;
    private final Partitioning partitioning;
    private final MessageReaderFactory readers;
    private final boolean lagByStream;
    /** Null: what Spark says is committed its checkpoint has. */
    private final DurableOffsets durable;

    private SequenceOffset initial;
    private boolean isRegistered;
    /** What there was when a query that takes what is available began; null: it takes what comes. */
    private SequenceOffset available;

    IngestStream(
            Map<String, VolumeLog> logs,
            Map<String, ReaderMark> marks,
            StartingPoint startingPoint,
            FirstOffset firstOffset,
            BatchLimit limit,
            Partitioning partitioning,
            MessageReaderFactory readers,
            boolean lagByStream,
            DurableOffsets durable) {
        this.logs = logs;
        this.marks = marks;
        this.startingPoint = startingPoint;
        this.firstOffset = firstOffset;
        this.limit = limit;
        this.partitioning = partitioning;
        this.readers = readers;
        this.lagByStream = lagByStream;
        this.durable = durable;
    }

    @Override
    public Offset initialOffset() {
        return asking(() -> {
            if (initial == null) {
                initial = firstOffset.read();
            }
            if (initial == null) {
                Map<String, Long> first = new TreeMap<>();
                for (VolumeLog log : logs.values()) {
                    first.put(log.volume(), startingPoint.of(log));
                }
                initial = new SequenceOffset(first);
                register(initial); // before it counts: what it names must be there after a crash
                firstOffset.write(initial);
            }
            return initial;
        });
    }

    @Override
    public Offset deserializeOffset(String json) {
        return SequenceOffset.parse(json);
    }

    @Override
    public ReadLimit getDefaultReadLimit() {
        return limit;
    }

    @Override
    public void prepareForTriggerAvailableNow() {
        available = asking(this::newest);
    }

    @Override
    public Offset latestOffset() {
        throw new UnsupportedOperationException("Spark asks with a limit");
    }

    @Override
    public Offset latestOffset(Offset start, ReadLimit readLimit) {
        return asking(() -> {
            SequenceOffset from = of(start);
            register(from);
            // Spark asks when the batch before is committed, but calls commit only once there is another one: a mark that waited
            // for that could hold back the very messages that would make it.
            advance(from);
            SequenceOffset to = available != null ? available : newest();
            BatchLimit most =
                    readLimit instanceof ReadAllAvailable ? new BatchLimit(Long.MAX_VALUE, Long.MAX_VALUE) : limit;
            return limited(from, to, most);
        });
    }

    private SequenceOffset newest() throws IOException {
        Map<String, Long> newest = new TreeMap<>();
        for (VolumeLog log : logs.values()) {
            log.refresh();
            newest.put(log.volume(), log.end());
        }
        return new SequenceOffset(newest);
    }

    /** A volume that the query did not read before begins with this batch, without rows: the next one says where it begins. */
    private SequenceOffset limited(SequenceOffset from, SequenceOffset to, BatchLimit most) throws IOException {
        Map<String, Long> end = new TreeMap<>(from.next());
        List<String> behind = new ArrayList<>();
        for (VolumeLog log : logs.values()) {
            Long first = from.next(log.volume());
            if (first == null) {
                long beginning = startingPoint.of(log);
                marks.get(log.volume()).begin(beginning);
                end.put(log.volume(), beginning);
            } else {
                log.check(first, first);
                if (to.next(log.volume()) > first) {
                    behind.add(log.volume());
                }
            }
        }
        behind.sort((one, other) -> Long.compare(
                to.next(one) - from.next(one), to.next(other) - from.next(other))); // what little ones leave is for the others
        long rows = most.rowsMax();
        long bytes = most.bytesMax();
        for (int i = 0; i < behind.size(); i++) {
            VolumeLog log = logs.get(behind.get(i));
            int others = behind.size() - i;
            long first = from.next(log.volume());
            long after = Math.min(to.next(log.volume()), plus(first, Math.max(1, rows / others)));
            if (bytes < Long.MAX_VALUE) {
                after = Math.min(after, log.endWithin(first, Math.max(1, bytes / others)));
                bytes = Math.max(0, bytes - log.bytesOf(first, after));
            }
            rows = rows == Long.MAX_VALUE ? rows : Math.max(0, rows - (after - first));
            end.put(log.volume(), after);
        }
        return new SequenceOffset(end);
    }

    private static long plus(long first, long rows) {
        return rows > Long.MAX_VALUE - first ? Long.MAX_VALUE : first + rows;
    }

    @Override
    public Offset reportLatestOffset() {
        Map<String, Long> newest = new TreeMap<>();
        logs.values().forEach(log -> newest.put(log.volume(), log.end()));
        return new SequenceOffset(newest);
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        return asking(() -> {
            SequenceOffset from = of(start);
            register(from);
            List<MessageRange> ranges = new ArrayList<>();
            for (Map.Entry<String, Long> volume : of(end).next().entrySet()) {
                Long first = from.next(volume.getKey());
                long after = volume.getValue();
                if (first != null && first != after) {
                    VolumeLog log = logOf(volume.getKey());
                    log.check(first, after);
                    ranges.addAll(partitioning.of(log, first, after));
                }
            }
            return ranges.toArray(new InputPartition[0]);
        });
    }

    private VolumeLog logOf(String volume) {
        VolumeLog log = logs.get(volume);
        if (log == null) {
            throw new IllegalArgumentException("the checkpoint has read volume " + volume + ", which option volume does not name"
                    + " (it names " + String.join(", ", logs.keySet()) + "): name it, too, or use a new checkpoint location");
        }
        return log;
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return readers;
    }

    /** From now on the volumes keep what this query has not committed. */
    private void register(SequenceOffset from) throws IOException {
        if (isRegistered) {
            return;
        }
        for (Map.Entry<String, Long> volume : from.next().entrySet()) {
            VolumeLog log = logOf(volume.getKey());
            log.refresh(); // whether it is one
            marks.get(log.volume()).begin(volume.getValue());
        }
        isRegistered = true;
    }

    @Override
    public void commit(Offset end) {
        advance(of(end));
    }

    private void advance(SequenceOffset committed) {
        SequenceOffset passed = committed;
        if (durable != null) {
            durable.finished(committed);
            passed = marks.values().stream().anyMatch(ReaderMark::isDue) ? durable.newest() : null;
        }
        if (passed != null) {
            passed.next().forEach((volume, sequence) -> marks.get(volume).advance(sequence));
        }
    }

    @Override
    public void stop() {
        marks.values().forEach(ReaderMark::flush);
    }

    @Override
    public Map<String, String> metrics(Optional<Offset> latestConsumedOffset) {
        Map<String, String> metrics = new HashMap<>();
        latestConsumedOffset.ifPresent(
                offset -> metrics.putAll(asking(() -> Lag.of(logs, of(offset), lagByStream))));
        return metrics;
    }

    private static SequenceOffset of(Offset offset) {
        return offset instanceof SequenceOffset own ? own : SequenceOffset.parse(offset.json());
    }

    private interface Question<T> {
        T ask() throws IOException;
    }

    /** Spark's interfaces declare no exceptions, and know these. */
    private static <T> T asking(Question<T> question) {
        try {
            return question.ask();
        } catch (IOException failure) {
            throw new UncheckedIOException(failure.getMessage(), failure);
        }
    }

    @Override
    public String toString() {
        return "sos-connector[" + String.join(",", logs.keySet()) + "]";
    }
}
