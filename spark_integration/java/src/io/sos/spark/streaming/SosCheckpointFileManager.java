package io.sos.spark.streaming;

import io.sos.spark.CheckpointFiles;
import io.sos.spark.UncommittedFile;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.CheckpointFileManager$;

/**
 * {@code spark.sql.streaming.checkpointFileManagerClass} for Spark 3.5 and 4.0. The class of the
 * same name in {@code io.sos.spark.checkpointing} serves Spark 4.1 and later; they differ in nothing but the trait.
 */
public final class SosCheckpointFileManager implements CheckpointFileManager {
    /** Exactly one of the two is there: ours, or for another scheme the manager that Spark would have taken. */
    private final CheckpointFiles files;

    private final CheckpointFileManager delegate;

    /** Costs nothing under sos://: Spark makes managers all the time. */
    public SosCheckpointFileManager(Path path, Configuration configuration) throws IOException {
        if (CheckpointFiles.isOurs(path, configuration)) {
            files = new CheckpointFiles(path, configuration);
            delegate = null;
        } else {
            files = null;
            delegate = CheckpointFileManager$.MODULE$.create(path, CheckpointFiles.withoutManagerSetting(configuration));
        }
    }

    @Override
    public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) throws IOException {
        return delegate != null
                ? delegate.createAtomic(path, overwriteIfPossible)
                : new Cancellable(files.create(path, overwriteIfPossible));
    }

    @Override
    public FSDataInputStream open(Path path) throws IOException {
        return delegate != null ? delegate.open(path) : files.open(path);
    }

    @Override
    public FileStatus[] list(Path path, PathFilter filter) throws IOException {
        return delegate != null ? delegate.list(path, filter) : files.list(path, filter);
    }

    @Override
    public void mkdirs(Path path) throws IOException {
        if (delegate != null) {
            delegate.mkdirs(path);
        } else {
            files.mkdirs(path);
        }
    }

    @Override
    public boolean exists(Path path) throws IOException {
        return delegate != null ? delegate.exists(path) : files.exists(path);
    }

    @Override
    public void delete(Path path) throws IOException {
        if (delegate != null) {
            delegate.delete(path);
        } else {
            files.delete(path);
        }
    }

    @Override
    public boolean isLocal() {
        return delegate != null && delegate.isLocal();
    }

    @Override
    public Path createCheckpointDirectory() throws IOException {
        return delegate != null ? delegate.createCheckpointDirectory() : files.createCheckpointDirectory();
    }

    private static final class Cancellable extends CancellableFSDataOutputStream {
        private final UncommittedFile file;

        Cancellable(UncommittedFile file) {
            super(file);
            this.file = file;
        }

        @Override
        public void cancel() {
            file.cancel();
        }
    }
}
