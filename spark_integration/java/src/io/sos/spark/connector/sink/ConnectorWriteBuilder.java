package io.sos.spark.connector.sink;

import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;

/** Takes append and update mode: what a query updates is sent as it comes. Spark makes one for each batch. */
public final class ConnectorWriteBuilder implements SupportsStreamingUpdateAsAppend {
    private final LogicalWriteInfo info;

    public ConnectorWriteBuilder(LogicalWriteInfo info) {
        this.info = info;
    }

    @Override
    public Write build() {
        return new ConnectorWrite(info);
    }
}
