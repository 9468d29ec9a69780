package org.apache.hadoop.security;

import java.io.IOException;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public class AccessControlException extends IOException {
    private static final long serialVersionUID = 1L;

    public AccessControlException(String message) {
        throw new AssertionError("a stub");
    }
}
