package io.sos.spark.connector;

import io.sos.spark.connector.sink.ConnectorWriteBuilder;
import io.sos.spark.connector.source.IngestScanBuilder;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Both sides of the connectors as Spark sees them: rows of ingest volumes to read, a relay to write to. */
final class ConnectorTable implements SupportsRead, SupportsWrite {
    private final StructType schema;

    /** {@code schema}: of what is read; what is written may have other columns. */
    ConnectorTable(StructType schema) {
        this.schema = schema;
    }

    @Override
    public String name() {
        return SosConnector.NAME;
    }

    @Override
    public StructType schema() {
        return schema;
    }

    @Override
    public Set<TableCapability> capabilities() {
        return Set.of(
                TableCapability.BATCH_READ,
                TableCapability.MICRO_BATCH_READ,
                TableCapability.STREAMING_WRITE,
                TableCapability.BATCH_WRITE,
                TableCapability.ACCEPT_ANY_SCHEMA);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new IngestScanBuilder(options.asCaseSensitiveMap());
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new ConnectorWriteBuilder(info);
    }
}
