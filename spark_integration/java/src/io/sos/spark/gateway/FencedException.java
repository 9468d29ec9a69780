package io.sos.spark.gateway;

import java.util.Map;

/** A newer application has claimed the checkpoint: this one is the older of two and must stop. Nothing was changed. */
public final class FencedException extends RefusedException {
    private static final long serialVersionUID = 1L;

    private FencedException(String message, Map<String, Object> fields) {
        super(ServiceCode.FENCED, message, fields);
    }

    static FencedException of(RefusedException refusal, String path, PathClaim own) {
        Object application = refusal.field("application");
        Object startTime = refusal.field("start_time");
        String who = own == null
                ? "this process, which carries no claim,"
                : "application " + own.application() + ", started at " + own.startTime() + ",";
        String message = "FENCED: " + who + " may not change " + (path.isEmpty() ? "the volume" : path)
                + ": it belongs to application " + application + ", started at " + startTime
                + ". Two drivers were run on one checkpoint, and the later one has it; if that is this one, the clock of its"
                + " host is behind. " + refusal.getMessage();
        return new FencedException(message, refusal.fields());
    }
}
