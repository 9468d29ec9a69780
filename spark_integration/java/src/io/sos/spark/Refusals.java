package io.sos.spark;

import io.sos.spark.gateway.RefusedException;
import io.sos.spark.gateway.ServiceCode;
import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIsNotEmptyDirectoryException;
import org.apache.hadoop.security.AccessControlException;

/** The service's refusals as the exceptions that Hadoop's and Spark's callers know. The one place where they are translated. */
final class Refusals {
    private Refusals() {}

    /** For what only looks: whatever is wrong with the path, the file is not there. */
    static IOException whenReading(RefusedException refusal, Path path) {
        return switch (refusal.code()) {
            case NOT_FOUND, NOT_DIRECTORY -> caused(new FileNotFoundException(path + " does not exist"), refusal);
            case IS_DIRECTORY -> caused(new FileNotFoundException(path + " is a directory"), refusal);
            case BAD_PATH -> caused(new FileNotFoundException(path + " cannot be on a volume: " + refusal.getMessage()), refusal);
            case CHANGED -> caused(
                    new IOException(path + " was replaced or appended to while it was read: open it again"), refusal);
            default -> always(refusal);
        };
    }

    static IOException whenChanging(RefusedException refusal, Path path) {
        return switch (refusal.code()) {
            case NOT_FOUND -> caused(new FileNotFoundException(path + " does not exist"), refusal);
            case ALREADY_EXISTS -> caused(new FileAlreadyExistsException(path + " exists already"), refusal);
            case IS_DIRECTORY -> caused(new FileAlreadyExistsException(path + " is a directory"), refusal);
            case NOT_DIRECTORY -> caused(
                    new ParentNotDirectoryException("a parent of " + path + " is a file"), refusal);
            case CHANGED -> caused(
                    new IOException(path + " was appended to, or replaced, by somebody else since this writer did"), refusal);
            case NOT_EMPTY -> caused(new PathIsNotEmptyDirectoryException(path.toString()), refusal);
            default -> always(refusal);
        };
    }

    static IOException isFile(RefusedException refusal, Path path) {
        return caused(new FileAlreadyExistsException(path + " is a file"), refusal);
    }

    private static IOException always(RefusedException refusal) {
        if (refusal.code() == ServiceCode.AUTH || refusal.code() == ServiceCode.DENIED) {
            return caused(new AccessControlException(refusal.getMessage()), refusal);
        }
        return refusal;
    }

    private static IOException caused(IOException exception, RefusedException cause) {
        exception.initCause(cause);
        return exception;
    }
}
