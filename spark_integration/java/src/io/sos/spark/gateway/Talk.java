package io.sos.spark.gateway;

import java.io.IOException;

/** One attempt to have a request answered: what is sent and received, and what is known when it fails. */
abstract class Talk {
    private long answeredEpoch;

    abstract ServiceAddress address();

    abstract void send(Request request) throws IOException;

    /** What the service says next that is not WAITING. */
    abstract Answer next() throws IOException;

    abstract SeenEpoch epochSeen();

    /** Whether bytes of the present request may have left, so that the service may act on it. HELLO and OPEN are none. */
    abstract boolean hasSent();

    /** Whether a journal service that has the volume was there. */
    abstract boolean isOpened();

    /** Whether it ended because the service gave no sign for too long. */
    abstract boolean wasSilent();

    /** Why the request failed: what is known better, or else {@code failure} itself. */
    abstract IOException explain(IOException failure);

    /** The next answer, which must be of this class. RefusedException when the service says no. */
    final <T extends Answer> T receive(Class<T> expected) throws IOException {
        Answer answer = receive();
        if (!expected.isInstance(answer)) {
            throw new ProtocolException("answered " + answer.getClass().getSimpleName() + " where "
                    + expected.getSimpleName() + " was due");
        }
        return expected.cast(answer);
    }

    /** The next answer that is not WAITING. RefusedException when the service says no. */
    final Answer receive() throws IOException {
        Answer answer = next();
        epochSeen().checkOrUnlearn(answer);
        answeredEpoch = answer.epoch();
        if (answer instanceof Answer.Refusal refusal) {
            throw RefusedException.of(refusal);
        }
        return answer;
    }

    /** Of the last answer. */
    final long answeredEpoch() {
        return answeredEpoch;
    }
}
