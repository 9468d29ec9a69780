package io.sos.spark.gateway;

import java.io.IOException;
import java.util.Map;

/** The service said no: the operation was definitely not done, and trying again does not help. */
public class RefusedException extends IOException {
    private static final long serialVersionUID = 1L;

    private final ServiceCode code;
    private final transient Map<String, Object> fields;

    RefusedException(ServiceCode code, String message, Map<String, Object> fields) {
        super(message);
        this.code = code;
        this.fields = fields;
    }

    static RefusedException of(Answer.Refusal refusal) {
        ServiceCode code = ServiceCode.of(refusal.code());
        String message = refusal.message() + " (" + (code == ServiceCode.UNKNOWN ? "code " + refusal.code() : code) + ")";
        return new RefusedException(code, message, refusal.fields());
    }

    /** What this side itself refuses to take. */
    static RefusedException of(ServiceCode code, String message) {
        return new RefusedException(code, message, Map.of());
    }

    /** The same for another thread. */
    final RefusedException again() {
        return new RefusedException(code, getMessage(), fields());
    }

    public final ServiceCode code() {
        return code;
    }

    /** What a program needs to go on, by name; null when the service did not say. */
    public final Object field(String name) {
        return fields().get(name);
    }

    /** Empty in a copy that travelled from an executor to the driver. */
    final Map<String, Object> fields() {
        return fields != null ? fields : Map.of();
    }
}
