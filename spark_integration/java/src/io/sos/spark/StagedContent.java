package io.sos.spark;

import io.sos.spark.gateway.Content;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A file's bytes between the first write() and close(): up to 1 MiB in memory, more in a temporary file, so that they can be
 * sent again when a connection is lost and an executor's memory stays bounded.
 */
public final class StagedContent extends OutputStream implements Content {
    private static final int MEMORY_BYTES_MAX = 1024 * 1024;

    private final Path directory;
    private ByteArrayOutputStream memory = new ByteArrayOutputStream(1024);
    private Path file;
    private OutputStream fileStream;
    private long size;

    public StagedContent(Path directory) {
        this.directory = directory;
    }

    @Override
    public void write(int b) throws IOException {
        target(1).write(b);
        size++;
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
        target(length).write(bytes, offset, length);
        size += length;
    }

    private OutputStream target(int additional) throws IOException {
        if (file == null && size + additional > MEMORY_BYTES_MAX) {
            file = Files.createTempFile(directory, "sos-", ".staged");
            fileStream = Files.newOutputStream(file);
            memory.writeTo(fileStream);
            memory = null;
        }
        return file == null ? memory : fileStream;
    }

    @Override
    public long size() {
        return size;
    }

    @Override
    public InputStream open() throws IOException {
        return file == null ? new ByteArrayInputStream(memory.toByteArray()) : Files.newInputStream(file);
    }

    /** Forgets everything. A temporary file that cannot be deleted now must not turn a success into a failure. */
    @Override
    public void close() {
        memory = null;
        if (fileStream == null) {
            return;
        }
        try {
            fileStream.close();
            Files.deleteIfExists(file);
        } catch (IOException e) {
            file.toFile().deleteOnExit();
        }
        fileStream = null;
    }
}
