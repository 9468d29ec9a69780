package io.sos.spark;

import io.sos.spark.gateway.RefusedException;
import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.fs.Path;

/**
 * A file that is being written. It exists, whole and durable, when close() returns, and not at all before; when close()
 * fails, its exception says whether that is certain. cancel() forgets it, and never touches what is published.
 */
public final class UncommittedFile extends OutputStream {
    private enum State {
        OPEN,
        PUBLISHED,
        CANCELLED,
        FAILED
    }

    private final SosVolume volume;
    private final Path path;
    private final boolean overwrite;
    private final StagedContent content;
    private State state = State.OPEN;
    private Exception failure;

    UncommittedFile(SosVolume volume, Path path, boolean overwrite, StagedContent content) {
        this.volume = volume;
        this.path = path;
        this.overwrite = overwrite;
        this.content = content;
    }

    @Override
    public synchronized void write(int b) throws IOException {
        checkOpen();
        try {
            content.write(b);
        } catch (IOException e) {
            fail(e);
            throw e;
        }
    }

    @Override
    public synchronized void write(byte[] bytes, int offset, int length) throws IOException {
        checkOpen();
        try {
            content.write(bytes, offset, length);
        } catch (IOException e) {
            fail(e);
            throw e;
        }
    }

    /**
     * Publishes the file. Once more is harmless after success; after a failure, of a write() as well, it fails again and
     * never pretends: try-with-resources closes what it could not write, too.
     */
    @Override
    public synchronized void close() throws IOException {
        if (state == State.FAILED) {
            throw new IOException(path + " was not published: " + failure.getMessage(), failure);
        }
        if (state != State.OPEN) {
            return;
        }
        try {
            volume.publish(path, content, overwrite);
            state = State.PUBLISHED;
            content.close();
        } catch (IOException | RuntimeException e) {
            fail(e);
            throw e;
        }
    }

    /** Nothing was sent before close(), so there is nothing to take back. */
    public synchronized void cancel() {
        if (state != State.OPEN) {
            return;
        }
        state = State.CANCELLED;
        content.close();
    }

    private void fail(Exception reason) {
        state = State.FAILED;
        failure = reason;
        content.close();
    }

    private void checkOpen() throws IOException {
        if (state != State.OPEN) {
            throw new IOException(path + " is no longer open for writing");
        }
    }
}
