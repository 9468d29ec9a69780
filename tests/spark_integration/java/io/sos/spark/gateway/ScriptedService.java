package io.sos.spark.gateway;

import static io.sos.spark.gateway.ScriptedAnswers.frame;
import static io.sos.spark.gateway.ScriptedAnswers.refusal;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/** A service that greets, then answers every request with the same bytes, one connection after the other. */
final class ScriptedService implements AutoCloseable {
    final AtomicInteger connections = new AtomicInteger();
    final AtomicInteger requests = new AtomicInteger();
    /** How many requests have had their answer. */
    final AtomicInteger answered = new AtomicInteger();
    volatile int versionMax = 2;
    /** How far from its request's tag an answer's is. */
    volatile int tagsAhead;
    /** How far from its request's tag that of the answer to OPEN is. */
    volatile int openedAhead;
    /** Answers come in so many parts, half a second apart. */
    volatile int parts = 1;
    /** Answers concern the connection. */
    volatile boolean ofTheConnection;
    /** While it does, it says that it works on the request. */
    volatile boolean waits;
    volatile long epoch = 1;
    volatile boolean greets = true;
    volatile byte[] answer;
    private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());

    ScriptedService(byte[] answer) throws IOException {
        this.answer = answer;
        Thread thread = new Thread(() -> {
            while (!listener.isClosed()) {
                try (Socket client = listener.accept()) {
                    serve(client);
                } catch (IOException e) {
                    // the next one
                }
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void serve(Socket client) throws IOException {
        connections.incrementAndGet();
        DataInputStream in = new DataInputStream(client.getInputStream());
        DataOutputStream out = new DataOutputStream(client.getOutputStream());
        int version = 1;
        for (int i = 0; ; i++) {
            byte[] request = new byte[in.readInt()];
            in.readFully(request);
            int tag = version == 1 || i == 0 ? 0 : ByteBuffer.wrap(request).getInt(1);
            if (greets && i == 0) {
                version = ByteBuffer.wrap(request).getShort(1);
                if (version > versionMax) {
                    out.write(refusal(50, "not this version", "x", "y"));
                    return;
                }
                MsgpackWriter welcome = new MsgpackWriter();
                welcome.array(5).number(version).bytes(new byte[16]).number(2 << 20).number(1 << 20).number(0);
                out.write(frame(0xa1, welcome));
            } else if (greets && i == 1) {
                MsgpackWriter opened = new MsgpackWriter();
                opened.array(2).number(epoch).text("payments");
                out.write(tagged(version, tag + openedAhead, frame(0xa2, opened)));
            } else {
                requests.incrementAndGet();
                while (waits) {
                    LockSupport.parkNanos(200_000_000L);
                    out.write(tagged(version, 0, frame(0xa7, new MsgpackWriter().array(2).number(1).number(1))));
                }
                if (request[0] != 0x24 && request[0] != 0x25) { // a file that is streamed is answered at its end
                    inParts(tagged(version, ofTheConnection ? 0 : tag + tagsAhead, answer), out);
                    answered.incrementAndGet();
                }
            }
        }
    }

    private void inParts(byte[] bytes, DataOutputStream out) throws IOException {
        int count = parts;
        for (int part = 0; part < count; part++) {
            int start = bytes.length * part / count;
            out.write(bytes, start, bytes.length * (part + 1) / count - start);
            if (part + 1 < count) {
                LockSupport.parkNanos(500_000_000L);
            }
        }
    }

    private static byte[] tagged(int version, int tag, byte[] frame) {
        if (version == 1) {
            return frame;
        }
        byte[] tagged = new byte[frame.length + 4];
        ByteBuffer.wrap(tagged).putInt(frame.length).put(frame[4]).putInt(tag).put(frame, 5, frame.length - 5);
        return tagged;
    }

    void waitsFor(long nanos) {
        waits = true;
        new Thread(() -> {
            LockSupport.parkNanos(nanos);
            waits = false;
        }).start();
    }

    String address() {
        return "127.0.0.1:" + listener.getLocalPort();
    }

    @Override
    public void close() throws IOException {
        listener.close();
    }
}
