package io.sos.spark;

import io.sos.spark.gateway.RefusedException;
import io.sos.spark.gateway.ServiceCode;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathExistsException;
import org.apache.hadoop.fs.PathIOException;
import org.apache.hadoop.fs.PathIsDirectoryException;
import org.apache.hadoop.fs.PathIsNotEmptyDirectoryException;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * sos://VOLUME/path for Hadoop. A file appears, durable, with all that was written before hflush(), hsync() or close(), the
 * first of them; rename is one step; permissions, owners and replication are not there. Opens no connection before it is used.
 */
public final class SosFileSystem extends FileSystem {
    private static final Logger LOG = LoggerFactory.getLogger(SosFileSystem.class);
    private static final Path ROOT = new Path("/");

    private URI uri;
    private SosVolume volume;
    private Path workingDirectory;

    @Override
    public void initialize(URI name, Configuration configuration) throws IOException {
        super.initialize(name, configuration);
        setConf(configuration);
        uri = URI.create(SosSettings.SCHEME + "://" + name.getAuthority());
        volume = new SosVolume(name, configuration);
        workingDirectory = new Path(uri.toString(), ROOT);
    }

    @Override
    public String getScheme() {
        return SosSettings.SCHEME;
    }

    @Override
    public URI getUri() {
        return uri;
    }

    /** Null: a volume is not a host, and there are no delegation tokens. */
    @Override
    public String getCanonicalServiceName() {
        return null;
    }

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        Path file = resolve(path);
        statistics.incrementReadOps(1);
        return volume.open(file, statistics);
    }

    @Override
    public FSDataOutputStream create(
            Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication, long blockSize,
            Progressable progress) throws IOException {
        Path file = resolve(path);
        statistics.incrementWriteOps(1);
        failIfInTheWay(file, overwrite);
        return new FSDataOutputStream(volume.createGrowing(file, overwrite), statistics);
    }

    /** Hadoop's other ways to do this, its builder too, end here. */
    @Override
    public FSDataOutputStream createNonRecursive(
            Path path, FsPermission permission, EnumSet<CreateFlag> flags, int bufferSize, short replication,
            long blockSize, Progressable progress) throws IOException {
        checkParent(resolve(path));
        return create(path, permission, flags.contains(CreateFlag.OVERWRITE), bufferSize, replication, blockSize, progress);
    }

    @Override
    public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) throws IOException {
        Path there = resolve(path);
        statistics.incrementWriteOps(1);
        GrowingFile file = volume.appendTo(there);
        return new FSDataOutputStream(file, statistics, file.size());
    }

    @Override
    public boolean hasPathCapability(Path path, String capability) throws IOException {
        resolve(path);
        return capability.equalsIgnoreCase(CommonPathCapabilities.FS_APPEND) || super.hasPathCapability(path, capability);
    }

    /**
     * False, as Hadoop's rename answers, when there is nothing to move, or something in the way. Parents of the target that are
     * missing are made, in the same step; HDFS would answer false.
     */
    @Override
    public boolean rename(Path source, Path target) throws IOException {
        Path from = resolve(source);
        Path to = resolve(target);
        statistics.incrementWriteOps(1);
        if (from.equals(to)) {
            return exists(from) && getFileStatus(from).isFile();
        }
        try {
            volume.rename(from, to, false);
            return true;
        } catch (RefusedException refusal) {
            return renameRefused(refusal, from, to);
        }
    }

    private boolean renameRefused(RefusedException refusal, Path from, Path to) throws IOException {
        ServiceCode code = refusal.code();
        boolean isInTheWay = code == ServiceCode.ALREADY_EXISTS || code == ServiceCode.IS_DIRECTORY;
        if (isInTheWay && getFileStatus(to).isDirectory() && !isInside(to, from) && !to.equals(from.getParent())) {
            Path into = new Path(to, from.getName());
            return !exists(into) && rename(from, into);
        }
        return switch (code) {
            case NOT_FOUND, NOT_DIRECTORY, ALREADY_EXISTS, IS_DIRECTORY, NOT_EMPTY, BAD_PATH, BAD_REQUEST -> false;
            default -> throw Refusals.whenChanging(refusal, from);
        };
    }

    /**
     * One step, with or without replacing a file; what FileContext's users and Spark's own manager rely on. An empty directory
     * is replaced in two: others may see for a moment that it is gone.
     */
    @Override
    protected void rename(Path source, Path target, Options.Rename... options) throws IOException {
        renameAtomically(source, target, Arrays.asList(options).contains(Options.Rename.OVERWRITE));
    }

    void renameAtomically(Path source, Path target, boolean overwrite) throws IOException {
        Path from = resolve(source);
        Path to = resolve(target);
        if (from.equals(to)) {
            throw new FileAlreadyExistsException(from + " and " + to + " are the same");
        }
        statistics.incrementWriteOps(1);
        checkParent(to);
        try {
            volume.rename(from, to, overwrite);
        } catch (RefusedException refusal) {
            if (overwrite && refusal.code() == ServiceCode.IS_DIRECTORY && replacesEmptyDirectory(from, to)) {
                return;
            }
            throw Refusals.whenChanging(refusal, refusal.code() == ServiceCode.NOT_FOUND ? from : to);
        }
    }

    /** A directory takes the place of an empty one, as Hadoop has it. */
    private boolean replacesEmptyDirectory(Path from, Path to) throws IOException {
        if (isInside(to, from) || !volume.stat(from).isDirectory() || !volume.stat(to).isDirectory()) {
            return false;
        }
        volume.delete(to, false);
        renameOnce(from, to);
        return true;
    }

    private void renameOnce(Path from, Path to) throws IOException {
        try {
            volume.rename(from, to, false);
        } catch (RefusedException refusal) {
            throw Refusals.whenChanging(refusal, to);
        }
    }

    /** The root stays: false, as HDFS answers, but an error for a full one that is not to be deleted with its content. */
    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        Path doomed = resolve(path);
        statistics.incrementWriteOps(1);
        if (!doomed.isRoot()) {
            return volume.delete(doomed, recursive);
        }
        if (!recursive && volume.list(doomed).length > 0) {
            throw new PathIsNotEmptyDirectoryException(doomed.toString());
        }
        return false;
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        Path directory = resolve(path);
        statistics.incrementReadOps(1);
        return volume.list(directory);
    }

    @Override
    public boolean mkdirs(Path path, FsPermission permission) throws IOException {
        Path directory = resolve(path);
        statistics.incrementWriteOps(1);
        volume.mkdirs(directory);
        return true;
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        Path there = resolve(path);
        statistics.incrementReadOps(1);
        return volume.stat(there);
    }

    /**
     * Spark sets permissions of its event log, so that this is not an error, also of a file that is open and not there yet;
     * whoever relies on them reads it in the log.
     */
    @Override
    public void setPermission(Path path, FsPermission permission) {
        resolve(path);
        LOG.warn("sos:// keeps no permissions: those of {} stay as they are. Rights come from tokens.", path);
    }

    @Override
    public void setOwner(Path path, String user, String group) throws IOException {
        volume.stat(resolve(path));
        throw new PathIOException(path.toString(), "sos:// keeps no owners. Rights come from tokens");
    }

    /** Times are the volume's own; Spark and others set them to please, so that this is not an error. */
    @Override
    public void setTimes(Path path, long modified, long accessed) throws IOException {
        volume.stat(resolve(path));
        LOG.warn("sos:// keeps the time of the last change only: that of {} stays as it is", path);
    }

    /** False: how many copies there are is decided for the whole volume. */
    @Override
    public boolean setReplication(Path path, short replication) throws IOException {
        volume.stat(resolve(path));
        LOG.warn("sos:// keeps as many copies as the volume has servers: {} has no number of its own", path);
        return false;
    }

    @Override
    public void setWorkingDirectory(Path path) {
        workingDirectory = makeQualified(path);
    }

    @Override
    public Path getWorkingDirectory() {
        return workingDirectory;
    }

    /** A plain file goes from where it lies to the volume in one request, without a copy; RocksDB's files come this way. */
    @Override
    public void copyFromLocalFile(boolean deleteSource, boolean overwrite, Path source, Path target) throws IOException {
        java.nio.file.Path file = java.nio.file.Path.of(source.toUri().getPath());
        if (!Files.isRegularFile(file)) {
            super.copyFromLocalFile(deleteSource, overwrite, source, target);
            return;
        }
        LocalFileContent content = LocalFileContent.of(file);
        Path to = resolve(target);
        statistics.incrementWriteOps(1);
        try {
            volume.publish(to, content, overwrite);
        } catch (FileAlreadyExistsException e) {
            if (!volume.stat(to).isDirectory()) {
                throw new PathExistsException(to.toString());
            }
            publishInto(new Path(to, source.getName()), content, overwrite);
        }
        statistics.incrementBytesWritten(content.size());
        if (deleteSource) {
            Files.delete(file);
        }
    }

    /**
     * A plain file goes straight to where it is to lie. Hadoop's local file system would start a process to set its mode, and
     * one more for a file of checksums beside it, which nobody needs who got bytes that were verified. RocksDB's files come
     * this way.
     */
    @Override
    public void copyToLocalFile(boolean deleteSource, Path source, Path target, boolean useRawLocalFileSystem)
            throws IOException {
        Path from = resolve(source);
        java.nio.file.Path file = java.nio.file.Path.of(target.toUri().getPath());
        if (deleteSource || Files.isDirectory(file) || volume.stat(from).isDirectory()) {
            super.copyToLocalFile(deleteSource, source, target, useRawLocalFileSystem);
            return;
        }
        statistics.incrementReadOps(1);
        try (SosInputStream in = volume.openWhole(from, statistics)) {
            LocalFileContent.replace(file, in);
        }
    }

    private void publishInto(Path to, LocalFileContent content, boolean overwrite) throws IOException {
        try {
            volume.publish(to, content, overwrite);
        } catch (FileAlreadyExistsException e) {
            throw volume.stat(to).isDirectory()
                    ? new PathIsDirectoryException(to.toString())
                    : new PathExistsException(to.toString());
        }
    }

    private void failIfInTheWay(Path path, boolean overwrite) throws IOException {
        try {
            FileStatus there = volume.stat(path);
            if (there.isDirectory() || !overwrite) {
                throw new FileAlreadyExistsException(
                        path + (there.isDirectory() ? " is a directory" : " exists already"));
            }
        } catch (FileNotFoundException nothing) {
            // as it should be
        }
    }

    private void checkParent(Path path) throws IOException {
        Path parent = path.getParent();
        if (parent != null && !parent.isRoot() && volume.stat(parent).isFile()) {
            throw new ParentNotDirectoryException(parent + " is a file");
        }
    }

    private static boolean isInside(Path path, Path directory) {
        for (Path each = path; each != null; each = each.getParent()) {
            if (each.equals(directory)) {
                return true;
            }
        }
        return false;
    }

    private Path resolve(Path path) {
        Path qualified = makeQualified(path);
        checkPath(qualified);
        return qualified;
    }
}
