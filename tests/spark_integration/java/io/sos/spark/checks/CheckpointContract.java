package io.sos.spark.checks;

import static io.sos.spark.checks.Checks.equal;
import static io.sos.spark.checks.Checks.is;
import static io.sos.spark.checks.Checks.thrown;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;

/** Spark's contract for CheckpointFileManager, point by point, got the way Spark gets it. Arguments: service, manager class. */
public final class CheckpointContract {
    private static final Path ROOT = new Path("sos://payments/contract-" + System.nanoTime());
    private static Configuration configuration;
    private static CheckpointFileManager manager;

    public static void main(String[] arguments) throws Exception {
        configuration = new Configuration(false);
        configuration.set("fs.sos.service", arguments[0]);
        if (!arguments[1].isEmpty()) {
            configuration.set("spark.sql.streaming.checkpointFileManagerClass", arguments[1]);
        }
        configuration.set("fs.sos.impl", "io.sos.spark.SosFileSystem");
        configuration.set("fs.AbstractFileSystem.sos.impl", "io.sos.spark.SosAbstractFileSystem");
        configuration.setBoolean("fs.sos.impl.disable.cache", true);
        manager = CheckpointFileManager.create(ROOT, configuration);
        Checks checks = new Checks();
        boolean isOurs = !arguments[1].isEmpty();
        if (isOurs) {
            checks.check("the manager is ours", () -> equal(arguments[1], manager.getClass().getName()));
            creation(checks);
            delegation(checks);
        }
        common(checks);
        checks.end();
    }

    /** What Spark needs of any manager; run for ours, and for Spark's own over our FileContext and FileSystem. */
    private static void common(Checks checks) {
        checks.check("createCheckpointDirectory makes it and answers its whole path", () -> {
            equal(ROOT, manager.createCheckpointDirectory());
            is(manager.exists(ROOT));
            equal(ROOT, manager.createCheckpointDirectory());
        });
        checks.check("mkdirs makes parents and may be repeated", () -> {
            Path directory = fresh("a/b/c");
            is(!manager.exists(directory));
            manager.mkdirs(directory);
            is(manager.exists(directory) && manager.exists(directory.getParent()));
            manager.mkdirs(directory);
        });
        checks.check("createAtomic, read back; not local", () -> {
            Path file = fresh("file");
            write(file, "hello", false);
            equal("hello", read(file));
            is(!manager.isLocal());
        });
        checks.check("create without overwrite over a file: FileAlreadyExistsException at create or close, content stays", () -> {
            Path file = fresh("file");
            write(file, "first", false);
            thrown(FileAlreadyExistsException.class, () -> write(file, "second", false));
            equal("first", read(file));
        });
        checks.check("create with overwrite replaces", () -> {
            Path file = fresh("file");
            write(file, "first", true);
            write(file, "second", true);
            equal("second", read(file));
        });
        checks.check("nothing is visible before close", () -> {
            Path file = fresh("file");
            CancellableFSDataOutputStream stream = manager.createAtomic(file, false);
            stream.write(bytes("x"));
            stream.flush();
            stream.hflush();
            stream.hsync();
            is(!manager.exists(file));
            stream.close();
            is(manager.exists(file));
        });
        checks.check("cancel leaves nothing behind", () -> {
            Path file = fresh("dir/file");
            manager.mkdirs(file.getParent());
            CancellableFSDataOutputStream stream = manager.createAtomic(file, false);
            stream.write(bytes("x"));
            stream.cancel();
            is(!manager.exists(file));
            equal(0, manager.list(file.getParent()).length);
        });
        checks.check("cancel of an overwrite leaves the old file", () -> {
            Path file = fresh("file");
            write(file, "old", false);
            CancellableFSDataOutputStream stream = manager.createAtomic(file, true);
            stream.write(bytes("new"));
            stream.cancel();
            equal("old", read(file));
        });
        checks.check("list: names, sizes, kinds, filter", () -> {
            Path directory = fresh("directory");
            manager.mkdirs(new Path(directory, "sub"));
            write(new Path(directory, "1"), "one", false);
            write(new Path(directory, "2"), "three", false);
            FileStatus[] all = manager.list(directory);
            Arrays.sort(all);
            equal(List.of("1", "2", "sub"), Arrays.stream(all).map(each -> each.getPath().getName()).toList());
            equal(List.of(3L, 5L, 0L), Arrays.stream(all).map(FileStatus::getLen).toList());
            is(all[2].isDirectory() && all[0].isFile());
            equal(new Path(directory, "1"), all[0].getPath());
            FileStatus[] some = manager.list(directory, path -> path.getName().equals("2"));
            equal(List.of("2"), Arrays.stream(some).map(each -> each.getPath().getName()).toList());
        });
        checks.check("list of what is not there: FileNotFoundException",
                () -> thrown(FileNotFoundException.class, () -> manager.list(fresh("nothing"))));
        checks.check("open of what is not there: FileNotFoundException", () -> {
            thrown(FileNotFoundException.class, () -> manager.open(fresh("nothing")));
            Path file = fresh("file");
            write(file, "x", false);
            thrown(FileNotFoundException.class, () -> manager.open(new Path(file, "below")));
        });
        checks.check("delete: a file, a tree, nothing", () -> {
            Path directory = fresh("tree");
            manager.mkdirs(new Path(directory, "a"));
            write(new Path(directory, "a/b"), "x", false);
            write(new Path(directory, "c"), "x", false);
            manager.delete(new Path(directory, "c"));
            is(!manager.exists(new Path(directory, "c")));
            manager.delete(directory);
            is(!manager.exists(directory) && !manager.exists(new Path(directory, "a/b")));
            manager.delete(directory);
        });
        checks.check("two writers without overwrite: exactly one wins, whole", CheckpointContract::twoWriters);
        checks.check("modification times do not go back", () -> {
            long last = 0;
            for (int i = 0; i < 20; i++) {
                Path file = fresh("file");
                write(file, "x", false);
                long modified = manager.list(file)[0].getModificationTime();
                is(modified >= last);
                last = modified;
            }
        });
        checks.check("closing the manager may be repeated", () -> {
            CheckpointFileManager other = CheckpointFileManager.create(ROOT, configuration);
            other.close();
            other.close();
        });
    }

    private static void twoWriters() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        try {
            for (int round = 0; round < 25; round++) {
                Path file = fresh("contended");
                CyclicBarrier start = new CyclicBarrier(4);
                Callable<Integer> writer = () -> {
                    String content = "by " + Thread.currentThread().getId();
                    CancellableFSDataOutputStream stream = manager.createAtomic(file, false);
                    stream.write(bytes(content));
                    start.await();
                    try {
                        stream.close();
                        return 1;
                    } catch (FileAlreadyExistsException e) {
                        stream.cancel();
                        return 0;
                    }
                };
                List<Future<Integer>> all = List.of(
                        threads.submit(writer), threads.submit(writer), threads.submit(writer), threads.submit(writer));
                int winners = 0;
                for (Future<Integer> each : all) {
                    winners += each.get();
                }
                equal(1, winners);
                is(read(file).startsWith("by "));
            }
        } finally {
            threads.shutdown();
        }
    }

    private static void creation(Checks checks) {
        checks.check("concurrent creation is decided at close", () -> {
            Path file = fresh("file");
            CancellableFSDataOutputStream first = manager.createAtomic(file, false);
            CancellableFSDataOutputStream second = manager.createAtomic(file, false);
            first.write(bytes("first"));
            second.write(bytes("second"));
            second.close();
            thrown(FileAlreadyExistsException.class, first::close);
            equal("second", read(file));
        });
        checks.check("close twice is fine, cancel after close deletes nothing", () -> {
            Path file = fresh("file");
            CancellableFSDataOutputStream stream = manager.createAtomic(file, false);
            stream.write(bytes("x"));
            stream.close();
            stream.close();
            stream.cancel();
            equal("x", read(file));
        });
        checks.check("a failed close fails again, cancel after it is fine and takes nothing from the winner", () -> {
            Path file = fresh("file");
            write(file, "winner", false);
            CancellableFSDataOutputStream stream = manager.createAtomic(file, false);
            stream.write(bytes("loser"));
            thrown(FileAlreadyExistsException.class, stream::close);
            thrown(IOException.class, stream::close);
            stream.cancel();
            stream.cancel();
            equal("winner", read(file));
        });
        checks.check("close after cancel publishes nothing", () -> {
            Path file = fresh("file");
            CancellableFSDataOutputStream stream = manager.createAtomic(file, false);
            stream.write(bytes("x"));
            stream.cancel();
            stream.close();
            is(!manager.exists(file));
            thrown(IOException.class, () -> stream.write(bytes("more")));
        });
        checks.check("an empty file; files of one byte, of 1 MiB, one more, and of 5 MiB", () -> {
            for (int size : new int[] {0, 1, 1 << 20, (1 << 20) + 1, 5 << 20}) {
                byte[] content = new byte[size];
                new java.util.Random(size).nextBytes(content);
                Path file = fresh("size" + size);
                try (CancellableFSDataOutputStream stream = manager.createAtomic(file, false)) {
                    stream.write(content);
                }
                try (FSDataInputStream in = manager.open(file)) {
                    is(Arrays.equals(content, in.readAllBytes()));
                }
                equal((long) size, manager.list(file)[0].getLen());
            }
        });
        checks.check("a large file without overwrite loses at close, too, and its temporary file goes", () -> {
            java.io.File directory = java.nio.file.Files.createTempDirectory("sos-check").toFile();
            Configuration own = new Configuration(configuration);
            own.set("fs.sos.buffer.dir", directory.getPath());
            CheckpointFileManager other = CheckpointFileManager.create(ROOT, own);
            Path file = fresh("large");
            write(file, "winner", false);
            CancellableFSDataOutputStream stream = other.createAtomic(file, false);
            stream.write(new byte[3 << 20]);
            equal(1, directory.list().length);
            thrown(FileAlreadyExistsException.class, stream::close);
            equal(0, directory.list().length);
            CancellableFSDataOutputStream cancelled = other.createAtomic(file, true);
            cancelled.write(new byte[3 << 20]);
            cancelled.cancel();
            equal(0, directory.list().length);
            is(directory.delete());
            equal("winner", read(file));
        });
        checks.check("a write that failed: close() publishes nothing of it, and fails, as often as it is called", () -> {
            Configuration own = new Configuration(configuration);
            own.set("fs.sos.buffer.dir", "/no/such/directory");
            CheckpointFileManager other = CheckpointFileManager.create(ROOT, own);
            Path file = fresh("cut");
            CancellableFSDataOutputStream stream = other.createAtomic(file, false);
            stream.write(bytes("the beginning, and then"));
            thrown(IOException.class, () -> stream.write(new byte[3 << 20]));
            thrown(IOException.class, stream::close);
            thrown(IOException.class, stream::close);
            thrown(IOException.class, () -> stream.write(bytes("more")));
            is(!manager.exists(file));
            stream.cancel();
            is(!manager.exists(file));
        });
        checks.check("authorities that cannot be used: an IOException that says so, at once, and never without TLS", () -> {
            java.nio.file.Path pem = java.nio.file.Files.createTempFile("sos-check", ".pem");
            Configuration own = new Configuration(configuration);
            own.set("fs.sos.tls.authorities.file", pem.toString());
            for (String text : new String[] {"", "\n", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n"}) {
                java.nio.file.Files.writeString(pem, text);
                Throwable e = thrown(Throwable.class, () -> {
                    CheckpointFileManager other = CheckpointFileManager.create(ROOT, own);
                    CancellableFSDataOutputStream stream = other.createAtomic(fresh("file"), false);
                    thrown(IOException.class, stream::close);
                    stream.close();
                });
                e = e instanceof IOException ? e : e.getCause(); // Spark wraps what a manager's constructor throws
                is(e instanceof IOException && String.valueOf(e).contains("ertificate"));
            }
            java.nio.file.Files.delete(pem);
        });
        checks.check("a token file without a token says so", () -> {
            java.nio.file.Path empty = java.nio.file.Files.createTempFile("sos-check", ".token");
            Configuration own = new Configuration(configuration);
            own.set("fs.sos.token.file", empty.toString());
            Throwable e = thrown(Throwable.class, () -> CheckpointFileManager.create(ROOT, own));
            is(String.valueOf(e.getCause()).contains(empty.toString()));
            java.nio.file.Files.delete(empty);
        });
        checks.check("a parent that is a file", () -> {
            Path file = fresh("file");
            write(file, "x", false);
            thrown(ParentNotDirectoryException.class, () -> write(new Path(file, "below"), "y", false));
            equal("x", read(file));
        });
        checks.check("a directory is not replaced", () -> {
            Path directory = fresh("directory");
            manager.mkdirs(directory);
            thrown(FileAlreadyExistsException.class, () -> write(directory, "x", true));
        });
        checks.check("a manager without any service is made at once, and many are", () -> {
            Configuration nowhere = new Configuration(configuration);
            nowhere.set("fs.sos.service", "127.0.0.1:1");
            long start = System.nanoTime();
            for (int i = 0; i < 1000; i++) {
                CheckpointFileManager.create(ROOT, nowhere);
            }
            is(System.nanoTime() - start < 10_000_000_000L); // a connection for each would take far longer
        });
        checks.check("without fs.sos.service it says which setting is missing", () -> {
            Configuration bare = new Configuration(false);
            bare.set("spark.sql.streaming.checkpointFileManagerClass",
                    configuration.get("spark.sql.streaming.checkpointFileManagerClass"));
            Throwable e = thrown(Throwable.class, () -> CheckpointFileManager.create(ROOT, bare));
            is(String.valueOf(e.getCause()).contains("spark.hadoop.fs.sos.service"));
        });
    }

    private static void delegation(Checks checks) {
        checks.check("other schemes get the manager that Spark would have taken", () -> {
            java.nio.file.Path local = java.nio.file.Files.createTempDirectory("sos-check");
            Path file = new Path(local.toUri().toString() + "file");
            CheckpointFileManager other = CheckpointFileManager.create(new Path(local.toUri()), configuration);
            is(other.isLocal());
            try (CancellableFSDataOutputStream stream = other.createAtomic(file, false)) {
                stream.write(bytes("local"));
            }
            equal("local", java.nio.file.Files.readString(local.resolve("file")));
            is(other.exists(file));
            CancellableFSDataOutputStream cancelled = other.createAtomic(file, true);
            cancelled.cancel();
            other.delete(file);
            is(!java.nio.file.Files.exists(local.resolve("file")));
            other.close();
        });
    }

    private static int counter;

    /** A path in a directory of its own: Spark makes directories before files. */
    private static synchronized Path fresh(String name) throws IOException {
        Path directory = new Path(ROOT, String.valueOf(counter++));
        manager.mkdirs(directory);
        return new Path(directory, name);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** As Spark does it: cancel when anything fails. */
    private static void write(Path file, String content, boolean overwrite) throws IOException {
        CancellableFSDataOutputStream stream = manager.createAtomic(file, overwrite);
        try {
            stream.write(bytes(content));
            stream.close();
        } catch (IOException e) {
            stream.cancel();
            throw e;
        }
    }

    private static String read(Path file) throws IOException {
        try (FSDataInputStream in = manager.open(file)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }
}
