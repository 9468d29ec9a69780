package io.sos.spark.gateway;

import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;

/** Says whenever bytes come: a large answer may be long on its way, and its service is not silent meanwhile. */
final class HeardStream extends FilterInputStream {
    private final Runnable heard;

    HeardStream(InputStream in, Runnable heard) {
        super(in);
        this.heard = heard;
    }

    @Override
    public int read() throws IOException {
        int value = super.read();
        heard.run();
        return value;
    }

    @Override
    public int read(byte[] bytes, int start, int length) throws IOException {
        int size = super.read(bytes, start, length);
        heard.run();
        return size;
    }
}
