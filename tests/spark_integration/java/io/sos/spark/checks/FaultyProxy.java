package io.sos.spark.checks;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/** Stands between a client and a service, and fails in the ways that networks do. */
public final class FaultyProxy implements AutoCloseable {
    public enum Mode {
        /** Everything passes. */
        PASS,
        /** Requests arrive, answers are lost: the connection is cut when the first byte of an answer comes. */
        LOSE_ANSWERS,
        /** Connections are accepted, and nothing is ever read or said. */
        SILENT,
        /** Connections are closed as soon as they are accepted. */
        REFUSE
    }

    private final ServerSocket listener;
    private final int servicePort;
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
    public final AtomicInteger connections = new AtomicInteger();
    /** How many connections still lose answers when the mode says so; then everything passes. */
    public final AtomicInteger losses = new AtomicInteger();
    public volatile Mode mode = Mode.PASS;
    /** Nothing passes any more on any connection, and nobody is told: a machine that sleeps, or is gone. */
    public volatile boolean frozen;
    /** How many connections a request was swallowed on. */
    public final AtomicInteger swallowed = new AtomicInteger();
    /** Where a cut comes after so many bytes towards the service; negative: never. */
    public volatile long cutAfterBytes = -1;

    public FaultyProxy(String service) throws IOException {
        servicePort = Integer.parseInt(service.substring(service.lastIndexOf(':') + 1));
        listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        daemon(this::accept);
    }

    public String address() {
        return "127.0.0.1:" + listener.getLocalPort();
    }

    /** Cuts every connection there is. */
    public void cut() throws IOException {
        for (Socket socket : sockets) {
            socket.close();
        }
        sockets.clear();
    }

    @Override
    public void close() throws IOException {
        listener.close();
        cut();
    }

    private void accept() throws IOException {
        while (true) {
            Socket client = listener.accept();
            connections.incrementAndGet();
            sockets.add(client);
            if (mode == Mode.REFUSE) {
                client.close();
            } else if (mode != Mode.SILENT) {
                Socket service = new Socket(InetAddress.getLoopbackAddress(), servicePort);
                client.setTcpNoDelay(true);
                service.setTcpNoDelay(true);
                sockets.add(service);
                daemon(() -> copy(client, service, true));
                daemon(() -> copy(service, client, false));
            }
        }
    }

    private void copy(Socket from, Socket to, boolean towardsService) throws IOException {
        byte[] buffer = new byte[16384];
        long count = 0;
        long passed = 0;
        try (from; to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            int size;
            while ((size = in.read(buffer)) > 0) {
                if (frozen) {
                    swallowed.incrementAndGet();
                    silently();
                }
                count += size;
                if (towardsService && cutAfterBytes >= 0 && count > cutAfterBytes) {
                    cutAfterBytes = -1;
                    return;
                }
                // The answers to HELLO and OPEN come before any that is worth losing.
                if (!towardsService && mode == Mode.LOSE_ANSWERS && passed > 0 && losses.getAndDecrement() > 0) {
                    return;
                }
                passed = towardsService ? passed : passed + (count >= 60 ? size : 0);
                out.write(buffer, 0, size);
            }
        }
    }

    private static void silently() throws IOException {
        try {
            Thread.sleep(600_000);
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
    }

    private interface Task {
        void run() throws IOException;
    }

    private static void daemon(Task task) {
        Thread thread = new Thread(() -> {
            try {
                task.run();
            } catch (IOException e) {
                // the connection, or the proxy, has ended
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
