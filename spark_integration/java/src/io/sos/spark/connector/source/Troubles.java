package io.sos.spark.connector.source;

import io.sos.spark.gateway.FileEntry;
import io.sos.spark.gateway.RefusedException;
import io.sos.spark.gateway.ServiceCode;
import io.sos.spark.gateway.VolumeClient;
import java.io.IOException;
import java.util.List;

/** What cannot be read, in words that say what to do. */
final class Troubles {
    private Troubles() {}

    /** A file of the log that is not there any more was deleted by retention; anything else is what it says. */
    static IOException whileReading(IOException failure, MessageRange range) {
        boolean isGone = failure instanceof RefusedException refusal && refusal.code() == ServiceCode.NOT_FOUND;
        if (!isGone) {
            return failure;
        }
        VolumeClient client = VolumeClient.of(range.volume(), range.settings());
        try {
            List<FileEntry> files = client.list(IngestPlaces.LOG);
            long oldest = files.isEmpty() ? -1 : IngestPlaces.sequenceOf(files.get(0).path());
            return (IOException) outOfRetention(range.volume(), range.first(), oldest).initCause(failure);
        } catch (IOException alsoFailed) {
            failure.addSuppressed(alsoFailed);
            return failure;
        }
    }

    static IOException outOfRetention(String volume, long wanted, long oldest) {
        return new IOException("message " + wanted + " of volume " + volume + " is out of retention: the oldest that is there is "
                + oldest + ". Rewind the checkpoint less far, or go on without the messages between: with a new checkpoint"
                + " location and startingSequence=" + oldest + " (or startingOffsets=earliest). To keep messages longer, give"
                + " `sos-connector listen` a longer --keep-messages-for.");
    }

    static IOException aheadOfVolume(String volume, long wanted, long newest) {
        return new IOException("the checkpoint has read volume " + volume + " up to message " + wanted + ", and the volume has"
                + " only those before " + newest + ": it is another volume, or one that was restored to an earlier moment."
                + " Use the volume that the checkpoint belongs to, or a new checkpoint location.");
    }

    static IOException notAnIngestVolume(String volume, IOException cause) {
        return new IOException("volume " + volume + " is not an ingest volume: no `sos-connector listen` has written it."
                + " Give the volume that the listener was given, and its files address as service", cause);
    }
}
