package io.sos.spark.gateway;

import java.io.IOException;
import java.io.InputStream;

/** The bytes of a file to write. They can be read again, since a lost connection makes it necessary to send them again. */
public interface Content {
    long size();

    InputStream open() throws IOException;
}
