package io.sos.spark.gateway;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;

/** Reads what is to be sent, and tells its failures from those of the connection: {@link ContentException}. */
final class ContentReader implements Closeable {
    private final String path;
    private final Content content;
    private final InputStream in;
    private long count;

    ContentReader(String path, Content content) throws ContentException {
        this.path = path;
        this.content = content;
        try {
            this.in = content.open();
        } catch (IOException e) {
            throw failed(e);
        }
    }

    /** Fills the buffer as far as the content goes; how many bytes. */
    int next(byte[] buffer) throws ContentException {
        try {
            int size = in.readNBytes(buffer, 0, buffer.length);
            count += size;
            return size;
        } catch (IOException e) {
            throw failed(e);
        }
    }

    /** A file that changes while it is sent must not be published under a size that it had once. */
    void checkEnd() throws ContentException {
        try {
            if (count == content.size() && in.read() < 0) {
                return;
            }
        } catch (IOException e) {
            throw failed(e);
        }
        throw new ContentException("what is to be written to " + path + " changed its size while it was sent", null);
    }

    @Override
    public void close() throws ContentException {
        try {
            in.close();
        } catch (IOException e) {
            throw failed(e);
        }
    }

    private ContentException failed(IOException cause) {
        return new ContentException("what is to be written to " + path + " cannot be read: " + cause.getMessage(), cause);
    }
}
