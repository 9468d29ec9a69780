package io.sos.spark.gateway;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;

/** The open connections of a volume that no thread uses at the moment; the most recently used goes out first. */
final class IdleConnections {
    private static final int COUNT_MAX = 16;

    private final Deque<ServiceConnection> idle = new ArrayDeque<>();

    /** An idle connection to this address, or null. It may have died meanwhile: its first failure proves nothing. */
    synchronized ServiceConnection take(ServiceAddress address) {
        while (!idle.isEmpty() && idle.peekLast().isIdleLongerThan(Limits.IDLE_MILLIS_MAX)) {
            idle.removeLast().close();
        }
        for (Iterator<ServiceConnection> each = idle.iterator(); each.hasNext(); ) {
            ServiceConnection connection = each.next();
            if (connection.address().equals(address)) {
                each.remove();
                return connection;
            }
        }
        return null;
    }

    /** That service is silent: its other connections are not tried. */
    synchronized void forget(ServiceAddress address) {
        idle.removeIf(each -> {
            boolean isThere = each.address().equals(address);
            if (isThere) {
                each.close();
            }
            return isThere;
        });
    }

    synchronized void put(ServiceConnection connection) {
        idle.addFirst(connection);
        if (idle.size() > COUNT_MAX) {
            idle.removeLast().close();
        }
    }
}
