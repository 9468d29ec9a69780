package io.sos.spark;

import io.sos.spark.gateway.Content;
import io.sos.spark.gateway.FileEntry;
import io.sos.spark.gateway.PathClaim;
import io.sos.spark.gateway.Piece;
import io.sos.spark.gateway.RefusedException;
import io.sos.spark.gateway.ServiceCode;
import io.sos.spark.gateway.VolumeTree;
import io.sos.spark.gateway.WholeVolume;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A volume in Hadoop's terms: paths, statuses, exceptions. What is common to Hadoop's file systems and Spark's checkpoint
 * files, and no more; the rules of either do not belong here.
 */
final class SosVolume {
    /** Readers that split files by blocks should not split state and log files. */
    static final long BLOCK_BYTES = 128L * 1024 * 1024;

    private static final int PIECE_BYTES = 1024 * 1024;

    private final String authority;
    private final Configuration configuration;
    private final VolumeTree client;

    private interface Call<T> {
        T run() throws IOException;
    }

    SosVolume(URI uri, Configuration configuration) throws IOException {
        if (uri.getAuthority() == null) {
            throw new IOException(uri + " names no volume: it must be sos://VOLUME/path");
        }
        this.authority = uri.getAuthority();
        this.configuration = configuration;
        this.client = WholeVolume.of(authority, SosSettings.of(configuration));
    }

    Path qualify(String path) {
        return new Path(SosSettings.SCHEME, authority, "/" + path);
    }

    FileStatus stat(Path path) throws IOException {
        return reading(path, () -> status(client.stat(inside(path))));
    }

    FileStatus[] list(Path path) throws IOException {
        return reading(
                path, () -> client.list(inside(path)).stream().map(this::status).toArray(FileStatus[]::new));
    }

    /** {@code statistics} null: nobody counts. */
    FSDataInputStream open(Path path, FileSystem.Statistics statistics) throws IOException {
        return new FSDataInputStream(openStream(path, SosInputStream.FIRST_PIECE_BYTES, statistics));
    }

    /** For who wants all of the file, and begins with as much as one piece has. */
    SosInputStream openWhole(Path path, FileSystem.Statistics statistics) throws IOException {
        return openStream(path, PiecesAhead.PIECE_BYTES, statistics);
    }

    private SosInputStream openStream(Path path, int firstBytes, FileSystem.Statistics statistics) throws IOException {
        Piece first = readPiece(path, 0, firstBytes, null);
        return new SosInputStream(this, path, first, statistics);
    }

    Piece readPiece(Path path, long offset, int length, Long modifiedMillis) throws IOException {
        return reading(path, () -> client.read(inside(path), offset, length, modifiedMillis));
    }

    /** Sends nothing: everything is decided when it is closed. */
    UncommittedFile create(Path path, boolean overwrite) {
        StagedContent content = new StagedContent(SosSettings.bufferDirectory(configuration));
        return new UncommittedFile(this, path, overwrite, content);
    }

    FileEntry publish(Path path, Content content, boolean overwrite) throws IOException {
        return changing(path, () -> client.write(inside(path), content, overwrite, SparkApplication.current()));
    }

    /** A file that can be flushed. Sends nothing before it is flushed or closed. */
    GrowingFile createGrowing(Path path, boolean overwrite) {
        return new GrowingFile(this, path, overwrite, null, SosSettings.bufferDirectory(configuration));
    }

    /** Goes on with a file that is there. */
    GrowingFile appendTo(Path path) throws IOException {
        FileEntry entry = changing(path, () -> client.stat(inside(path)));
        if (entry.isDirectory()) {
            throw new FileAlreadyExistsException(path + " is a directory");
        }
        return new GrowingFile(this, path, false, entry, SosSettings.bufferDirectory(configuration));
    }

    /** All of {@code content} goes to the end of the file that {@code before} describes. */
    FileEntry append(Path path, FileEntry before, Content content) throws IOException {
        FileEntry entry = before;
        byte[] piece = new byte[(int) Math.min(content.size(), PIECE_BYTES)];
        try (InputStream in = content.open()) {
            for (int size; (size = in.readNBytes(piece, 0, piece.length)) > 0; ) {
                FileEntry file = entry;
                int length = size;
                entry = changing(path, () -> client.append(file, piece, length, SparkApplication.current()));
            }
        }
        return entry;
    }

    void mkdirs(Path path) throws IOException {
        try {
            client.mkdirs(inside(path), SparkApplication.current());
        } catch (RefusedException refusal) {
            boolean isFile = refusal.code() == ServiceCode.NOT_DIRECTORY && inside(path).equals(refusal.field("path"));
            throw isFile ? Refusals.isFile(refusal, path) : Refusals.whenChanging(refusal, path);
        }
    }

    /** Whether there was something to delete. */
    boolean delete(Path path, boolean recursive) throws IOException {
        try {
            return client.delete(inside(path), recursive, SparkApplication.current());
        } catch (RefusedException refusal) {
            if (refusal.code() == ServiceCode.NOT_FOUND || refusal.code() == ServiceCode.NOT_DIRECTORY) {
                return false;
            }
            throw Refusals.whenChanging(refusal, path);
        }
    }

    /** Untranslated, since each kind of file system answers a refusal of its own. */
    void rename(Path source, Path target, boolean overwrite) throws IOException {
        client.rename(inside(source), inside(target), overwrite, SparkApplication.current());
    }

    /** Claims the tree for this Spark application; outside Spark there is nobody to claim it for. */
    void claim(Path path) throws IOException {
        PathClaim claim = SparkApplication.current();
        if (claim != null) {
            changing(path, () -> {
                client.claim(inside(path), claim);
                return null;
            });
        }
    }

    private FileStatus status(FileEntry entry) {
        return new FileStatus(
                entry.size(), entry.isDirectory(), 1, BLOCK_BYTES, entry.modifiedMillis(), qualify(entry.path()));
    }

    private static String inside(Path path) {
        String absolute = path.toUri().getPath();
        return absolute.startsWith("/") ? absolute.substring(1) : absolute;
    }

    private static <T> T reading(Path path, Call<T> call) throws IOException {
        try {
            return call.run();
        } catch (RefusedException refusal) {
            throw Refusals.whenReading(refusal, path);
        }
    }

    private static <T> T changing(Path path, Call<T> call) throws IOException {
        try {
            return call.run();
        } catch (RefusedException refusal) {
            throw Refusals.whenChanging(refusal, path);
        }
    }
}
