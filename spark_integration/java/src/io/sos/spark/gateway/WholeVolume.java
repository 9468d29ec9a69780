package io.sos.spark.gateway;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * A volume by its name, whether one journal keeps it or several shards do. The first answer tells: a service that has a shard
 * refuses the volume itself and says how many shards there are. That never changes for a volume of this name and these services.
 */
public final class WholeVolume implements VolumeTree {
    private static final ConcurrentMap<Key, WholeVolume> VOLUMES = new ConcurrentHashMap<>();

    private final Key key;
    private volatile VolumeTree tree;

    private record Key(String volume, ServiceSettings settings) {}

    private interface Call<T> {
        T run(VolumeTree tree) throws IOException;
    }

    private WholeVolume(Key key) {
        this.key = key;
        this.tree = VolumeClient.of(key.volume, key.settings);
    }

    /** The JVM's view of this volume. Opens no connection. */
    public static WholeVolume of(String volume, ServiceSettings settings) {
        return VOLUMES.computeIfAbsent(new Key(volume, settings), WholeVolume::new);
    }

    @Override
    public FileEntry stat(String path) throws IOException {
        return call(tree -> tree.stat(path));
    }

    @Override
    public List<FileEntry> list(String path) throws IOException {
        return call(tree -> tree.list(path));
    }

    @Override
    public Piece read(String path, long offset, int length, Long modifiedMillis) throws IOException {
        return call(tree -> tree.read(path, offset, length, modifiedMillis));
    }

    @Override
    public FileEntry write(String path, Content content, boolean overwrite, PathClaim claim) throws IOException {
        return call(tree -> tree.write(path, content, overwrite, claim));
    }

    @Override
    public FileEntry append(FileEntry before, byte[] bytes, int length, PathClaim claim) throws IOException {
        return call(tree -> tree.append(before, bytes, length, claim));
    }

    @Override
    public void mkdirs(String path, PathClaim claim) throws IOException {
        call(tree -> {
            tree.mkdirs(path, claim);
            return null;
        });
    }

    @Override
    public boolean delete(String path, boolean recursive, PathClaim claim) throws IOException {
        return call(tree -> tree.delete(path, recursive, claim));
    }

    @Override
    public void rename(String source, String target, boolean overwrite, PathClaim claim) throws IOException {
        call(tree -> {
            tree.rename(source, target, overwrite, claim);
            return null;
        });
    }

    @Override
    public void claim(String path, PathClaim claim) throws IOException {
        call(tree -> {
            tree.claim(path, claim);
            return null;
        });
    }

    private <T> T call(Call<T> call) throws IOException {
        VolumeTree known = tree;
        try {
            return call.run(known);
        } catch (RefusedException refusal) {
            if (!(known instanceof VolumeClient) || !(refusal.field(SHARDS_FIELD) instanceof Long count)
                    || count < 2 || count > ShardMap.COUNT_MAX) {
                throw refusal;
            }
            VolumeTree sharded = new ShardedTree(new ShardMap(key.volume, count.intValue()), key.settings);
            tree = sharded;
            return call.run(sharded);
        }
    }

    /** In VOLUME_NOT_FOUND: over how many shards the volume is spread, whose names are asked for instead. */
    static final String SHARDS_FIELD = "shards";
}
