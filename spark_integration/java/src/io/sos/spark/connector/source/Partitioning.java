package io.sos.spark.connector.source;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/**
 * Which tasks read a range of messages. By range: each a piece of it, in order. By stream: each the whole of it, and of that
 * its own streams' rows.
 *
 * @param byStream whether all rows of a stream are in one partition
 * @param parallelism how many tasks run at once
 * @param minPartitions what the user asks for; 0: nothing
 */
record Partitioning(boolean byStream, int parallelism, int minPartitions) {
    /** Less is not worth a task. */
    private static final long BYTES_MIN = 1 << 20;
    /** More would be lost when a task fails. */
    private static final long BYTES_MAX = 64 << 20;

    List<MessageRange> of(VolumeLog log, long first, long after) throws IOException {
        if (first == after) {
            return List.of();
        }
        return byStream ? sharesOf(log, first, after) : piecesOf(log, first, after);
    }

    private List<MessageRange> sharesOf(VolumeLog log, long first, long after) throws IOException {
        int shares = minPartitions > 0 ? minPartitions : parallelism;
        List<MessageRange> ranges = new ArrayList<>();
        for (int share = 0; share < shares; share++) {
            ranges.add(log.range(first, after, share, shares));
        }
        return ranges;
    }

    private List<MessageRange> piecesOf(VolumeLog log, long first, long after) throws IOException {
        long bytes = log.bytesOf(first, after);
        long wanted = Math.max(Math.min(parallelism, bytes / BYTES_MIN), (bytes + BYTES_MAX - 1) / BYTES_MAX);
        boolean isAsked = minPartitions > wanted;
        long pieces = Math.min(Math.max(1, Math.max(wanted, minPartitions)), after - first);
        boolean hasManyFiles = log.filesOf(first, after) > 2 * pieces;
        List<MessageRange> ranges = new ArrayList<>();
        long begin = first;
        for (long piece = 1; piece < pieces; piece++) {
            long cut = first + (after - first) / pieces * piece + (after - first) % pieces * piece / pieces;
            if (!isAsked) {
                cut = log.nearBeginning(cut, hasManyFiles); // a block that two tasks read is read twice
            }
            if (cut > begin) {
                ranges.add(log.range(begin, cut, 0, 1));
                begin = cut;
            }
        }
        ranges.add(log.range(begin, after, 0, 1));
        return ranges;
    }
}
