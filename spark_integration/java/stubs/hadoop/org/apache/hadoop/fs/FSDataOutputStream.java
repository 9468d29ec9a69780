package org.apache.hadoop.fs;

import java.io.DataOutputStream;
import java.io.OutputStream;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public class FSDataOutputStream extends DataOutputStream {
    public FSDataOutputStream(OutputStream out, FileSystem.Statistics stats) {
        super(out);
        throw new AssertionError("a stub");
    }

    public FSDataOutputStream(OutputStream out, FileSystem.Statistics stats, long startPosition) {
        super(out);
        throw new AssertionError("a stub");
    }
}
