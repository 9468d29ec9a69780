package org.apache.hadoop.fs;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public class PathIsDirectoryException extends PathExistsException {
    private static final long serialVersionUID = 1L;

    public PathIsDirectoryException(String path) {
        super(path);
        throw new AssertionError("a stub");
    }
}
