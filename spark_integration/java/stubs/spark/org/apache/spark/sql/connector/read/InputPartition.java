package org.apache.spark.sql.connector.read;

import java.io.Serializable;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface InputPartition extends Serializable {}
