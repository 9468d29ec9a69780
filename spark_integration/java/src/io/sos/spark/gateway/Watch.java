package io.sos.spark.gateway;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * Ends blocking socket calls whose thread was interrupted, whose deadline passed, or whose peer is silent, by closing the
 * socket. One daemon thread per JVM looks every 250 ms. This covers connecting, TLS, reading and writing alike, which
 * socket timeouts do not, and interrupts do not reach a blocking socket at all.
 */
final class Watch implements AutoCloseable {
    private static final long LOOK_MILLIS = 250;
    private static final Set<Watch> ACTIVE = ConcurrentHashMap.newKeySet();

    private enum Verdict {
        NONE,
        INTERRUPTED,
        SILENT,
        LATE
    }

    private final Thread thread = Thread.currentThread();
    private final Socket socket;
    private final long deadlineNanos;
    private volatile long heardNanos = System.nanoTime();
    private volatile Verdict verdict = Verdict.NONE;
    private int unread;

    static {
        Thread looker = new Thread(Watch::look, "sos-watch");
        looker.setDaemon(true);
        looker.setContextClassLoader(null);
        looker.start();
    }

    /** Watches what the current thread does with the socket, until close(). */
    Watch(Socket socket, long deadlineNanos) {
        this.socket = socket;
        this.deadlineNanos = deadlineNanos;
        ACTIVE.add(this);
    }

    /** The peer gave a sign, or took bytes: it is not silent. */
    void heard() {
        heardNanos = System.nanoTime();
    }

    /** Whether the socket was closed because the peer gave no sign for too long. */
    boolean foundSilence() {
        return verdict == Verdict.SILENT;
    }

    /** The error to throw for {@code failure}: why the watch closed the socket, if it did. */
    IOException explain(IOException failure) {
        return switch (verdict) {
            case NONE, INTERRUPTED -> failure;
            case SILENT -> silence(failure);
            case LATE -> late(failure);
        };
    }

    /** The flag stays set: code that swallows an IOException still stops at its next step. */
    static InterruptedIOException interrupted(Throwable cause) {
        InterruptedIOException interrupted = new InterruptedIOException("interrupted while talking to the journal service");
        interrupted.initCause(cause);
        return interrupted;
    }

    static IOException silence(Throwable cause) {
        return new IOException("no sign for " + Limits.SILENCE_MILLIS_MAX / 1000 + " s", cause);
    }

    static IOException late(Throwable cause) {
        return new IOException("no answer before the deadline", cause);
    }

    @Override
    public void close() {
        ACTIVE.remove(this);
    }

    private void judge() {
        long now = System.nanoTime();
        if (thread.isInterrupted()) {
            end(Verdict.INTERRUPTED);
        } else if (now - deadlineNanos > 0) {
            end(Verdict.LATE);
        } else if (hasMoreUnread()) {
            heardNanos = now;
        } else if (now - heardNanos > TimeUnit.MILLISECONDS.toNanos(Limits.SILENCE_MILLIS_MAX)) {
            end(Verdict.SILENT);
        }
    }

    /** A thread that is stuck in a write reads nothing, but a service that is busy says so all the same. */
    private boolean hasMoreUnread() {
        int before = unread;
        try {
            unread = socket.getInputStream().available();
        } catch (IOException e) {
            unread = 0; // not connected yet, or closed: whoever uses it finds out
        }
        return unread > before;
    }

    private void end(Verdict reason) {
        verdict = reason;
        ACTIVE.remove(this);
        try {
            socket.close();
        } catch (IOException e) {
            // It is closed all the same.
        }
    }

    private static void look() {
        while (true) {
            try {
                Thread.sleep(LOOK_MILLIS);
            } catch (InterruptedException e) {
                continue; // nobody has a reason to interrupt this thread; it must go on for all others
            }
            ACTIVE.forEach(Watch::judge);
        }
    }
}
