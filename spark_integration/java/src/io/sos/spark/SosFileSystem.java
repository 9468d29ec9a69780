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
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * sos://VOLUME/path for Hadoop. A file appears, durable, with all that was written before hflush(), hsync() or close(), the
 * first of them; rename is one step; permissions, owners and replication are not there. Opens no connection before it is used.
 */
public final class SosFileSystem extends FileSystem {
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
        return volume.open(resolve(path));
    }

    @Override
    public FSDataOutputStream create(
            Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication, long blockSize,
            Progressable progress) throws IOException {
        Path file = resolve(path);
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
        GrowingFile file = volume.appendTo(resolve(path));
        return new FSDataOutputStream(file, statistics, file.size());
    }

    @Override
    public boolean hasPathCapability(Path path, String capability) throws IOException {
        resolve(path);
        return capability.equalsIgnoreCase(CommonPathCapabilities.FS_APPEND) || super.hasPathCapability(path, capability);
    }

    /** False, as Hadoop's rename answers, when there is nothing to move, or something in the way. */
    @Override
    public boolean rename(Path source, Path target) throws IOException {
        Path from = resolve(source);
        Path to = resolve(target);
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

    /** One step, with or without replacing a file; what FileContext's users and Spark's own manager rely on. */
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
        checkParent(to);
        try {
            volume.rename(from, to, overwrite);
        } catch (RefusedException refusal) {
            throw Refusals.whenChanging(refusal, refusal.code() == ServiceCode.NOT_FOUND ? from : to);
        }
    }

    /** The root stays: false, as HDFS answers. */
    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
        Path doomed = resolve(path);
        return !doomed.isRoot() && volume.delete(doomed, recursive);
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
        return volume.list(resolve(path));
    }

    @Override
    public boolean mkdirs(Path path, FsPermission permission) throws IOException {
        volume.mkdirs(resolve(path));
        return true;
    }

    @Override
    public FileStatus getFileStatus(Path path) throws IOException {
        return volume.stat(resolve(path));
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
        try {
            volume.publish(to, content, overwrite);
        } catch (FileAlreadyExistsException e) {
            if (!getFileStatus(to).isDirectory()) {
                throw e;
            }
            volume.publish(new Path(to, source.getName()), content, overwrite);
        }
        if (deleteSource) {
            Files.delete(file);
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
