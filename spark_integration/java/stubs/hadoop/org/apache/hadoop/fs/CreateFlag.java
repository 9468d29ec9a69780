package org.apache.hadoop.fs;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public enum CreateFlag {
    OVERWRITE
}
