package io.sos.spark.gateway;

import java.io.Serializable;
import java.util.HexFormat;
import java.util.List;

/**
 * How to reach the services. Equal settings share one pool of connections in a JVM.
 *
 * @param token 64 hex digits, or null
 * @param authorities certificates (PEM) to trust instead of the JVM's; null with {@code tls}: the JVM's own
 * @param insecure the token may go out without TLS, to other hosts and to whomever a service names as owner
 * @param peer which program is there; only sentences differ
 */
public record ServiceSettings(
        List<ServiceAddress> addresses,
        String token,
        boolean tls,
        String authorities,
        boolean insecure,
        long deadlineMillis,
        Peer peer)
        implements Serializable {
    public ServiceSettings {
        if (addresses.isEmpty()) {
            throw new IllegalArgumentException("no address of a " + peer.title());
        }
        if (token != null && !token.matches("[0-9a-fA-F]{" + 2 * Limits.TOKEN_BYTES + "}")) {
            throw new IllegalArgumentException("the token is not " + 2 * Limits.TOKEN_BYTES + " hex digits");
        }
        for (ServiceAddress address : addresses) {
            if (!mayHaveToken(token, tls, insecure, address)) {
                throw new IllegalArgumentException("the token would go to " + address + " in clear, for whoever listens on"
                        + " the way: switch TLS on (fs.sos.tls, fs.sos.tls.authorities.file), or set fs.sos.insecure to"
                        + " true if nobody can");
            }
        }
    }

    public ServiceSettings(
            List<ServiceAddress> addresses,
            String token,
            boolean tls,
            String authorities,
            boolean insecure,
            long deadlineMillis) {
        this(addresses, token, tls, authorities, insecure, deadlineMillis, Peer.JOURNAL);
    }

    public ServiceSettings withDeadline(long millis) {
        return new ServiceSettings(addresses, token, tls, authorities, insecure, millis, peer);
    }

    /** Whether a connection to this address may be opened, on which the token, if there is one, is said first. */
    boolean mayAsk(ServiceAddress address) {
        return mayHaveToken(token, tls, insecure, address);
    }

    private static boolean mayHaveToken(String token, boolean tls, boolean insecure, ServiceAddress address) {
        return token == null || tls || insecure || address.isLoopback();
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
