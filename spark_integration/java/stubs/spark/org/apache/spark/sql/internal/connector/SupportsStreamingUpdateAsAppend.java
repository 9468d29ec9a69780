package org.apache.spark.sql.internal.connector;

import org.apache.spark.sql.connector.write.WriteBuilder;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface SupportsStreamingUpdateAsAppend extends WriteBuilder {}
