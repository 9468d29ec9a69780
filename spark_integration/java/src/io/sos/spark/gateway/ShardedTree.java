package io.sos.spark.gateway;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A volume that is spread over several journals, as one: each request goes to the shard that has the path. Shard 0 decides what
 * there is: a partition's directory exists if the directory above it exists there. What concerns whole checkpoints is done in
 * every shard, in shard 0 last (a claim: first). The same rules as journal/gateway/client/sharded_volume.py.
 */
final class ShardedTree implements VolumeTree {
    private static final int DIRECTORIES_MAX = 10_000;
    private static final Comparator<FileEntry> BY_PATH = Comparator.comparing(FileEntry::path);

    private final ShardMap map;
    private final List<VolumeClient> shards = new ArrayList<>();
    private final VolumeClient home;
    private final List<VolumeClient> others;
    /** Directories of operators that are in shard 0. */
    private final Set<String> made = ConcurrentHashMap.newKeySet();

    private interface Change {
        void make(VolumeClient shard) throws IOException;
    }

    ShardedTree(ShardMap map, ServiceSettings settings) {
        this.map = map;
        for (int index = 0; index < map.count(); index++) {
            shards.add(VolumeClient.of(map.name(index), settings));
        }
        this.home = shards.get(0);
        this.others = shards.subList(1, shards.size());
    }

    private VolumeClient at(String path) {
        return shards.get(map.shardOf(path));
    }

    /** The shard of a path, when shard 0 has the directory that leads there. */
    private VolumeClient toWrite(String path, PathClaim claim) throws IOException {
        VolumeClient shard = at(path);
        if (shard != home) {
            String directory = ShardMap.operatorDirectory(path);
            if (!made.contains(directory)) {
                home.mkdirs(directory, claim);
                if (made.size() >= DIRECTORIES_MAX) {
                    made.clear();
                }
                made.add(directory);
            }
        }
        return shard;
    }

    @Override
    public FileEntry stat(String path) throws IOException {
        return at(path).stat(path);
    }

    @Override
    public List<FileEntry> list(String path) throws IOException {
        List<FileEntry> entries = at(path).list(path);
        if (!ShardMap.hasPartitionsOfAll(path)) {
            return entries;
        }
        List<FileEntry> all = new ArrayList<>(entries);
        for (int index = 1; index < shards.size(); index++) {
            try {
                for (FileEntry entry : shards.get(index).list(path)) {
                    if (map.shardOf(entry.path()) == index) {
                        all.add(entry);
                    }
                }
            } catch (RefusedException refusal) {
                throwUnlessNotFound(refusal);
            }
        }
        all.sort(BY_PATH);
        return all;
    }

    @Override
    public Piece read(String path, long offset, int length, Long modifiedMillis) throws IOException {
        return at(path).read(path, offset, length, modifiedMillis);
    }

    @Override
    public FileEntry write(String path, Content content, boolean overwrite, PathClaim claim) throws IOException {
        return toWrite(path, claim).write(path, content, overwrite, claim);
    }

    @Override
    public FileEntry append(FileEntry before, byte[] bytes, int length, PathClaim claim) throws IOException {
        return at(before.path()).append(before, bytes, length, claim);
    }

    @Override
    public void mkdirs(String path, PathClaim claim) throws IOException {
        toWrite(path, claim).mkdirs(path, claim);
    }

    @Override
    public boolean delete(String path, boolean recursive, PathClaim claim) throws IOException {
        if (ShardMap.isInPartition(path)) {
            return at(path).delete(path, recursive, claim);
        }
        FileEntry there = found(home, path);
        if (there != null && there.isDirectory()) {
            made.clear();
            if (recursive) {
                mark(List.of(path));
                inOthers(shard -> shard.delete(path, true, claim));
            } else if (ShardMap.hasPartitionsOfAll(path) && !list(path).isEmpty()) {
                throw RefusedException.of(ServiceCode.NOT_EMPTY, path + " is not empty");
            }
        }
        return home.delete(path, recursive, claim);
    }

    @Override
    public void rename(String source, String target, boolean overwrite, PathClaim claim) throws IOException {
        boolean stays = map.movesWithinShards(source, target);
        if (!(stays && ShardMap.isInPartition(source))) {
            FileEntry there = found(at(source), source);
            if (there != null && there.isDirectory()) {
                if (!stays) {
                    throw leavesItsShard(source, target);
                }
                boolean isInside = (target + "/").startsWith(source + "/") || source.isEmpty();
                if (!isInside && found(home, target) == null) {
                    renameDirectory(source, target, claim);
                    return;
                }
            } else if (at(source) != at(target)) {
                throw leavesItsShard(source, target);
            }
        } else if (!ShardMap.operatorDirectory(source).equals(ShardMap.operatorDirectory(target))
                && found(at(source), source) != null) {
            toWrite(target, claim);
        }
        at(source).rename(source, target, overwrite, claim);
    }

    /** One that is above partitions, to where shard 0 has nothing. If a shard refuses, it stays where it was in all. */
    private void renameDirectory(String source, String target, PathClaim claim) throws IOException {
        made.clear();
        mark(List.of(source, target));
        List<VolumeClient> moved = new ArrayList<>();
        try {
            for (VolumeClient shard : others) {
                if (found(shard, source) != null) {
                    move(shard, source, target, claim);
                    moved.add(shard);
                }
            }
            home.rename(source, target, false, claim);
        } catch (OutcomeUnknownException unknown) {
            throw unknown;
        } catch (IOException failure) {
            for (VolumeClient shard : moved) {
                try {
                    move(shard, target, source, claim);
                } catch (IOException second) {
                    failure.addSuppressed(second);
                }
            }
            throw failure;
        }
    }

    /** What lies at the target in a shard, and not in shard 0, are directories that were left when they were empty. */
    private static void move(VolumeClient shard, String source, String target, PathClaim claim) throws IOException {
        try {
            shard.rename(source, target, false, claim);
        } catch (RefusedException refusal) {
            if (refusal.code() != ServiceCode.IS_DIRECTORY && refusal.code() != ServiceCode.ALREADY_EXISTS) {
                throw refusal;
            }
            clear(shard, target, claim);
            shard.rename(source, target, false, claim);
        }
    }

    private static void clear(VolumeClient shard, String path, PathClaim claim) throws IOException {
        for (FileEntry entry : shard.list(path)) {
            if (!entry.isDirectory()) {
                throw RefusedException.of(
                        ServiceCode.ALREADY_EXISTS,
                        "a shard has something at " + entry.path() + " that no listing shows: a fork, import or rename"
                                + " was cut short there; `sos-journal rm -r` of what was to be made deletes it");
            }
            clear(shard, entry.path(), claim);
        }
        shard.delete(path, false, claim);
    }

    /** The other shards have the directory afterwards: so the claim ends there, too, when it is deleted or moved. */
    @Override
    public void claim(String path, PathClaim claim) throws IOException {
        at(path).claim(path, claim);
        if (ShardMap.isInPartition(path)) {
            return;
        }
        FileEntry there = found(home, path);
        if (there == null || there.isDirectory()) {
            inOthers(shard -> {
                shard.claim(path, claim);
                shard.mkdirs(path, claim);
            });
        }
    }

    private void mark(List<String> paths) throws IOException {
        Map<String, String> values = ShardMap.markOfChange(UUID.randomUUID().toString(), paths);
        inOthers(shard -> shard.mark(values));
        home.mark(values);
    }

    private void inOthers(Change change) throws IOException {
        for (VolumeClient shard : others) {
            change.make(shard);
        }
    }

    private static FileEntry found(VolumeClient shard, String path) throws IOException {
        try {
            return shard.stat(path);
        } catch (RefusedException refusal) {
            throwUnlessNotFound(refusal);
            return null;
        }
    }

    private static void throwUnlessNotFound(RefusedException refusal) throws RefusedException {
        if (refusal.code() != ServiceCode.NOT_FOUND) {
            throw refusal;
        }
    }

    private static RefusedException leavesItsShard(String source, String target) {
        return RefusedException.of(ServiceCode.BAD_REQUEST,
                source + " cannot be moved to " + target + ": it would have to go to other shards. Copy it");
    }
}
