package io.sos.spark.connector.source;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Where a query began, kept in its checkpoint (sources/N/0, as the Kafka source keeps it there): Spark does not keep it, and
 * a first batch that is run again after a crash must begin there, whatever is the oldest or newest message by then.
 */
final class FirstOffset {
    private static final String VERSION = "v1\n";

    private final Path path;
    private final Configuration configuration;

    FirstOffset(String checkpointLocation, Configuration configuration) {
        this.path = new Path(new Path(checkpointLocation), "0");
        this.configuration = configuration;
    }

    /** Null: the query has not begun. */
    SequenceOffset read() throws IOException {
        String text;
        try (InputStream in = path.getFileSystem(configuration).open(path)) {
            text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (FileNotFoundException isNew) {
            return null;
        }
        if (!text.startsWith(VERSION)) {
            throw new IOException(path + " is not of the source sos-connector, or of a newer one: it begins with '"
                    + text.lines().findFirst().orElse("") + "'");
        }
        try {
            return SequenceOffset.parse(text.substring(VERSION.length()));
        } catch (IllegalArgumentException malformed) {
            throw new IOException(path + " is damaged: " + malformed.getMessage(), malformed);
        }
    }

    /** All of it or nothing is there after a crash. */
    void write(SequenceOffset offset) throws IOException {
        FileSystem files = path.getFileSystem(configuration);
        Path unfinished = new Path(path.getParent(), ".0.tmp");
        try (OutputStream out = files.create(unfinished, true)) {
            out.write((VERSION + offset.json()).getBytes(StandardCharsets.UTF_8));
        }
        if (!files.rename(unfinished, path)) {
            throw new IOException(unfinished + " cannot be renamed to " + path);
        }
    }
}
