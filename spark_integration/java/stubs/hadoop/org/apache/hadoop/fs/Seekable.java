package org.apache.hadoop.fs;

import java.io.IOException;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public interface Seekable {
    void seek(long pos) throws IOException;

    long getPos() throws IOException;

    boolean seekToNewSource(long targetPos) throws IOException;
}
