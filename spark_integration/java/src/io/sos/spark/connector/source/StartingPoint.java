package io.sos.spark.connector.source;

import java.io.IOException;
import java.util.Map;

/** Where a query begins to read a volume that it has not read before. */
record StartingPoint(Map<String, Long> sequences, boolean atLatest) {
    long of(VolumeLog log) throws IOException {
        long oldest = log.oldest();
        Long said = sequences.get(log.volume());
        if (said == null) {
            return atLatest ? log.end() : oldest;
        }
        if (said < oldest) {
            throw Troubles.outOfRetention(log.volume(), said, oldest);
        }
        if (said > log.end()) {
            throw new IOException("volume " + log.volume() + " has no message " + said + " to start with yet: the next one gets the"
                    + " sequence number " + log.end());
        }
        return said;
    }
}
