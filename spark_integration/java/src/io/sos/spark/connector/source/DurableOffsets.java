package io.sos.spark.connector.source;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Which of the offsets that a query has finished its checkpoint has, too. With asynchronous progress tracking Spark goes on
 * before that, so what a source is told then may be read again after a crash, and must be kept.
 *
 * <p>A batch that is in commits/ never runs again; its entry in offsets/ has the text of our offset, whatever its version.
 */
final class DurableOffsets {
    /** Of batches that Spark has not written yet; it writes once a second unless told otherwise. */
    private static final int FINISHED_MAX = 10_000;

    private static final Logger LOG = LoggerFactory.getLogger(DurableOffsets.class);

    private final Path checkpoint;
    private final Configuration configuration;
    private final Deque<SequenceOffset> finished = new ArrayDeque<>();

    /** {@code checkpointLocation}: the source's part of it, sources/N. */
    DurableOffsets(String checkpointLocation, Configuration configuration) {
        this.checkpoint = new Path(checkpointLocation).getParent().getParent();
        this.configuration = configuration;
    }

    /** Whether the query with this id, which runs now, tracks its progress asynchronously. Spark has no public word for it. */
    static boolean areNeeded(String queryId) {
        try {
            Object shared = SparkSession.active().getClass().getMethod("sharedState").invoke(SparkSession.active());
            Map<?, ?> queries = (Map<?, ?>) shared.getClass().getMethod("activeStreamingQueries").invoke(shared);
            Object query = queries.get(UUID.fromString(queryId));
            return query != null && query.getClass().getSimpleName().startsWith("AsyncProgressTracking");
        } catch (ReflectiveOperationException | RuntimeException otherSpark) {
            return false;
        }
    }

    /** The query has finished all before this offset. */
    void finished(SequenceOffset offset) {
        if (finished.isEmpty() || !finished.getLast().json().equals(offset.json())) {
            finished.addLast(offset);
        }
        if (finished.size() > FINISHED_MAX) {
            finished.removeFirst();
        }
    }

    /** The newest of them that the checkpoint has; null: none yet. */
    SequenceOffset newest() {
        String entry;
        try {
            entry = newestEntry();
        } catch (IOException failure) {
            LOG.warn("{} cannot be read, so that messages are kept longer than needed: {}", checkpoint, failure.toString());
            return null;
        }
        SequenceOffset found = null;
        for (SequenceOffset offset : finished) {
            if (entry != null && (entry.contains(offset.json()) || entry.contains(offset.json().replace("\"", "\\\"")))) {
                found = offset;
            }
        }
        while (found != null && finished.getFirst() != found) {
            finished.removeFirst();
        }
        return found;
    }

    /** Of the last batch that is committed. */
    private String newestEntry() throws IOException {
        FileSystem files = checkpoint.getFileSystem(configuration);
        try {
            String newest = Arrays.stream(files.listStatus(new Path(checkpoint, "commits")))
                    .map(FileStatus::getPath)
                    .map(Path::getName)
                    .filter(name -> name.matches("\\d{1,18}"))
                    .max((one, other) -> Long.compare(Long.parseLong(one), Long.parseLong(other)))
                    .orElse(null);
            if (newest == null) {
                return null;
            }
            try (InputStream in = files.open(new Path(new Path(checkpoint, "offsets"), newest))) {
                return new String(in.readAllBytes(), StandardCharsets.UTF_8);
            }
        } catch (FileNotFoundException notYet) {
            return null;
        }
    }
}
