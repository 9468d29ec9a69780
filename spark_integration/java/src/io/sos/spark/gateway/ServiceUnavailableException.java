package io.sos.spark.gateway;

import java.io.IOException;

/** No service could be asked until the deadline; nothing was changed. */
public final class ServiceUnavailableException extends IOException {
    private static final long serialVersionUID = 1L;

    ServiceUnavailableException(String message, Throwable cause) {
        super(message, cause);
    }
}
