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

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return IngestScanBuilder.SCHEMA;
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        if (SinkOptions.areOfSink(properties)) {
            SinkOptions.of(properties); // so that start() fails, not the first batch
        } else if (!properties.containsKey("connect")) {
            IngestScanBuilder.checkNames(properties); // so that load() fails
        }
        return new ConnectorTable();
    }
}
