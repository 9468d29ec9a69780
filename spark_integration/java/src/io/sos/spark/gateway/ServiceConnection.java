package io.sos.spark.gateway;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/**
 * One connection to one service, with one volume opened: a request, its answer, the next. After any IOException but a
 * {@link RefusedException} it is of no more use. One thread at a time uses it, between begin() and end().
 */
final class ServiceConnection extends Talk implements Closeable {
    private static final int CONNECT_MILLIS_MAX = 5_000;
    private static final int BUFFER_BYTES = 64 * 1024;

    private final ServiceAddress address;
    private final SeenEpoch epochSeen;
    private final Socket socket = new Socket();
    private Watch watch;
    private DataInputStream in;
    private DataOutputStream out;
    private boolean hasSent;
    private boolean isOpened;
    private long idleSinceNanos;

    /** Not connected yet. {@code epochSeen} is the highest epoch of the volume in any answer, shared by its connections. */
    ServiceConnection(ServiceAddress address, SeenEpoch epochSeen) {
        this.address = address;
        this.epochSeen = epochSeen;
    }

    /** The current thread takes the connection for one request (or for connecting) and is watched meanwhile. */
    void begin(long deadlineNanos) {
        hasSent = false;
        watch = new Watch(socket, deadlineNanos);
    }

    void end() {
        watch.close();
        idleSinceNanos = System.nanoTime();
    }

    /** Connects, says HELLO and opens the volume. {@code tls} null: plain TCP. */
    void connect(SSLSocketFactory tls, Request.Hello hello, String volume, long deadlineNanos) throws IOException {
        Socket stream = dialled(socket, address, tls, deadlineNanos);
        watch.heard();
        in = new DataInputStream(
                new BufferedInputStream(new HeardStream(stream.getInputStream(), () -> watch.heard()), BUFFER_BYTES));
        out = new DataOutputStream(new BufferedOutputStream(stream.getOutputStream(), BUFFER_BYTES));
        send(hello);
        send(new Request.Open(volume, epochSeen.get()));
        check(receive(Answer.Welcome.class), Limits.VERSION);
        check(receive(Answer.Opened.class), volume);
        epochSeen.add(answeredEpoch());
        hasSent = false;
        isOpened = true;
    }

    static void check(Answer.Welcome welcome, int offered) throws ProtocolException {
        if (welcome.version() != offered) {
            throw new ProtocolException("speaks version " + welcome.version() + " of the file protocol, which was not offered");
        }
    }

    static void check(Answer.Opened opened, String volume) throws ProtocolException {
        if (!opened.volume().equals(volume)) {
            throw new ProtocolException("opened another volume than " + volume);
        }
    }

    /** Connects {@code socket}; what is said goes through the socket that is returned. {@code tls} null: plain TCP. */
    static Socket dialled(Socket socket, ServiceAddress address, SSLSocketFactory tls, long deadlineNanos)
            throws IOException {
        // Rounded up: what times out because of the deadline does so after it, and is not taken for a fault of the service.
        long left = 1 + Math.max(0, TimeUnit.NANOSECONDS.toMillis(deadlineNanos - System.nanoTime()));
        socket.setTcpNoDelay(true); // without it a small answer waits for a delayed acknowledgement
        socket.connect(
                new InetSocketAddress(address.host(), address.port()), (int) Math.min(CONNECT_MILLIS_MAX, left));
        return tls == null ? socket : secured(socket, address, tls);
    }

    private static SSLSocket secured(Socket socket, ServiceAddress address, SSLSocketFactory tls) throws IOException {
        SSLSocket secured = (SSLSocket) tls.createSocket(socket, address.host(), address.port(), true);
        SSLParameters parameters = secured.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS"); // or any certificate of that authority would do
        secured.setSSLParameters(parameters);
        secured.startHandshake();
        return secured;
    }

    @Override
    SeenEpoch epochSeen() {
        return epochSeen;
    }

    @Override
    ServiceAddress address() {
        return address;
    }

    @Override
    boolean hasSent() {
        return isOpened && hasSent;
    }

    @Override
    boolean isOpened() {
        return isOpened;
    }

    @Override
    boolean wasSilent() {
        return watch.foundSilence();
    }

    /** Whether it serves on after this refusal. */
    boolean outlives(RefusedException refusal) {
        return isOpened && !refusal.code().endsConnection();
    }

    boolean isIdleLongerThan(long millis) {
        return System.nanoTime() - idleSinceNanos > TimeUnit.MILLISECONDS.toNanos(millis);
    }

    @Override
    void send(Request request) throws IOException {
        hasSent = true;
        Frames.write(request, out);
        watch.heard();
    }

    /**
     * While a file is streamed: sends what is buffered and throws the RefusedException that may have come early. The request
     * is ended by then, so that the connection can serve again.
     */
    void flushUnlessRefused() throws IOException {
        out.flush();
        while (in.available() > 0) {
            Answer answer = Frames.read(in);
            if (answer instanceof Answer.Refusal refusal) {
                send(new Request.WriteCancel());
                out.flush();
                throw RefusedException.of(refusal);
            }
            if (!(answer instanceof Answer.Waiting)) {
                throw new ProtocolException("answered a file before its end");
            }
        }
    }

    @Override
    Answer next() throws IOException {
        out.flush();
        Answer answer;
        do {
            answer = Frames.read(in);
        } while (answer instanceof Answer.Waiting);
        return answer;
    }

    @Override
    IOException explain(IOException failure) {
        return watch.explain(failure);
    }

    /** The raw socket, not the TLS one: a goodbye could block, and nothing here needs it. */
    @Override
    public void close() {
        try {
            socket.close();
        } catch (IOException e) {
            // It is closed all the same.
        }
    }
}
