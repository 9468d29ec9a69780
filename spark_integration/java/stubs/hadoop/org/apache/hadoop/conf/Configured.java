package org.apache.hadoop.conf;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public class Configured {
    public void setConf(Configuration conf) {
        throw new AssertionError("a stub");
    }
}
