package io.sos.spark.gateway;

import java.io.IOException;
import java.net.UnknownHostException;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * The life of one operation over all its attempts: what may have happened so far, when to give up, and what to say then.
 */
final class Retries {
    private static final long FIRST_PAUSE_MILLIS = 20;
    private static final long PAUSE_MILLIS_MAX = 500;

    private final Route route;
    private final ServiceSettings settings;
    private final boolean isChange;
    private final String what;
    private final long startNanos = System.nanoTime();
    private final long deadlineNanos;
    private final Set<ServiceAddress> withoutVolume = new HashSet<>();
    private long pauseMillis = FIRST_PAUSE_MILLIS;
    private boolean mayBeDone;
    private boolean wasReached;
    /** What says more than that time is over: the last that was answered, or else that failed before the deadline did. */
    private String answered;

    private String failedBefore;

    Retries(Route route, ServiceSettings settings, boolean isChange, String what, long deadlineMillis) {
        this.route = route;
        this.settings = settings;
        this.isChange = isChange;
        this.what = what;
        this.deadlineNanos = startNanos + TimeUnit.MILLISECONDS.toNanos(deadlineMillis);
    }

    long deadlineNanos() {
        return deadlineNanos;
    }

    /** The service said no: throws if that is final, else pauses and turns to where the next attempt goes. */
    void refused(RefusedException refusal, ServiceAddress address) throws IOException {
        answered = said(address, refusal);
        wasReached = true;
        ServiceCode code = refusal.code();
        if (code == ServiceCode.OUTCOME_UNKNOWN) {
            mayBeDone = true;
        }
        if (code.again() == ServiceCode.Again.NO) {
            throw isChange && mayBeDone && code.isOfConversation() ? unknown(refusal, address) : refusal;
        }
        if (code == ServiceCode.VOLUME_NOT_FOUND) {
            withoutVolume.add(address);
            if (withoutVolume.size() >= route.size() || refusal.field(WholeVolume.SHARDS_FIELD) != null) {
                throw refusal;
            }
        }
        if (code.again() == ServiceCode.Again.ELSEWHERE) {
            route.redirect(address, ownerToAsk(refusal, address));
        } else {
            route.leave(address);
        }
        pauseBefore(address, refusal);
    }

    /**
     * The connection failed. {@code wasIdle}: it may have died long ago, so the next attempt need not wait. One that was silent
     * did not die long ago: the service did, and its other connections would be as silent.
     */
    void failed(IOException failure, Talk connection, boolean wasIdle) throws IOException {
        mayBeDone |= connection.hasSent();
        wasReached |= connection.isOpened();
        if (failure instanceof ProtocolException) {
            answered = said(connection.address(), failure);
        } else if (deadlineNanos - System.nanoTime() > 0) {
            failedBefore = said(connection.address(), failure);
        }
        if (wasIdle && !connection.wasSilent() && deadlineNanos - System.nanoTime() > 0) {
            return;
        }
        route.leave(connection.address());
        pauseBefore(connection.address(), failure);
    }

    private void pauseBefore(ServiceAddress address, IOException cause) throws IOException {
        long left = TimeUnit.NANOSECONDS.toMillis(deadlineNanos - System.nanoTime());
        if (left <= 0) {
            throw late(address, cause);
        }
        // The last attempt must have time to hear an answer: an attempt that begins at the deadline hears none.
        long pause = Math.min(left / 2, ThreadLocalRandom.current().nextLong(pauseMillis / 2, pauseMillis + 1));
        pauseMillis = Math.min(2 * pauseMillis, PAUSE_MILLIS_MAX);
        try {
            Thread.sleep(Math.max(1, pause));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw Watch.interrupted(e);
        }
    }

    private IOException late(ServiceAddress address, IOException cause) {
        long seconds = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - startNanos);
        String last = said(address, cause);
        String tried = what + ": tried for " + seconds + " s, last " + last;
        String before = answered != null ? answered : failedBefore;
        if (before != null && !before.equals(last)) {
            tried += ", before that " + before;
        }
        if (isChange && mayBeDone) {
            return unknown(tried, cause);
        }
        tried += ". Nothing was changed.";
        if (!wasReached) {
            tried += " " + settings.peer().unreached();
        }
        return new ServiceUnavailableException(tried, cause);
    }

    /** It may have been done before: that this service did not look at it now does not say that it was not. */
    private IOException unknown(RefusedException refusal, ServiceAddress address) {
        return unknown(what + ": " + said(address, refusal), refusal);
    }

    private static IOException unknown(String tried, IOException cause) {
        return new OutcomeUnknownException(tried + ". Outcome unknown: it may or may not have been done.", cause);
    }

    /** Some of Java's exceptions have no message: their name is one. */
    private static String said(ServiceAddress address, IOException failure) {
        String message = failure.getMessage() != null ? failure.getMessage() : failure.getClass().getSimpleName();
        return address + ": " + (failure instanceof UnknownHostException ? "unknown host" : message);
    }

    /** Who has the volume, as the refusal says; null if it does not say, or names one that may not be told the token. */
    private ServiceAddress ownerToAsk(RefusedException refusal, ServiceAddress address) throws ProtocolException {
        ServiceAddress owner = ownerIn(refusal);
        if (owner == null || settings.mayAsk(owner)) {
            return owner;
        }
        answered = said(address, refusal) + "; " + owner + " is not asked: the token would go there in clear, and anybody could have"
                + " said so (fs.sos.tls, or fs.sos.insecure)";
        return null;
    }

    private static ServiceAddress ownerIn(RefusedException refusal) throws ProtocolException {
        Object address = refusal.field("address");
        if (!(address instanceof String text)) {
            return null;
        }
        try {
            return ServiceAddress.parse(text);
        } catch (IllegalArgumentException e) {
            throw new ProtocolException("NOT_OWNER with what is not an address:  " + text, e);
        }
    }
}
