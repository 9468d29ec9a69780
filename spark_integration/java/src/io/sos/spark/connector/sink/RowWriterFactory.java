package io.sos.spark.connector.sink;

import io.sos.spark.SosSettings;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/** What travels to the executors. {@code bufferDirectory}: null, or where rows wait there. */
record RowWriterFactory(StagingPlace place, RowColumns columns, String bufferDirectory)
        implements StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partitionId, long taskId, long epochId) {
        Path directory = SosSettings.bufferDirectory(bufferDirectory);
        try {
            return new RowWriter(place, columns, epochId, partitionId, taskId, directory);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
