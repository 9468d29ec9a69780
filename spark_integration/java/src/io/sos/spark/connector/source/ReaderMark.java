package io.sos.spark.connector.source;

import io.sos.spark.gateway.Content;
import io.sos.spark.gateway.VolumeClient;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tells a volume how far a query has read it (ingest/readers/NAME): messages from there on are kept for it. It is behind at
 * times, which keeps more than is needed, and never ahead. Somebody may delete it meanwhile, which ends nothing here.
 */
final class ReaderMark {
    private static final Logger LOG = LoggerFactory.getLogger(ReaderMark.class);
    private static final long PAUSE_NANOS = TimeUnit.SECONDS.toNanos(1);

    private final VolumeClient client;
    private final VolumeClient hasty;
    private final String path;
    private final String about;
    private long wanted = -1;
    private long written = -1;
    private long lastNanos;

    /** {@code hasty}: gives up early; {@code about}: further lines of the file, for people. */
    ReaderMark(VolumeClient client, VolumeClient hasty, String name, String about) {
        this.client = client;
        this.hasty = hasty;
        this.path = IngestPlaces.READERS + "/" + name;
        this.about = about;
    }

    /** The query is about to read from here. Durable when this returns. */
    void begin(long sequence) throws IOException {
        wanted = sequence;
        write(client);
    }

    /** Whether {@link #advance} would write now. */
    boolean isDue() {
        return System.nanoTime() - lastNanos > PAUSE_NANOS;
    }

    /** All before this message is committed. Written now or soon. */
    void advance(long sequence) {
        wanted = sequence;
        if (isDue()) {
            flush();
        }
    }

    /** Writes what is not yet written. If that fails, the volume keeps more than it must, and the query goes on. */
    void flush() {
        if (wanted != written) {
            try {
                write(hasty);
            } catch (IOException failure) {
                LOG.warn("{} could not be written, so that messages are kept longer than needed: {}", path, failure.toString());
            }
        }
    }

    private void write(VolumeClient client) throws IOException {
        byte[] text = ("sos-ingest-reader 1 " + wanted + "\n" + about).getBytes(StandardCharsets.UTF_8);
        lastNanos = System.nanoTime();
        client.write(path, Content.of(text), true, null);
        written = wanted;
    }
}
