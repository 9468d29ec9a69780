package io.sos.spark.gateway;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * The shared connections of a volume, one for each service that is asked. Who finds none opens it; those who come meanwhile
 * wait, and hear how that went.
 */
final class SharedConnections {
    /** A service that refused version 2 is offered it again after this time: it may have been upgraded. */
    private static final long SINGLE_NANOS = TimeUnit.SECONDS.toNanos(60);

    private static final long LOOK_MILLIS = 250;

    private final Map<ServiceAddress, SharedConnection> open = new HashMap<>();
    private final Map<ServiceAddress, Opening> opening = new HashMap<>();
    private final Map<ServiceAddress, Long> singleSince = new HashMap<>();

    /** Connects and greets. */
    interface Opener {
        void open(SharedConnection connection) throws IOException;
    }

    private static final class Opening {
        private boolean isOver;
        private SharedConnection connection;
        private IOException failure;
    }

    /** Whether requests to this service share a connection: not to one that only knows one request at a time. */
    synchronized boolean isOffered(ServiceAddress address) {
        Long since = singleSince.get(address);
        return since == null || System.nanoTime() - since > SINGLE_NANOS;
    }

    /** It refused. */
    synchronized void isSingle(ServiceAddress address) {
        singleSince.put(address, System.nanoTime());
    }

    /** The connection to this service. IOException if it cannot be opened, RefusedException if it does not want to. */
    SharedConnection to(ServiceAddress address, Opener opener, long deadlineNanos) throws IOException {
        Opening mine = null;
        Opening theirs;
        synchronized (this) {
            SharedConnection there = open.get(address);
            if (there != null && there.isIdleLongerThan(Limits.IDLE_MILLIS_MAX)) {
                there.end(new IOException("was idle"));
            }
            if (there != null && there.isOpen()) {
                return there;
            }
            open.remove(address);
            theirs = opening.get(address);
            if (theirs == null) {
                mine = new Opening();
                opening.put(address, mine);
            }
        }
        return mine == null ? wait(theirs, deadlineNanos) : open(address, mine, opener);
    }

    private SharedConnection open(ServiceAddress address, Opening mine, Opener opener) throws IOException {
        SharedConnection connection = new SharedConnection(address);
        IOException failure = new IOException("could not be opened");
        boolean isOpened = false;
        try {
            opener.open(connection);
            isOpened = true;
            return connection;
        } catch (IOException e) {
            failure = e;
            throw e;
        } finally {
            synchronized (this) {
                opening.remove(address);
                mine.isOver = true;
                if (isOpened) {
                    mine.connection = connection;
                    open.put(address, connection);
                } else {
                    mine.failure = failure;
                }
                notifyAll();
            }
        }
    }

    private synchronized SharedConnection wait(Opening theirs, long deadlineNanos) throws IOException {
        while (!theirs.isOver) {
            long left = TimeUnit.NANOSECONDS.toMillis(deadlineNanos - System.nanoTime());
            if (left <= 0) {
                throw Watch.late(null);
            }
            try {
                wait(Math.min(left, LOOK_MILLIS));
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw Watch.interrupted(e);
            }
        }
        if (theirs.connection != null) {
            return theirs.connection;
        }
        if (theirs.failure instanceof RefusedException refusal) {
            throw refusal.again();
        }
        throw new IOException(theirs.failure.getMessage(), theirs.failure);
    }
}
