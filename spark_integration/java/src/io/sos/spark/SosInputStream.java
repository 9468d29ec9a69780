package io.sos.spark;

import io.sos.spark.gateway.Piece;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Reads one state of a file, piece by piece: the first with the request that opens it, so a small file costs one round trip;
 * larger ones when reading goes on, with the next on their way meanwhile. Each piece is an operation of its own, so a
 * restart of the service does not end a read.
 */
final class SosInputStream extends FSInputStream {
    static final int FIRST_PIECE_BYTES = 128 * 1024;

    private final PiecesAhead pieces;
    private final Path path;
    private final long size;
    private final FileSystem.Statistics statistics;
    private Piece piece;
    private long position;
    private boolean closed;

    /** {@code statistics} null: nobody counts. */
    SosInputStream(SosVolume volume, Path path, Piece first, FileSystem.Statistics statistics) {
        this.statistics = statistics;
        this.pieces = new PiecesAhead(volume, path, first);
        this.path = path;
        this.size = first.entry().size();
        this.piece = first;
    }

    @Override
    public synchronized int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public synchronized int read(byte[] buffer, int offset, int length) throws IOException {
        checkOpen();
        if (length == 0) {
            return 0;
        }
        if (position >= size) {
            return -1;
        }
        int within = withinPiece();
        int count = Math.min(length, piece.bytes().length - within);
        System.arraycopy(piece.bytes(), within, buffer, offset, count);
        advance(count);
        return count;
    }

    /** All the rest, from each piece without a copy. */
    @Override
    public synchronized long transferTo(OutputStream out) throws IOException {
        checkOpen();
        long before = position;
        while (position < size) {
            int within = withinPiece();
            int count = piece.bytes().length - within;
            out.write(piece.bytes(), within, count);
            advance(count);
        }
        return position - before;
    }

    /** Where in the piece the position is; the piece is fetched if it is another one. */
    private int withinPiece() throws IOException {
        long within = position - piece.offset();
        if (within < 0 || within >= piece.bytes().length) {
            piece = pieces.at(position);
            if (statistics != null) {
                statistics.incrementReadOps(1);
            }
            within = 0;
        }
        return (int) within;
    }

    private void advance(int count) {
        position += count;
        if (statistics != null) {
            statistics.incrementBytesRead(count);
        }
    }

    @Override
    public synchronized void seek(long target) throws IOException {
        checkOpen();
        if (target < 0 || target > size) {
            throw new EOFException("cannot seek to " + target + " in " + path + ", which has " + size + " bytes");
        }
        position = target;
    }

    @Override
    public synchronized long getPos() {
        return position;
    }

    @Override
    public boolean seekToNewSource(long target) {
        return false;
    }

    @Override
    public synchronized long skip(long count) throws IOException {
        checkOpen();
        long skipped = Math.max(0, Math.min(count, size - position));
        position += skipped;
        return skipped;
    }

    @Override
    public synchronized int available() throws IOException {
        checkOpen();
        return (int) Math.min(Integer.MAX_VALUE, size - position);
    }

    @Override
    public synchronized void close() {
        closed = true;
        piece = null;
        pieces.close();
    }

    private void checkOpen() throws IOException {
        if (closed) {
            throw new IOException("the stream of " + path + " is closed");
        }
    }
}
