package io.sos.spark;

import io.sos.spark.gateway.FileEntry;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Path;
import java.util.Locale;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.Syncable;

/**
 * A file that can be flushed while it is written. Everything before hflush() or hsync() is durable and readable when that
 * returns, and nothing after it; a file that was never flushed appears whole at close(). If the writer dies, what was flushed
 * stays. Of two writers the one whose file was changed by the other fails, and what it had flushed is not touched.
 */
final class GrowingFile extends OutputStream implements Syncable, StreamCapabilities {
    private final SosVolume volume;
    private final org.apache.hadoop.fs.Path path;
    private final boolean overwrite;
    private final Path directory;
    private StagedContent staged;
    /** The file as this writer left it; null before the first flush. */
    private FileEntry published;

    private boolean isClosed;
    private Exception failure;

    GrowingFile(
            SosVolume volume, org.apache.hadoop.fs.Path path, boolean overwrite, FileEntry published, Path directory) {
        this.volume = volume;
        this.path = path;
        this.overwrite = overwrite;
        this.published = published;
        this.directory = directory;
        this.staged = new StagedContent(directory);
    }

    /** How long the file was when this writer began. */
    synchronized long size() {
        return published == null ? 0 : published.size();
    }

    @Override
    public synchronized void write(int b) throws IOException {
        write(new byte[] {(byte) b}, 0, 1);
    }

    @Override
    public synchronized void write(byte[] bytes, int offset, int length) throws IOException {
        checkOpen();
        try {
            staged.write(bytes, offset, length);
        } catch (IOException e) {
            fail(e);
            throw e;
        }
    }

    @Override
    public synchronized void hflush() throws IOException {
        checkOpen();
        send();
    }

    /** The same: what can be read is on the disks of enough servers. */
    @Override
    public void hsync() throws IOException {
        hflush();
    }

    @Override
    public boolean hasCapability(String capability) {
        return switch (capability.toLowerCase(Locale.ROOT)) {
            case StreamCapabilities.HFLUSH, StreamCapabilities.HSYNC -> true;
            default -> false;
        };
    }

    /** Once more is harmless after success; after a failure it fails again and never pretends. */
    @Override
    public synchronized void close() throws IOException {
        if (failure != null) {
            throw new IOException(path + " was not written to its end: " + failure.getMessage(), failure);
        }
        if (isClosed) {
            return;
        }
        send();
        isClosed = true;
        staged.close();
    }

    private void send() throws IOException {
        if (published != null && staged.size() == 0) {
            return;
        }
        try {
            published = published == null
                    ? volume.publish(path, staged, overwrite)
                    : volume.append(path, published, staged);
            staged.close();
            staged = new StagedContent(directory);
        } catch (IOException | RuntimeException e) {
            fail(e);
            throw e;
        }
    }

    private void fail(Exception reason) {
        failure = reason;
        staged.close();
    }

    private void checkOpen() throws IOException {
        if (failure != null || isClosed) {
            throw new IOException(path + " is no longer open for writing", failure);
        }
    }
}
