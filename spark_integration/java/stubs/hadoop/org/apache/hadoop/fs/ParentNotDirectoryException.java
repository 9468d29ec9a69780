package org.apache.hadoop.fs;

import java.io.IOException;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public class ParentNotDirectoryException extends IOException {
    private static final long serialVersionUID = 1L;

    public ParentNotDirectoryException(String msg) {
        throw new AssertionError("a stub");
    }
}
