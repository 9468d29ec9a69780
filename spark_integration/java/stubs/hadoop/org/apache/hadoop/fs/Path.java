package org.apache.hadoop.fs;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public class Path {
    public Path(String path) {
        throw new AssertionError("a stub");
    }

    public Path(String parent, Path child) {
        throw new AssertionError("a stub");
    }

    public Path(Path parent, String child) {
        throw new AssertionError("a stub");
    }

    public Path(String scheme, String authority, String path) {
        throw new AssertionError("a stub");
    }

    public FileSystem getFileSystem(Configuration conf) throws IOException {
        throw new AssertionError("a stub");
    }

    public URI toUri() {
        throw new AssertionError("a stub");
    }

    public String getName() {
        throw new AssertionError("a stub");
    }

    public Path getParent() {
        throw new AssertionError("a stub");
    }

    public boolean isRoot() {
        throw new AssertionError("a stub");
    }

    @Override
    public boolean equals(Object other) {
        throw new AssertionError("a stub");
    }

    @Override
    public int hashCode() {
        throw new AssertionError("a stub");
    }

    @Override
    public String toString() {
        throw new AssertionError("a stub");
    }
}
