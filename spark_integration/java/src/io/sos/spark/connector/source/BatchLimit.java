package io.sos.spark.connector.source;

import org.apache.spark.sql.connector.read.streaming.ReadLimit;

/** How much one micro-batch may take; Spark hands it back to the source. Long.MAX_VALUE: as much as there is. */
record BatchLimit(long rowsMax, long bytesMax) implements ReadLimit {}
