package io.sos.spark;

import io.sos.spark.gateway.Content;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;

/** A file of this host that is copied into a volume, read where it lies. */
record LocalFileContent(Path file, long size) implements Content {
    static LocalFileContent of(Path file) throws IOException {
        return new LocalFileContent(file, Files.size(file));
    }

    @Override
    public InputStream open() throws IOException {
        return Files.newInputStream(file);
    }
}
