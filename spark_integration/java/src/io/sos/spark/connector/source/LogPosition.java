package io.sos.spark.connector.source;

import java.io.Serializable;

/** Where a block of the log begins, or ends: {@code file} is the sequence number that its file is named after. */
record LogPosition(long file, long offset) implements Serializable {}
