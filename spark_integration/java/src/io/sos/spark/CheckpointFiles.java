package io.sos.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;

/** Spark's contract for checkpoint files on a volume, whichever package this Spark has its trait in. */
public final class CheckpointFiles {
    private static final String MANAGER_SETTING = "spark.sql.streaming.checkpointFileManagerClass";

    private final Path root;
    private final SosVolume volume;

    public CheckpointFiles(Path root, Configuration configuration) throws IOException {
        this.root = root;
        this.volume = new SosVolume(fileSystemUri(root, configuration), configuration);
    }

    public static boolean isOurs(Path path, Configuration configuration) {
        return SosSettings.SCHEME.equals(fileSystemUri(path, configuration).getScheme());
    }

    /** With this configuration Spark chooses as if nobody had named a manager. */
    public static Configuration withoutManagerSetting(Configuration configuration) {
        Configuration copy = new Configuration(configuration);
        copy.unset(MANAGER_SETTING);
        return copy;
    }

    /** Without overwrite, of two writers exactly one succeeds in close(); the other gets FileAlreadyExistsException there. */
    public UncommittedFile create(Path path, boolean overwrite) {
        return volume.create(path, overwrite);
    }

    public FSDataInputStream open(Path path) throws IOException {
        return volume.open(path, null);
    }

    public FileStatus[] list(Path path, PathFilter filter) throws IOException {
        return Arrays.stream(volume.list(path))
                .filter(status -> filter.accept(status.getPath()))
                .toArray(FileStatus[]::new);
    }

    public void mkdirs(Path path) throws IOException {
        volume.mkdirs(path);
    }

    public boolean exists(Path path) throws IOException {
        try {
            volume.stat(path);
            return true;
        } catch (FileNotFoundException e) {
            return false;
        }
    }

    /** Recursively; fine if there is nothing. */
    public void delete(Path path) throws IOException {
        volume.delete(path, true);
    }

    /** Called by the driver when a query starts: from here on an older driver of this checkpoint is fenced. */
    public Path createCheckpointDirectory() throws IOException {
        volume.claim(root);
        volume.mkdirs(root);
        return volume.stat(root).getPath();
    }

    private static URI fileSystemUri(Path path, Configuration configuration) {
        URI uri = path.toUri();
        return uri.getScheme() == null ? FileSystem.getDefaultUri(configuration) : uri;
    }
}
