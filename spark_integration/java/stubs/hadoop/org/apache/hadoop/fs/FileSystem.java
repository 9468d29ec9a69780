package org.apache.hadoop.fs;

import java.io.IOException;
import java.net.URI;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public abstract class FileSystem extends Configured {
    protected Statistics statistics;

    public static final class Statistics {
        public void incrementBytesRead(long newBytes) {
            throw new AssertionError("a stub");
        }

        public void incrementBytesWritten(long newBytes) {
            throw new AssertionError("a stub");
        }

        public void incrementReadOps(int count) {
            throw new AssertionError("a stub");
        }

        public void incrementWriteOps(int count) {
            throw new AssertionError("a stub");
        }
    }

    public static URI getDefaultUri(Configuration conf) {
        throw new AssertionError("a stub");
    }

    public void initialize(URI name, Configuration conf) throws IOException {
        throw new AssertionError("a stub");
    }

    public String getScheme() {
        throw new AssertionError("a stub");
    }

    public abstract URI getUri();

    public String getCanonicalServiceName() {
        throw new AssertionError("a stub");
    }

    protected void checkPath(Path path) {
        throw new AssertionError("a stub");
    }

    public Path makeQualified(Path path) {
        throw new AssertionError("a stub");
    }

    public boolean exists(Path path) throws IOException {
        throw new AssertionError("a stub");
    }

    public abstract FSDataInputStream open(Path path, int bufferSize) throws IOException;

    public FSDataInputStream open(Path path) throws IOException {
        throw new AssertionError("a stub");
    }

    public FSDataOutputStream create(Path path, boolean overwrite) throws IOException {
        throw new AssertionError("a stub");
    }

    public abstract FSDataOutputStream create(
            Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication, long blockSize,
            Progressable progress) throws IOException;

    public FSDataOutputStream createNonRecursive(
            Path path, FsPermission permission, EnumSet<CreateFlag> flags, int bufferSize, short replication,
            long blockSize, Progressable progress) throws IOException {
        throw new AssertionError("a stub");
    }

    public abstract FSDataOutputStream append(Path path, int bufferSize, Progressable progress) throws IOException;

    public boolean hasPathCapability(Path path, String capability) throws IOException {
        throw new AssertionError("a stub");
    }

    public abstract boolean rename(Path source, Path target) throws IOException;

    protected void rename(Path source, Path target, Options.Rename... options) throws IOException {
        throw new AssertionError("a stub");
    }

    public abstract boolean delete(Path path, boolean recursive) throws IOException;

    public abstract FileStatus[] listStatus(Path path) throws IOException;

    public abstract void setWorkingDirectory(Path path);

    public abstract Path getWorkingDirectory();

    public abstract boolean mkdirs(Path path, FsPermission permission) throws IOException;

    public abstract FileStatus getFileStatus(Path path) throws IOException;

    public void setPermission(Path path, FsPermission permission) throws IOException {
        throw new AssertionError("a stub");
    }

    public void setTimes(Path path, long modified, long accessed) throws IOException {
        throw new AssertionError("a stub");
    }

    public void setOwner(Path path, String user, String group) throws IOException {
        throw new AssertionError("a stub");
    }

    public boolean setReplication(Path path, short replication) throws IOException {
        throw new AssertionError("a stub");
    }

    public void copyFromLocalFile(boolean deleteSource, boolean overwrite, Path source, Path target)
            throws IOException {
        throw new AssertionError("a stub");
    }

    public void copyToLocalFile(boolean deleteSource, Path source, Path target, boolean useRawLocalFileSystem)
            throws IOException {
        throw new AssertionError("a stub");
    }
}
