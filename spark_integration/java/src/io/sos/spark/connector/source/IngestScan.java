package io.sos.spark.connector.source;

import io.sos.spark.SessionConfiguration;
import io.sos.spark.SosSettings;
import io.sos.spark.gateway.Peer;
import io.sos.spark.gateway.ServiceSettings;
import io.sos.spark.gateway.VolumeClient;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.ZoneId;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;

/** One reading of ingest volumes, as a stream or as a table. Settings are those of the session now, under the options. */
final class IngestScan implements Scan {
    /** Spark's name for the id of the query whose thread this is. */
    private static final String QUERY_ID = "sql.streaming.queryId";
    /** A volume that cannot be told how far a query is keeps more than it must; the query does not wait long for that. */
    private static final long MARK_MILLIS_MAX = TimeUnit.SECONDS.toMillis(5);

    private final SourceOptions options;
    private final Configuration configuration;
    private final List<String> volumes;
    private final ServiceSettings settings;
    /** Null: values stay bytes. */
    private final ValueDecoding decoding;

    IngestScan(SourceOptions options) {
        this.options = options;
        this.decoding = options.valueFormat() == null ? null : new ValueDecoding(options.valueFormat());
        this.configuration = SessionConfiguration.current();
        options.settings().forEach(configuration::set);
        this.volumes = options.volumes(SosSettings.ingestVolume(configuration));
        String service = options.service() != null ? options.service() : SosSettings.ingestService(configuration);
        if (service == null) {
            throw new IllegalArgumentException("the source sos-connector needs option(\"service\", \"HOST:PORT\"): what the listener"
                    + " prints after \"files\"; several between commas");
        }
        try {
            this.settings = SosSettings.of(configuration, service, Peer.LISTENER);
        } catch (IOException wrong) {
            throw new IllegalArgumentException("option service: " + wrong.getMessage(), wrong);
        }
    }

    @Override
    public StructType readSchema() {
        return decoding == null ? MessageRow.SCHEMA : decoding.schema();
    }

    @Override
    public String description() {
        return "sos-connector " + String.join(",", volumes) + " at " + settings.addresses();
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
        options.checkForStream();
        ServiceSettings hasty = settings.withDeadline(Math.min(settings.deadlineMillis(), MARK_MILLIS_MAX));
        String query = SparkContext.getOrCreate().getLocalProperty(QUERY_ID);
        String reader = readerName(query, checkpointLocation);
        String about = "application " + line(SparkEnv.get().conf().get("spark.app.name", "")) + "\ncheckpoint "
                + line(new Path(checkpointLocation).getParent().getParent().toString()) + "\n";
        Map<String, ReaderMark> marks = new TreeMap<>();
        for (String volume : volumes) {
            VolumeClient client = VolumeClient.of(volume, settings);
            marks.put(volume, new ReaderMark(client, VolumeClient.of(volume, hasty), reader, about));
        }
        return new IngestStream(
                logs(),
                marks,
                new StartingPoint(options.startingSequences(volumes), options.startsAtLatest()),
                new FirstOffset(checkpointLocation, configuration),
                new BatchLimit(options.maxRows(), options.maxBytes()),
                partitioning(),
                new MessageReaderFactory(decoding),
                options.lagByStream(),
                DurableOffsets.areNeeded(query) ? new DurableOffsets(checkpointLocation, configuration) : null);
    }

    /** A copy of a checkpoint has the id of its query, and is another reader. {@code checkpointLocation}: the source's part of it. */
    static String readerName(String queryId, String checkpointLocation) {
        Path place = new Path(checkpointLocation);
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(place.toString().getBytes(StandardCharsets.UTF_8));
            return queryId + "-" + place.getName() + "-" + HexFormat.of().formatHex(digest, 0, 4);
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException(impossible); // every JVM has it
        }
    }

    private static String line(String text) {
        return text.replaceAll("\\p{Cntrl}", " ");
    }

    @Override
    public Batch toBatch() {
        options.checkForBatch();
        ZoneId zone = ZoneId.of(SQLConf.get().sessionLocalTimeZone());
        IngestBatch.Bounds bounds = new IngestBatch.Bounds(
                options.fromSequence(volumes), options.toSequence(volumes), options.fromTime(zone), options.toTime(zone));
        return new IngestBatch(logs().values(), bounds, partitioning(), new MessageReaderFactory(decoding));
    }

    private Map<String, VolumeLog> logs() {
        Map<String, VolumeLog> logs = new TreeMap<>();
        volumes.forEach(volume -> logs.put(volume, new VolumeLog(volume, settings)));
        return logs;
    }

    private Partitioning partitioning() {
        return new Partitioning(
                options.splitsByStream(), SparkContext.getOrCreate().defaultParallelism(), options.minPartitions());
    }
}
