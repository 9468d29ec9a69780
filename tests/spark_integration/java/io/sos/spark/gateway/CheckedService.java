package io.sos.spark.gateway;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.concurrent.atomic.AtomicInteger;

/** The service that is asked: clients of it, paths that nobody else has, content. */
final class CheckedService {
    private static final String ROOT = "client-" + System.nanoTime() + "/";
    private static final AtomicInteger COUNTER = new AtomicInteger();
    private static volatile String service;

    private CheckedService() {}

    static void at(String address) {
        service = address;
    }

    static String service() {
        return service;
    }

    static VolumeClient client(int deadlineSeconds, String... addresses) {
        return VolumeClient.of("payments", settings(deadlineSeconds, addresses));
    }

    /** Deadlines differ by a millisecond, so that each check has a client, and connections, of its own. */
    static ServiceSettings settings(int deadlineSeconds, String... addresses) {
        return new ServiceSettings(
                ServiceAddress.parseList(String.join(",", addresses)), null, false, null, false,
                deadlineSeconds * 1000L + COUNTER.getAndIncrement());
    }

    static ServiceSettings tokenSettings(String addresses, String token, boolean tls, boolean insecure) {
        return new ServiceSettings(ServiceAddress.parseList(addresses), token, tls, null, insecure, 2000);
    }

    static String fresh() {
        return ROOT + COUNTER.getAndIncrement();
    }

    static Content content(String text) {
        return content(text.getBytes());
    }

    static Content content(byte[] bytes) {
        return sized(bytes, bytes.length);
    }

    static Content sized(byte[] bytes, long size) {
        return new Content() {
            public long size() {
                return size;
            }

            public InputStream open() {
                return new ByteArrayInputStream(bytes);
            }
        };
    }

    static Content broken(long size) {
        return new Content() {
            public long size() {
                return size;
            }

            public InputStream open() {
                return new InputStream() {
                    public int read() throws IOException {
                        throw new IOException("a bad sector");
                    }
                };
            }
        };
    }

    static String read(VolumeClient client, String path) throws IOException {
        return new String(client.read(path, 0, 1000, null).bytes());
    }

    static byte[] readAll(VolumeClient client, String path, int size) throws IOException {
        byte[] all = new byte[size];
        int filled = 0;
        while (filled < size) {
            byte[] piece = client.read(path, filled, 1 << 20, null).bytes();
            System.arraycopy(piece, 0, all, filled, piece.length);
            filled += piece.length;
        }
        return all;
    }
}
