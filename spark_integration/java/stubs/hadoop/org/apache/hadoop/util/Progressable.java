package org.apache.hadoop.util;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public interface Progressable {
    void progress();
}
