package io.sos.spark.connector.sink;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Which rows of its sources a batch is: the file in the checkpoint that Spark writes before it runs a batch, and reads when it
 * runs it again. Where a checkpoint was put back the batch of the same number has another one: at least its time differs.
 */
final class BatchPlan {
    private BatchPlan() {}

    /** SHA-256 in hexadecimal digits; null: Spark has not written it yet (with progress tracking that is asynchronous). */
    static String hashOf(String checkpoint, long batch, Configuration configuration) throws IOException {
        Path path = new Path(new Path(new Path(checkpoint), "offsets"), Long.toString(batch));
        try (InputStream in = path.getFileSystem(configuration).open(path)) {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(in.readAllBytes()));
        } catch (FileNotFoundException isNotWritten) {
            return null;
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError("each Java has SHA-256", e);
        }
    }
}
