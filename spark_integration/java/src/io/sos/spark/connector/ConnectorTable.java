package io.sos.spark.connector;

import io.sos.spark.connector.sink.ConnectorWriteBuilder;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Both sides of the connectors as Spark sees them: rows of ingest volumes to read, a relay to write to. */
final class ConnectorTable implements SupportsWrite {
    /** Of what is read. Ids and sequence numbers are the 64 bits of the protocol; event times are as they were sent. */
    static final StructType SCHEMA = new StructType()
            .add("stream_id", DataTypes.LongType, false)
            .add("stream_name", DataTypes.StringType, false)
            .add("message_id", DataTypes.LongType, false)
            .add("event_time", DataTypes.LongType, false)
            .add("key", DataTypes.BinaryType, true)
            .add("value", DataTypes.BinaryType, false)
            .add("sequence", DataTypes.LongType, false)
            .add("received", DataTypes.TimestampType, false);

    @Override
    public String name() {
        return SosConnector.NAME;
    }

    @Override
    public StructType schema() {
        return SCHEMA;
    }

    @Override
    public Set<TableCapability> capabilities() {
        return Set.of(TableCapability.STREAMING_WRITE, TableCapability.BATCH_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new ConnectorWriteBuilder(info);
    }
}
