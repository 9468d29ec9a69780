package org.apache.spark.sql.execution.streaming;

import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;

/** What the shim sees of the trait of this name in Spark 3.5 and 4.0. Compiled against, never shipped. */
public interface CheckpointFileManager {
    CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) throws IOException;

    FSDataInputStream open(Path path) throws IOException;

    FileStatus[] list(Path path, PathFilter filter) throws IOException;

    void mkdirs(Path path) throws IOException;

    boolean exists(Path path) throws IOException;

    void delete(Path path) throws IOException;

    boolean isLocal();

    Path createCheckpointDirectory() throws IOException;

    abstract class CancellableFSDataOutputStream extends FSDataOutputStream {
        public CancellableFSDataOutputStream(OutputStream underlyingStream) {
            super(underlyingStream, null);
            throw new AssertionError("a stub");
        }

        public abstract void cancel();
    }
}
