package io.sos.spark.gateway;

import java.util.HexFormat;
import java.util.List;

/**
 * How to reach the services. Equal settings share one pool of connections in a JVM.
 *
 * @param token 64 hex digits, or null
 * @param authorities certificates (PEM) to trust instead of the JVM's; null with {@code tls}: the JVM's own
 */
public record ServiceSettings(
        List<ServiceAddress> addresses, String token, boolean tls, String authorities, long deadlineMillis) {
    public ServiceSettings {
        if (addresses.isEmpty()) {
            throw new IllegalArgumentException("no address of a journal service");
        }
        if (token != null && !token.matches("[0-9a-fA-F]{" + 2 * Limits.TOKEN_BYTES + "}")) {
            throw new IllegalArgumentException("the token is not " + 2 * Limits.TOKEN_BYTES + " hex digits");
        }
    }

    byte[] tokenBytes() {
        return token == null ? null : HexFormat.of().parseHex(token);
    }

    /** Settings end up in logs; tokens must not. */
    @Override
    public String toString() {
        return addresses + (tls ? " with TLS" : "") + (token != null ? " with a token" : "");
    }
}
