package org.apache.hadoop.fs;

import java.io.DataInputStream;
import java.io.InputStream;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public class FSDataInputStream extends DataInputStream {
    public FSDataInputStream(InputStream in) {
        super(in);
        throw new AssertionError("a stub");
    }
}
