package io.sos.spark.gateway;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;

/** The bytes of a file to write. They can be read again, since a lost connection makes it necessary to send them again. */
public interface Content {
    long size();

    InputStream open() throws IOException;

    static Content of(byte[] bytes) {
        return new Content() {
            @Override
            public long size() {
                return bytes.length;
            }

            @Override
            public InputStream open() {
                return new ByteArrayInputStream(bytes);
            }
        };
    }
}
