package io.sos.spark.gateway;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/** Where a journal service listens. */
public record ServiceAddress(String host, int port) implements Serializable {
    private static final Pattern LOOPBACK = Pattern.compile("127(\\.\\d{1,3}){3}");

    /** HOST:PORT or [IPV6]:PORT. IllegalArgumentException, with a sentence, for anything else. */
    public static ServiceAddress parse(String text) {
        int colon = text.lastIndexOf(':');
        if (colon < 1) {
            throw new IllegalArgumentException("'" + text + "' is not HOST:PORT");
        }
        String host = text.substring(0, colon);
        if (host.startsWith("[") && host.endsWith("]")) {
            host = host.substring(1, host.length() - 1);
        }
        try {
            int port = Integer.parseInt(text.substring(colon + 1));
            if (port > 0 && port < 65536) {
                return new ServiceAddress(host, port);
            }
        } catch (NumberFormatException e) {
            // said below
        }
        throw new IllegalArgumentException("'" + text + "' has no port from 1 to 65535 after its last colon");
    }

    /** Addresses between commas. */
    public static List<ServiceAddress> parseList(String text) {
        List<ServiceAddress> addresses = new ArrayList<>();
        for (String part : text.split(",")) {
            if (!part.isBlank()) {
                addresses.add(parse(part.strip()));
            }
        }
        return List.copyOf(addresses);
    }

    /** Whether what is sent there stays on this host, as far as the name itself tells: no name server is believed. */
    boolean isLoopback() {
        return host.equalsIgnoreCase("localhost") || host.equals("::1") || LOOPBACK.matcher(host).matches();
    }

    @Override
    public String toString() {
        return (host.indexOf(':') >= 0 ? "[" + host + "]" : host) + ":" + port;
    }
}
