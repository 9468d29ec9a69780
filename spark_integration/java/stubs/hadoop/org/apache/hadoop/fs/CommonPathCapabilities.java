package org.apache.hadoop.fs;

public final class CommonPathCapabilities {
    public static final String FS_APPEND = "fs.capability.paths.append";

    private CommonPathCapabilities() {}
}
