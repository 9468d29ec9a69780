package io.sos.spark.connector.sink;

import io.sos.spark.SessionConfiguration;
import io.sos.spark.SosSettings;
import io.sos.spark.gateway.Peer;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** What a query says about its sink. For order=sequence each task sorts its own rows: the relay merges, and does not sort. */
final class ConnectorWrite implements RequiresDistributionAndOrdering {
    private final LogicalWriteInfo info;

    ConnectorWrite(LogicalWriteInfo info) {
        this.info = info;
    }

    @Override
    public String description() {
        return "sos-connector " + info.options().get("connect");
    }

    @Override
    public Distribution requiredDistribution() {
        return Distributions.unspecified();
    }

    @Override
    public SortOrder[] requiredOrdering() {
        if (!SinkOptions.areOrdered(info.options())) {
            return new SortOrder[0];
        }
        return new SortOrder[] {Expressions.sort(Expressions.column("sequence"), SortDirection.ASCENDING)};
    }

    @Override
    public BatchWrite toBatch() {
        throw new UnsupportedOperationException("A sos-connector sink takes streams (writeStream). What makes a transaction known"
                + " again after a crash is its query and batch, and a batch job has neither.");
    }

    /** IllegalArgumentException, with a sentence, if an option or a column is not in order. */
    @Override
    public StreamingWrite toStreaming() {
        SinkOptions options = SinkOptions.of(info.options());
        RowColumns columns = RowColumns.of(info.schema(), options.isOrdered());
        Configuration configuration = SessionConfiguration.current();
        String relay = options.relay() != null ? options.relay() : SosSettings.relay(configuration);
        if (relay == null) {
            throw new IllegalArgumentException("A sos-connector sink needs a relay: with_sos_checkpoints() starts one beside the"
                    + " driver; without it, the option relay says where `sos-connector relay` runs, HOST:PORT.");
        }
        try {
            StagingPlace place = StagingPlace.of(
                    SosSettings.of(configuration, relay, Peer.RELAY), info.queryId(), options.checkpoint());
            String bufferDirectory = SosSettings.toldBufferDirectory(configuration);
            return new ConnectorStreamingWrite(place, options, columns, bufferDirectory, configuration);
        } catch (IOException e) {
            throw new IllegalArgumentException("A sos-connector sink cannot reach its relay: " + e.getMessage(), e);
        }
    }
}
