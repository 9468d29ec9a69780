package org.apache.hadoop.fs;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public class FileStatus {
    public FileStatus(
            long length, boolean isdir, int replication, long blocksize, long modificationTime, Path path) {
        throw new AssertionError("a stub");
    }

    public Path getPath() {
        throw new AssertionError("a stub");
    }

    public boolean isFile() {
        throw new AssertionError("a stub");
    }

    public boolean isDirectory() {
        throw new AssertionError("a stub");
    }
}
