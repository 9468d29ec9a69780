package io.sos.spark;

import io.sos.spark.gateway.Piece;
import java.io.Closeable;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * The pieces of one state of a file, for a reader that goes on from piece to piece: the next are on their way while it works
 * on one, each on a connection of its own. Who jumps gets single pieces. One thread at a time uses it.
 */
final class PiecesAhead implements Closeable {
    /** A service keeps a large file in pieces of this size, and reads and verifies whole ones: so do these begin and end. */
    static final int PIECE_BYTES = 1024 * 1024;
    /** One while another is written where it goes, and one for the wire not to rest between them. */
    private static final int AHEAD_MAX = 2;
    /** Of the JVM. Beyond it readers fetch for themselves, which is right, and slower. */
    private static final int THREADS_MAX = 32;

    private static final long THREAD_IDLE_SECONDS = 30;
    private static final ExecutorService FETCHERS = new ThreadPoolExecutor(
            0, THREADS_MAX, THREAD_IDLE_SECONDS, TimeUnit.SECONDS, new SynchronousQueue<>(), PiecesAhead::daemon);

    private final SosVolume volume;
    private final org.apache.hadoop.fs.Path path;
    private final long size;
    private final long modifiedMillis;
    private final Deque<Future<Piece>> ahead = new ArrayDeque<>();
    /** Where the first of {@code ahead} begins, or, if there is none, where a reader that goes on will ask. */
    private long nextOffset;

    /** {@code first}: what the reader has. */
    PiecesAhead(SosVolume volume, org.apache.hadoop.fs.Path path, Piece first) {
        this.volume = volume;
        this.path = path;
        this.size = first.entry().size();
        this.modifiedMillis = first.entry().modifiedMillis();
        this.nextOffset = first.offset() + first.bytes().length;
    }

    /** The piece that begins here. IOException, also what went wrong when it was fetched ahead. */
    Piece at(long offset) throws IOException {
        boolean goesOn = offset == nextOffset;
        if (!goesOn) {
            close();
        }
        Future<Piece> wanted = ahead.poll();
        nextOffset = Math.min(size, end(offset));
        if (goesOn) {
            fetchAhead();
        }
        try {
            return wanted == null ? fetch(offset) : arrived(wanted);
        } catch (IOException e) {
            close();
            throw e;
        }
    }

    private void fetchAhead() {
        while (ahead.size() < AHEAD_MAX) {
            long offset = nextOffset + (long) ahead.size() * PIECE_BYTES;
            if (offset >= size) {
                return;
            }
            try {
                ahead.add(FETCHERS.submit(() -> fetch(offset)));
            } catch (RejectedExecutionException busy) {
                return;
            }
        }
    }

    private Piece fetch(long offset) throws IOException {
        return volume.readPiece(path, offset, (int) (end(offset) - offset), modifiedMillis);
    }

    /** Of the piece that begins here. */
    private static long end(long offset) {
        return (offset / PIECE_BYTES + 1) * PIECE_BYTES;
    }

    private static Piece arrived(Future<Piece> piece) throws IOException {
        try {
            return piece.get();
        } catch (InterruptedException e) {
            piece.cancel(true);
            Thread.currentThread().interrupt();
            throw (IOException) new InterruptedIOException("interrupted while a file was read").initCause(e);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof IOException failure) {
                throw failure;
            }
            throw new IOException("a piece of a file could not be read: " + e.getCause(), e.getCause());
        }
    }

    /** Gives up what is on its way. */
    @Override
    public void close() {
        ahead.forEach(piece -> piece.cancel(true));
        ahead.clear();
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work, "sos-ahead");
        thread.setDaemon(true);
        thread.setContextClassLoader(null);
        return thread;
    }
}
