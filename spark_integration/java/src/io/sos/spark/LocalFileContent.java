package io.sos.spark;

import io.sos.spark.gateway.Content;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
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

    /** The other way: what comes becomes the file, with all its parents, or there is none. */
    static void replace(Path file, InputStream content) throws IOException {
        Files.createDirectories(file.toAbsolutePath().getParent());
        Files.deleteIfExists(file.resolveSibling("." + file.getFileName() + ".crc")); // of the file that is replaced
        try (OutputStream out = Files.newOutputStream(file)) {
            content.transferTo(out);
        } catch (IOException e) {
            Files.deleteIfExists(file);
            throw e;
        }
    }
}
