package org.apache.hadoop.fs;

import java.io.IOException;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public class PathIsNotEmptyDirectoryException extends IOException {
    private static final long serialVersionUID = 1L;

    public PathIsNotEmptyDirectoryException(String path) {
        throw new AssertionError("a stub");
    }
}
