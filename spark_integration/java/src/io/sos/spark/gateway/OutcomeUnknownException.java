package io.sos.spark.gateway;

import java.io.IOException;

/** The deadline passed after a copy of the request had left: the operation may or may not have been done. */
public final class OutcomeUnknownException extends IOException {
    private static final long serialVersionUID = 1L;

    OutcomeUnknownException(String message, Throwable cause) {
        super(message, cause);
    }
}
