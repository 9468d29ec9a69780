package io.sos.spark.connector.sink;

import io.sos.spark.SparkApplication;
import io.sos.spark.gateway.OutcomeUnknownException;
import io.sos.spark.gateway.RefusedException;
import io.sos.spark.gateway.ServiceUnavailableException;
import io.sos.spark.gateway.VolumeClient;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One run of one batch, as Spark makes it: a run of the same batch after it stages elsewhere. Tasks stage, and what of it
 * counts is said once, in the manifest: so attempts need no coordinator, and the late ones of speculation do no harm.
 */
final class ConnectorStreamingWrite implements StreamingWrite {
    private static final Logger LOG = LoggerFactory.getLogger(ConnectorStreamingWrite.class);
    /** After this long without an outcome the log says for whom the batch waits. The relay itself says so after 10 s. */
    private static final long TURN_MILLIS = 15_000;

    private static final long ABORT_MILLIS = 2_000;

    private final StagingPlace place;
    private final SinkOptions options;
    private final RowColumns columns;
    private final String bufferDirectory;
    private final Configuration configuration;

    ConnectorStreamingWrite(
            StagingPlace place,
            SinkOptions options,
            RowColumns columns,
            String bufferDirectory,
            Configuration configuration) {
        this.place = place;
        this.options = options;
        this.columns = columns;
        this.bufferDirectory = bufferDirectory;
        this.configuration = configuration;
    }

    @Override
    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
        return new RowWriterFactory(place, columns, bufferDirectory);
    }

    @Override
    public boolean useCommitCoordinator() {
        return false;
    }

    /** Returns when the batch is committed at every sink, which a run before this one may have seen to. */
    @Override
    public void commit(long epochId, WriterCommitMessage[] messages) {
        Manifest manifest = new Manifest(place, epochId, planOf(epochId), options, winners(messages));
        long beganNanos = System.nanoTime();
        long timeoutMillis = TimeUnit.SECONDS.toMillis(options.timeoutSeconds());
        VolumeClient relay = place.client(Math.min(TURN_MILLIS, timeoutMillis));
        while (true) {
            try {
                relay.write(place.manifest(epochId), manifest, true, SparkApplication.current());
                return;
            } catch (OutcomeUnknownException | ServiceUnavailableException waiting) {
                long waitedMillis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - beganNanos);
                if (waitedMillis >= timeoutMillis) {
                    throw failed(epochId, "is not committed after " + waitedMillis / 1000 + " s: " + waiting.getMessage()
                            + " Start the query again to go on; what is decided stays decided", waiting);
                }
                LOG.warn("sos-connector sink: {}", "batch " + epochId + " waits: " + waiting.getMessage());
            } catch (InterruptedIOException stopped) {
                throw new UncheckedIOException(stopped);
            } catch (RefusedException refusal) {
                throw failed(epochId, "was refused: " + refusal.getMessage(), refusal);
            } catch (IOException failure) {
                throw failed(epochId, "could not be committed: " + failure.getMessage(), failure);
            }
        }
    }

    private String planOf(long batch) {
        try {
            return BatchPlan.hashOf(options.checkpoint(), batch, configuration);
        } catch (InterruptedIOException stopped) {
            throw new UncheckedIOException(stopped);
        } catch (IOException failure) {
            throw failed(batch, "could not be committed, since its plan cannot be read: " + failure.getMessage(), failure);
        }
    }

    /** In order of partitions. */
    private static List<StagedPart> winners(WriterCommitMessage[] messages) {
        List<StagedPart> parts = new ArrayList<>();
        for (WriterCommitMessage message : messages) {
            StagedPart part = (StagedPart) message;
            if (part.rows() > 0) {
                parts.add(part);
            }
        }
        return parts;
    }

    private BatchNotCommittedException failed(long batch, String what, IOException cause) {
        return new BatchNotCommittedException(
                "sos-connector sink: batch " + batch + " of query " + place.query() + " " + what, cause);
    }

    /** Makes room at the relay. It undoes nothing: a commit that failed here may be decided there, and then it stays. */
    @Override
    public void abort(long epochId, WriterCommitMessage[] messages) {
        try {
            place.client(ABORT_MILLIS).delete(place.folder(epochId), true, SparkApplication.current());
        } catch (IOException e) {
            LOG.warn("sos-connector sink: what a batch has staged is left to the relay: {}", e.getMessage());
        }
    }
}
