package io.sos.spark.gateway;

import java.io.IOException;

/**
 * The other side broke the file protocol: framing, checksum, a message that is not one, an answer of an epoch that is over.
 * The connection is of no more use.
 */
public final class ProtocolException extends IOException {
    private static final long serialVersionUID = 1L;

    public ProtocolException(String message) {
        super(message);
    }

    public ProtocolException(String message, Throwable cause) {
        super(message, cause);
    }
}
