package org.apache.spark.sql.connector.read.streaming;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface SupportsTriggerAvailableNow extends SupportsAdmissionControl {
    void prepareForTriggerAvailableNow();
}
