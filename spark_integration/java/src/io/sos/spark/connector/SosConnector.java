package io.sos.spark.connector;

import io.sos.spark.connector.sink.SinkOptions;
import io.sos.spark.connector.source.IngestScanBuilder;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What Spark finds under {@code format("sos-connector")}. Which options are right is known where one of its sides begins. */
public final class SosConnector implements TableProvider, DataSourceRegister {
    public static final String NAME = "sos-connector";

    @Override
    public String shortName() {
        return NAME;
    }

    /** Of what is read. IllegalArgumentException for options that are wrong, so that load() fails. */
    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return isOfSink(options) ? IngestScanBuilder.SCHEMA : IngestScanBuilder.schemaOf(options.asCaseSensitiveMap());
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        if (SinkOptions.areOfSink(properties)) {
            SinkOptions.of(properties); // so that start() fails, not the first batch
        }
        return new ConnectorTable(schema);
    }

    /** A batch job has no checkpoint, and is refused where it writes. */
    private static boolean isOfSink(Map<String, String> options) {
        return SinkOptions.areOfSink(options) || options.containsKey("connect");
    }
}
