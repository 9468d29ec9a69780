package io.sos.spark.connector.source;

import io.sos.spark.gateway.ServiceSettings;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * What one task reads: the rows from {@code first} to before {@code after}, or those of them whose streams are its share.
 *
 * @param start of the block that has {@code first}
 * @param end of the block that has the last row
 * @param identity of the volume, see {@link StreamNames}
 * @param shares how many tasks read these rows, each those of its own streams; 1: this one reads all
 */
record MessageRange(
        String volume,
        ServiceSettings settings,
        long identity,
        long first,
        long after,
        LogPosition start,
        LogPosition end,
        int share,
        int shares)
        implements InputPartition {
    /** Whether the rows of this stream are of this task. The same for a stream in every batch, as long as {@link #shares} is. */
    boolean has(long streamId) {
        return shares == 1 || Long.remainderUnsigned(spread(streamId), shares) == share;
    }

    /** Ids that were given one after the other, or with a step, do not end in one share (the finalizer of MurmurHash3). */
    private static long spread(long id) {
        long mixed = (id ^ (id >>> 33)) * 0xff51afd7ed558ccdL;
        mixed = (mixed ^ (mixed >>> 33)) * 0xc4ceb9fe1a85ec53L;
        return mixed ^ (mixed >>> 33);
    }
}
