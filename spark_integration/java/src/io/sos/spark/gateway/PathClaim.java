package io.sos.spark.gateway;

/** Who changes files under a checkpoint: a Spark application and when it started. The later start wins a path; the older one is fenced. */
public record PathClaim(String application, long startTime) {}
