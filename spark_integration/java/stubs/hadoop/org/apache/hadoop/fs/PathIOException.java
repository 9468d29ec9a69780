package org.apache.hadoop.fs;

import java.io.IOException;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public class PathIOException extends IOException {
    private static final long serialVersionUID = 1L;

    public PathIOException(String path, String error) {
        throw new AssertionError("a stub");
    }
}
