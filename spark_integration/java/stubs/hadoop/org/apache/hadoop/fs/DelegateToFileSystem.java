package org.apache.hadoop.fs;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public abstract class DelegateToFileSystem extends AbstractFileSystem {
    protected final FileSystem fsImpl;

    protected DelegateToFileSystem(
            URI uri, FileSystem fileSystem, Configuration conf, String supportedScheme, boolean authorityRequired)
            throws IOException, URISyntaxException {
        throw new AssertionError("a stub");
    }
}
