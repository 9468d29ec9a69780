package org.apache.spark.sql.connector.write;

import java.io.Serializable;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface WriterCommitMessage extends Serializable {}
