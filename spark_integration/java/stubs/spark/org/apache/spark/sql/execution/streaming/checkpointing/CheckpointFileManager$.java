package org.apache.spark.sql.execution.streaming.checkpointing;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** What the shim sees of the trait's companion object: how Spark chooses a manager. Compiled against, never shipped. */
public final class CheckpointFileManager$ {
    public static final CheckpointFileManager$ MODULE$ = null;

    public CheckpointFileManager create(Path path, Configuration hadoopConf) {
        throw new AssertionError("a stub");
    }
}
