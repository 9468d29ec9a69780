package io.sos.spark.connector.sink;

/** A batch is not, or perhaps not, committed at its sinks; the text says why, and starting the query again is always right. */
public final class BatchNotCommittedException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    BatchNotCommittedException(String message, Throwable cause) {
        super(message, cause);
    }
}
