package io.sos.spark.gateway;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The highest epoch of a volume in any answer that was one: asked for, well-formed, of a possible epoch. What is kept here
 * decides which answers count from now on, so that one broken answer must not get in.
 */
final class SeenEpoch {
    private final AtomicLong highest = new AtomicLong();

    long get() {
        return highest.get();
    }

    /** ProtocolException for an answer of an older epoch, whose service lost the volume and does not know it. */
    void check(long epoch) throws ProtocolException {
        long seen = highest.get();
        if (epoch != 0 && epoch < seen) {
            throw new ProtocolException("answered for epoch " + epoch + ", but the volume is at epoch " + seen);
        }
        long last = TimeUnit.MILLISECONDS.toSeconds(System.currentTimeMillis()) + Limits.EPOCHS_AHEAD_MAX;
        if (epoch > last) {
            throw new ProtocolException("answered for epoch " + epoch + ", which cannot be: by this machine's clock the last is "
                    + last);
        }
    }

    /**
     * Forget an epoch that was never an owner's: the owner has asked the volume's members since it heard of it, and says
     * NOT_OWNER with the epoch that it still has. What was seen since then stays.
     */
    void unlearn(Answer.Refusal refusal) {
        boolean refuted = ServiceCode.of(refusal.code()) == ServiceCode.NOT_OWNER;
        if (refuted && refusal.fields().get("epoch") instanceof Long seen && refusal.fields().get("owned") instanceof Long owned
                && owned > 0 && owned < seen) {
            highest.compareAndSet(seen, owned);
        }
    }

    /** As `check`, after `unlearn` if the answer is a refusal. */
    void checkOrUnlearn(Answer answer) throws ProtocolException {
        if (answer instanceof Answer.Refusal refusal) {
            unlearn(refusal);
        }
        check(answer.epoch());
    }

    /** The answer was the one that was due. */
    void add(long epoch) {
        highest.accumulateAndGet(epoch, Math::max);
    }
}
