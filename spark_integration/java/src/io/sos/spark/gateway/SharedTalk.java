package io.sos.spark.gateway;

import java.io.IOException;

/** One request of one frame on a shared connection. */
final class SharedTalk extends Talk {
    private static final long IDLE_MILLIS = 1_000;

    private final ServiceAddress address;
    private final SeenEpoch epochSeen;
    private final long deadlineNanos;
    private SharedConnection connection;
    private SharedConnection.Question question;
    private boolean wasIdle;

    SharedTalk(ServiceAddress address, SeenEpoch epochSeen, long deadlineNanos) {
        this.address = address;
        this.epochSeen = epochSeen;
        this.deadlineNanos = deadlineNanos;
    }

    /** From here on there is somebody to talk to. */
    void on(SharedConnection connection) {
        this.connection = connection;
        wasIdle = connection.isIdleLongerThan(IDLE_MILLIS);
    }

    /** Nobody had used the connection for a while: it may have died long ago. */
    boolean wasIdle() {
        return wasIdle;
    }

    /** What was answered here cannot be: nothing more is asked on this connection. */
    void distrust(ProtocolException reason) {
        if (connection != null) {
            connection.end(reason);
        }
    }

    @Override
    void send(Request request) throws IOException {
        question = connection.ask(request, deadlineNanos);
    }

    @Override
    Answer next() throws IOException {
        return connection.await(question, deadlineNanos);
    }

    @Override
    ServiceAddress address() {
        return address;
    }

    @Override
    SeenEpoch epochSeen() {
        return epochSeen;
    }

    @Override
    boolean hasSent() {
        return question != null && question.hasSent();
    }

    @Override
    boolean isOpened() {
        return connection != null;
    }

    @Override
    boolean wasSilent() {
        return connection != null && connection.wasSilent();
    }

    @Override
    IOException explain(IOException failure) {
        return failure;
    }
}
