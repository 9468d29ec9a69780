package io.sos.spark.gateway;

import java.io.IOException;

/** The bytes to write could not be read on this side; nothing was published, and sending them again would not help. */
public final class ContentException extends IOException {
    private static final long serialVersionUID = 1L;

    ContentException(String message, Throwable cause) {
        super(message, cause);
    }
}
