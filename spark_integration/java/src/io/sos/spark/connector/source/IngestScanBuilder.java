package io.sos.spark.connector.source;

import java.util.Map;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;

/** Where the source begins: from what a query was told to what it reads. */
public final class IngestScanBuilder implements ScanBuilder {
    /** Of messages as they are. */
    public static final StructType SCHEMA = MessageRow.SCHEMA;

    private final SourceOptions options;

    /** IllegalArgumentException for an option that no source has. */
    public IngestScanBuilder(Map<String, String> options) {
        this.options = new SourceOptions(options);
    }

    /** The columns that a source with these options has. IllegalArgumentException for an option that no source has. */
    public static StructType schemaOf(Map<String, String> options) {
        ValueFormat format = new SourceOptions(options).valueFormat();
        return format == null ? MessageRow.SCHEMA : new ValueDecoding(format).schema();
    }

    @Override
    public Scan build() {
        return new IngestScan(options);
    }
}
