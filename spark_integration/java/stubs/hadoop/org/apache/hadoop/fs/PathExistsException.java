package org.apache.hadoop.fs;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public class PathExistsException extends PathIOException {
    private static final long serialVersionUID = 1L;

    public PathExistsException(String path) {
        super(path, null);
        throw new AssertionError("a stub");
    }
}
