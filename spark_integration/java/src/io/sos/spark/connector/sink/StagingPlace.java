package io.sos.spark.connector.sink;

import io.sos.spark.gateway.ServiceSettings;
import io.sos.spark.gateway.VolumeClient;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.UUID;

/** Where one run of a query's batches stages rows, and where their manifests go: connectors/relay/STAGING.md. */
record StagingPlace(ServiceSettings relay, String query, String name, String run) implements Serializable {
    private static final String VOLUME = "relay";
    private static final int DIGITS = 16;

    /** A fork has the id of its original, and another checkpoint; both may be at one relay. */
    static StagingPlace of(ServiceSettings relay, String query, String checkpoint) {
        try {
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(checkpoint.getBytes(StandardCharsets.UTF_8));
            String name = query + "-" + HexFormat.of().formatHex(digest).substring(0, DIGITS);
            return new StagingPlace(relay, query, name, UUID.randomUUID().toString());
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError("each Java has SHA-256", e);
        }
    }

    VolumeClient client() {
        return VolumeClient.of(VOLUME, relay);
    }

    VolumeClient client(long deadlineMillis) {
        return VolumeClient.of(VOLUME, relay.withDeadline(deadlineMillis));
    }

    String folder(long batch) {
        return "staged/" + name + "/" + batch + "/" + run;
    }

    String part(long batch, String name) {
        return folder(batch) + "/" + name;
    }

    String manifest(long batch) {
        return "commits/" + name + "/" + batch;
    }
}
