package io.sos.spark.connector.source;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** Part of what volumes have now, as a table: for back-fills. Registers no reader. */
final class IngestBatch implements Batch {
    /**
     * What is wanted of each volume; null: from the oldest, to the newest that is there.
     *
     * @param toSequence not included, as {@code toMillis} is not
     */
    record Bounds(Long fromSequence, Long toSequence, Long fromMillis, Long toMillis) {}

    private final Collection<VolumeLog> logs;
    private final Bounds bounds;
    private final Partitioning partitioning;
    private final MessageReaderFactory readers;

    IngestBatch(
            Collection<VolumeLog> logs, Bounds bounds, Partitioning partitioning, MessageReaderFactory readers) {
        this.logs = logs;
        this.bounds = bounds;
        this.partitioning = partitioning;
        this.readers = readers;
    }

    @Override
    public InputPartition[] planInputPartitions() {
        List<MessageRange> ranges = new ArrayList<>();
        try {
            for (VolumeLog log : logs) {
                ranges.addAll(rangesOf(log));
            }
        } catch (IOException failure) {
            throw new UncheckedIOException(failure.getMessage(), failure);
        }
        return ranges.toArray(new InputPartition[0]);
    }

    private List<MessageRange> rangesOf(VolumeLog log) throws IOException {
        long oldest = log.oldest();
        long first = oldest;
        if (bounds.fromSequence != null) {
            first = bounds.fromSequence;
        } else if (bounds.fromMillis != null) {
            first = log.firstReceivedFrom(bounds.fromMillis);
        }
        long after = log.end();
        if (bounds.toSequence != null) {
            after = Math.min(after, bounds.toSequence);
        } else if (bounds.toMillis != null) {
            after = log.firstReceivedFrom(bounds.toMillis);
        }
        if (first >= after) {
            return List.of();
        }
        log.check(first, after);
        return partitioning.of(log, first, after);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return readers;
    }
}
