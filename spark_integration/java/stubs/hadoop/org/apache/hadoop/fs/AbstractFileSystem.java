package org.apache.hadoop.fs;

import java.io.IOException;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public abstract class AbstractFileSystem {
    public abstract int getUriDefaultPort();

    public abstract void renameInternal(Path source, Path target) throws IOException;

    public void renameInternal(Path source, Path target, boolean overwrite) throws IOException {
        throw new AssertionError("a stub");
    }
}
