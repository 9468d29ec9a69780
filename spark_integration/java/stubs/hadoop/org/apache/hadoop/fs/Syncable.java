package org.apache.hadoop.fs;

import java.io.IOException;

public interface Syncable {
    void hflush() throws IOException;

    void hsync() throws IOException;
}
