package io.sos.spark.connector;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Both sides of the connectors as Spark sees them: rows of ingest volumes to read, a relay to write to. */
final class ConnectorTable implements Table {
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
        return Set.of();
    }
}
