package io.sos.spark.gateway;

import java.io.IOException;
import java.util.List;

/**
 * A tree of files, as one journal service shows it, or several shards together. Each method is one operation: it goes on over
 * lost connections, restarts of the service and changes of owner until the deadline of the settings.
 *
 * <p>All methods throw {@link RefusedException} when the service says no for good (nothing was changed), {@link
 * OutcomeUnknownException} or {@link ServiceUnavailableException} at the deadline, InterruptedIOException within 250 ms of
 * an interrupt.
 */
public interface VolumeTree {
    /** NOT_FOUND when there is neither file nor directory. */
    FileEntry stat(String path) throws IOException;

    /** The children of a directory, or a file itself. NOT_FOUND. */
    List<FileEntry> list(String path) throws IOException;

    /**
     * Up to {@code length} bytes (at most 1 MiB) from {@code offset}, fewer only at the file's end. CHANGED when {@code
     * modifiedMillis} is not null and the file is another one now. NOT_FOUND, IS_DIRECTORY, DAMAGED.
     */
    Piece read(String path, long offset, int length, Long modifiedMillis) throws IOException;

    /** Publishes a whole file, making its parents; durable when this returns. ALREADY_EXISTS, IS_DIRECTORY, NOT_DIRECTORY, FENCED. */
    FileEntry write(String path, Content content, boolean overwrite, PathClaim claim) throws IOException;

    /**
     * Adds the first {@code length} bytes (at most 1 MiB) to the file that {@code before} describes; they are durable and
     * readable when this returns. CHANGED when somebody else appended to it, or replaced it. NOT_FOUND, FENCED.
     */
    FileEntry append(FileEntry before, byte[] bytes, int length, PathClaim claim) throws IOException;

    /** Fine if it exists. NOT_DIRECTORY, FENCED. */
    void mkdirs(String path, PathClaim claim) throws IOException;

    /** Whether there was something to delete. NOT_EMPTY, FENCED. */
    boolean delete(String path, boolean recursive, PathClaim claim) throws IOException;

    /** Moves a file or a tree. NOT_FOUND, ALREADY_EXISTS, NOT_DIRECTORY, FENCED. */
    void rename(String source, String target, boolean overwrite, PathClaim claim) throws IOException;

    /** From now on every change at or below {@code path} must carry this claim or a later one. FENCED. */
    void claim(String path, PathClaim claim) throws IOException;
}
