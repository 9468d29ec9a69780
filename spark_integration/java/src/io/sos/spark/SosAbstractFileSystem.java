package io.sos.spark;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.Path;

/** sos:// for FileContext's users. Hadoop makes it by reflection, with this constructor. */
public final class SosAbstractFileSystem extends DelegateToFileSystem {
    public SosAbstractFileSystem(URI uri, Configuration configuration) throws IOException, URISyntaxException {
        // "Authority needed" would mean to Hadoop that it has a port.
        super(uri, new SosFileSystem(), configuration, SosSettings.SCHEME, false);
    }

    /** There is no port: a volume is not a host. */
    @Override
    public int getUriDefaultPort() {
        return -1;
    }

    @Override
    public void renameInternal(Path source, Path target) throws IOException {
        renameInternal(source, target, false);
    }

    /** One step; Hadoop's own looks first, deletes, then moves, and loses the file if it dies in between. */
    @Override
    public void renameInternal(Path source, Path target, boolean overwrite) throws IOException {
        ((SosFileSystem) fsImpl).renameAtomically(source, target, overwrite);
    }
}
