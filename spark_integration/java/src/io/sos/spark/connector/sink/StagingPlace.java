package io.sos.spark.connector.sink;

import io.sos.spark.gateway.ServiceSettings;
import io.sos.spark.gateway.VolumeClient;
import java.io.Serializable;

/** Where one run of a query's batches stages rows, and where their manifests go: connectors/relay/STAGING.md. */
record StagingPlace(ServiceSettings relay, String query, String run) implements Serializable {
    private static final String VOLUME = "relay";

    VolumeClient client() {
        return VolumeClient.of(VOLUME, relay);
    }

    VolumeClient client(long deadlineMillis) {
        return VolumeClient.of(VOLUME, relay.withDeadline(deadlineMillis));
    }

    String folder(long batch) {
        return "staged/" + query + "/" + batch + "/" + run;
    }

    String part(long batch, String name) {
        return folder(batch) + "/" + name;
    }

    String manifest(long batch) {
        return "commits/" + query + "/" + batch;
    }
}
