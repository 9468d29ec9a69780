package io.sos.spark.connector.sink;

import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** What one attempt of a task has staged; of each partition the driver hears of one attempt, which is the one that counts. */
record StagedPart(int partition, String name, long rows, long bytes) implements WriterCommitMessage {}
