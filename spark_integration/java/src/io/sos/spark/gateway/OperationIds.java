package io.sos.spark.gateway;

import java.security.SecureRandom;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.Set;

/**
 * Ids for changes. A service keeps the last answers of each client id for as long as somebody may ask for them, however many
 * others come. So an id is lent to one change at a time: a change that waits long for its answer is not pushed out by those
 * that pass it, and none of them waits for it.
 *
 * <p>There are as many client ids as changes are under way at once; beyond CLIENT_IDS_MAX those lent longest ago are shared.
 * An id whose change got no answer is not lent again before that.
 */
final class OperationIds {
    private final SecureRandom random = new SecureRandom();
    private final Deque<OperationId> free = new ArrayDeque<>();
    /** Longest ago first. Told apart by the array that is the client id: each was made here, once. */
    private final Set<OperationId> lent = new LinkedHashSet<>();

    /** One that was never lent. */
    synchronized OperationId lend() {
        OperationId operation = last().next();
        lent.add(operation);
        return operation;
    }

    private OperationId last() {
        if (!free.isEmpty()) {
            return free.pop();
        }
        if (lent.size() < Limits.CLIENT_IDS_MAX) {
            return new OperationId(randomBytes(), 0);
        }
        Iterator<OperationId> each = lent.iterator();
        OperationId longestAgo = each.next();
        each.remove();
        return longestAgo;
    }

    /** It was answered: nobody asks for the answer any more. */
    synchronized void giveBack(OperationId operation) {
        if (lent.remove(operation)) {
            free.push(operation);
        }
    }

    byte[] randomBytes() {
        byte[] bytes = new byte[Limits.INSTANCE_BYTES];
        random.nextBytes(bytes);
        return bytes;
    }
}
