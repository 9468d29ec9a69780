package io.sos.spark.checks;

import static io.sos.spark.checks.Checks.equal;
import static io.sos.spark.checks.Checks.is;
import static io.sos.spark.checks.Checks.thrown;

import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathExistsException;
import org.apache.hadoop.fs.PathIsDirectoryException;
import org.apache.hadoop.fs.PathIsNotEmptyDirectoryException;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop's contract for file systems, as far as it applies to one whose files appear when they are flushed or closed. Argument: the service. */
public final class FileSystemContract {
    private static final Path ROOT = new Path("sos://payments/hadoop-" + System.nanoTime());
    private static Configuration configuration;
    private static FileSystem system;
    private static FileContext context;

    public static void main(String[] arguments) throws Exception {
        configuration = new Configuration(false);
        configuration.set("fs.sos.service", arguments[0]);
        configuration.set("fs.sos.impl", "io.sos.spark.SosFileSystem");
        configuration.set("fs.AbstractFileSystem.sos.impl", "io.sos.spark.SosAbstractFileSystem");
        configuration.setBoolean("fs.sos.impl.disable.cache", true);
        system = FileSystem.get(ROOT.toUri(), configuration);
        context = FileContext.getFileContext(ROOT.toUri(), configuration);
        Checks checks = new Checks();
        creating(checks);
        flushing(checks);
        appending(checks);
        reading(checks);
        looking(checks);
        renaming(checks);
        deleting(checks);
        copying(checks);
        contexts(checks);
        checks.end();
    }

    private static void creating(Checks checks) {
        checks.check("create makes parents", () -> {
            Path file = fresh("a/b/file");
            write(file, "x");
            is(system.getFileStatus(file.getParent()).isDirectory());
        });
        checks.check("create without overwrite over a file fails at create", () -> {
            Path file = fresh("file");
            write(file, "x");
            thrown(FileAlreadyExistsException.class, () -> system.create(file, false));
        });
        checks.check("create over a directory fails", () -> {
            Path directory = fresh("directory");
            system.mkdirs(directory);
            thrown(FileAlreadyExistsException.class, () -> system.create(directory, true));
        });
        checks.check("createNonRecursive needs the parent", () -> {
            Path file = fresh("no/parent");
            thrown(FileNotFoundException.class, () -> createNonRecursive(file));
            system.mkdirs(file.getParent());
            createNonRecursive(file).close();
            is(system.exists(file));
        });
        checks.check("createNewFile says whether it made it", () -> {
            Path file = fresh("file");
            is(system.createNewFile(file));
            is(!system.createNewFile(file));
        });
        checks.check("create by the builder", () -> {
            Path file = fresh("built");
            try (FSDataOutputStream out = system.createFile(file).recursive().overwrite(true).build()) {
                out.write(1);
            }
            equal(1L, system.getFileStatus(file).getLen());
        });
        checks.check("create by the builder, which makes no parents unless told to", () -> {
            Path file = fresh("no/parent");
            thrown(FileNotFoundException.class, () -> system.createFile(file).build());
            system.mkdirs(file.getParent());
            system.createFile(file).build().close();
            thrown(FileAlreadyExistsException.class, () -> system.createFile(file).overwrite(false).build());
            equal(0L, system.getFileStatus(file).getLen());
        });
        checks.check("a file may stand below no file", () -> {
            Path file = fresh("file");
            write(file, "x");
            thrown(IOException.class, () -> write(new Path(file, "below"), "y"));
            thrown(IOException.class, () -> system.mkdirs(new Path(file, "below")));
            thrown(FileNotFoundException.class, () -> system.getFileStatus(new Path(file, "below")));
            is(!system.exists(new Path(file, "below")));
        });
        checks.check("mkdirs over a file fails", () -> {
            Path file = fresh("file");
            write(file, "x");
            String said = thrown(FileAlreadyExistsException.class, () -> system.mkdirs(file)).getMessage();
            is(said.equals(file + " is a file"));
            thrown(ParentNotDirectoryException.class, () -> system.mkdirs(new Path(file, "a/b")));
        });
        checks.check("names with blanks, percent signs and letters from everywhere", () -> {
            Path file = fresh("a b%20c+d=e/\u00e9\u4e2d\ud83d\ude00");
            write(file, "x");
            equal(file, system.getFileStatus(file).getPath());
            equal(file, system.listStatus(file.getParent())[0].getPath());
            equal("x", read(file));
        });
    }

    private static void flushing(Checks checks) {
        checks.check("what was flushed is there for others, and what came after it is not", () -> {
            FileSystem others = FileSystem.newInstance(ROOT.toUri(), configuration);
            Path file = fresh("a/log");
            FSDataOutputStream out = system.create(file);
            out.writeBytes("one");
            is(!others.exists(file));
            out.hflush();
            equal("one", read(others, file));
            out.writeBytes(" two");
            equal("one", read(others, file));
            out.hsync();
            out.hsync();
            equal("one two", read(others, file));
            equal(7L, others.getFileStatus(file).getLen());
            equal(7L, out.getPos());
            out.writeBytes(" three");
            out.close();
            out.close();
            equal("one two three", read(others, file));
            thrown(IOException.class, () -> out.write(1));
            thrown(IOException.class, out::hflush);
        });
        checks.check("flushed before anything was written: an empty file; never flushed: nothing before close", () -> {
            Path file = fresh("empty");
            try (FSDataOutputStream out = system.create(file)) {
                out.hflush();
                equal(0L, system.getFileStatus(file).getLen());
            }
            Path other = fresh("unflushed");
            try (FSDataOutputStream out = system.create(other)) {
                out.write(new byte[3_000_000]);
                out.flush();
                is(!system.exists(other));
            }
            equal(3_000_000L, system.getFileStatus(other).getLen());
        });
        checks.check("large and many flushes", () -> {
            byte[] content = new byte[5_000_000];
            new java.util.Random(11).nextBytes(content);
            Path file = fresh("large");
            try (FSDataOutputStream out = system.create(file)) {
                for (int[] part : new int[][] {{0, 10}, {10, 3_500_000}, {3_500_000, 4_999_999}}) {
                    out.write(content, part[0], part[1] - part[0]);
                    out.hflush();
                    equal((long) part[1], system.getFileStatus(file).getLen());
                }
                out.write(content, 4_999_999, 1);
            }
            is(Arrays.equals(content, system.open(file).readAllBytes()));
            StringBuilder expected = new StringBuilder();
            Path many = fresh("many");
            try (FSDataOutputStream out = system.create(many)) {
                for (int i = 0; i < 200; i++) {
                    out.writeBytes(i + ",");
                    out.hflush();
                    expected.append(i).append(',');
                }
            }
            equal(expected.toString(), read(many));
        });
        checks.check("a file is replaced by the first flush, in one step", () -> {
            Path file = fresh("file");
            write(file, "old");
            try (FSDataOutputStream out = system.create(file, true)) {
                out.writeBytes("new");
                equal("old", read(file));
                out.hflush();
                equal("new", read(file));
            }
            Path raced = fresh("raced");
            FSDataOutputStream late = system.create(raced, false);
            write(raced, "first");
            thrown(FileAlreadyExistsException.class, late::hflush);
            thrown(IOException.class, late::close);
            equal("first", read(raced));
        });
        checks.check("capabilities say so", () -> {
            try (FSDataOutputStream out = system.create(fresh("file"))) {
                is(out.hasCapability("hflush") && out.hasCapability("HSYNC") && !out.hasCapability("other"));
            }
            is(system.hasPathCapability(fresh("file"), "fs.capability.paths.append"));
            is(!system.hasPathCapability(fresh("file"), "fs.capability.paths.truncate"));
        });
    }

    private static void appending(Checks checks) {
        checks.check("append goes on with a file", () -> {
            Path file = fresh("file");
            write(file, "one");
            try (FSDataOutputStream out = system.append(file)) {
                equal(3L, out.getPos());
                out.writeBytes(" two");
                equal("one", read(file));
                out.hflush();
                equal("one two", read(file));
                out.writeBytes(" three");
            }
            equal("one two three", read(file));
            try (FSDataOutputStream out = system.appendFile(file).build()) {
                is(out.hasCapability("hflush"));
                out.writeBytes("!");
            }
            system.append(file).close();
            equal("one two three!", read(file));
            try (FSDataOutputStream out = context.create(file, EnumSet.of(CreateFlag.APPEND))) {
                out.writeBytes("!");
            }
            equal("one two three!!", read(file));
        });
        checks.check("append to what is not there, and to a directory", () -> {
            thrown(FileNotFoundException.class, () -> system.append(fresh("nothing")));
            Path directory = fresh("directory");
            system.mkdirs(directory);
            thrown(FileAlreadyExistsException.class, () -> system.append(directory));
        });
        checks.check("of two writers one goes on, the other fails, and nothing is mixed", () -> {
            Path file = fresh("file");
            FSDataOutputStream lost = system.create(file);
            lost.writeBytes("flushed ");
            lost.hflush();
            lost.writeBytes("not flushed");
            try (FSDataOutputStream heir = system.append(file)) {
                heir.writeBytes("by the heir");
            }
            String said = thrown(IOException.class, lost::hflush).getMessage();
            is(said.contains("somebody else"));
            thrown(IOException.class, lost::close);
            equal("flushed by the heir", read(file));
        });
        checks.check("a file that was deleted or replaced under its writer", () -> {
            Path file = fresh("file");
            FSDataOutputStream out = system.create(file);
            out.hflush();
            system.delete(file, false);
            out.writeBytes("x");
            thrown(FileNotFoundException.class, out::hflush);
            is(!system.exists(file));
            FSDataOutputStream other = system.create(file);
            other.writeBytes("mine");
            other.hflush();
            write(file, "hers".getBytes(StandardCharsets.UTF_8), true);
            other.writeBytes("!");
            thrown(IOException.class, other::close);
            equal("hers", read(file));
        });
    }

    private static void reading(Checks checks) {
        checks.check("open: what is not there, and a directory", () -> {
            thrown(FileNotFoundException.class, () -> system.open(fresh("nothing")));
            Path directory = fresh("directory");
            system.mkdirs(directory);
            thrown(FileNotFoundException.class, () -> system.open(directory));
        });
        checks.check("seek, positioned read, end of file, read after close", () -> {
            byte[] content = new byte[3_000_000];
            new java.util.Random(7).nextBytes(content);
            Path file = fresh("large");
            try (FSDataOutputStream out = system.create(file)) {
                out.write(content);
            }
            FSDataInputStream in = system.open(file);
            for (int position : new int[] {0, 2_999_999, 131_072, 131_071, 1_500_000, 5}) {
                in.seek(position);
                equal(content[position] & 0xff, in.read());
                equal((long) position + 1, in.getPos());
            }
            byte[] part = new byte[200_000];
            in.readFully(1_000_000, part);
            is(Arrays.equals(Arrays.copyOfRange(content, 1_000_000, 1_200_000), part));
            equal(6L, in.getPos());
            in.seek(content.length);
            equal(-1, in.read());
            thrown(EOFException.class, () -> in.seek(content.length + 1L));
            thrown(EOFException.class, () -> in.seek(-1));
            thrown(EOFException.class, () -> in.readFully(content.length - 1L, part));
            in.seek(0);
            equal(content.length, in.available());
            equal(10L, in.skip(10));
            equal(content[10] & 0xff, in.read());
            in.close();
            in.close();
            thrown(IOException.class, in::read);
        });
        checks.check("a large file in small reads, with a jump back and one ahead on the way", () -> {
            byte[] content = new byte[7_000_001];
            new java.util.Random(8).nextBytes(content);
            Path file = fresh("large");
            write(file, content, true);
            try (FSDataInputStream in = system.open(file)) {
                byte[] part = new byte[100_003];
                for (int turn = 0; turn < 30; turn++) {
                    in.readFully(part);
                    is(Arrays.equals(Arrays.copyOfRange(content, turn * 100_003, (turn + 1) * 100_003), part));
                }
                for (int position : new int[] {200_000, 5_000_000}) {
                    in.seek(position);
                    byte[] rest = in.readAllBytes();
                    is(Arrays.equals(Arrays.copyOfRange(content, position, content.length), rest));
                }
            }
        });
        checks.check("a file that is replaced while it is read is not mixed", () -> {
            Path file = fresh("replaced");
            write(file, new byte[2_000_000], true);
            try (FSDataInputStream in = system.open(file)) {
                in.readFully(new byte[1000]);
                byte[] other = new byte[2_000_000];
                Arrays.fill(other, (byte) 1);
                write(file, other, true);
                thrown(IOException.class, () -> in.readFully(new byte[1_900_000]));
            }
        });
    }

    private static void looking(Checks checks) {
        checks.check("status: length, kind, time, path", () -> {
            long before = System.currentTimeMillis();
            Path file = fresh("file");
            write(file, "four");
            FileStatus status = system.getFileStatus(file);
            equal(4L, status.getLen());
            is(status.isFile() && !status.isDirectory());
            equal(file, status.getPath());
            is(Math.abs(status.getModificationTime() - before) < 600_000);
            is(system.getFileStatus(new Path("sos://payments/")).isDirectory());
        });
        checks.check("listStatus: children, a file itself, nothing there", () -> {
            Path directory = fresh("directory");
            system.mkdirs(directory);
            equal(0, system.listStatus(directory).length);
            write(new Path(directory, "b"), "x");
            write(new Path(directory, "a/deep"), "x");
            equal(List.of("a", "b"), names(system.listStatus(directory)));
            equal(List.of("b"), names(system.listStatus(new Path(directory, "b"))));
            thrown(FileNotFoundException.class, () -> system.listStatus(fresh("nothing")));
        });
        checks.check("listStatus of more than one page, in order", () -> {
            Path directory = fresh("many");
            for (int i = 0; i < 1100; i++) {
                system.mkdirs(new Path(directory, String.format("d%05d", i)));
            }
            List<String> names = names(system.listStatus(directory));
            equal(1100, names.size());
            equal("d00000", names.get(0));
            equal("d01099", names.get(1099));
            equal(1100, (int) names.stream().distinct().count());
        });
        checks.check("globs, recursive listing and sums", () -> {
            Path directory = fresh("globs");
            write(new Path(directory, "x/1.txt"), "a");
            write(new Path(directory, "y/2.txt"), "bc");
            write(new Path(directory, "y/3.log"), "d");
            equal(2, system.globStatus(new Path(directory, "*/*.txt")).length);
            int count = 0;
            for (var each = system.listFiles(directory, true); each.hasNext(); each.next()) {
                count++;
            }
            equal(3, count);
            equal(4L, system.getContentSummary(directory).getLength());
        });
        checks.check("a path that cannot be is not there", () -> {
            for (String name : List.of("x".repeat(256), "a/".repeat(200) + "a")) {
                Path path = fresh(name);
                is(!system.exists(path));
                is(!context.util().exists(path));
                thrown(FileNotFoundException.class, () -> system.open(path));
                thrown(IOException.class, () -> system.create(path).close());
            }
        });
        checks.check("bytes and operations are counted, for Spark's metrics", () -> {
            FileSystem.Statistics counted = FileSystem.getStatistics("sos", system.getClass());
            Path file = fresh("file");
            long written = counted.getBytesWritten();
            int writes = counted.getWriteOps();
            write(file, new byte[300_000], true);
            equal(300_000L, counted.getBytesWritten() - written);
            is(counted.getWriteOps() > writes);
            long readBefore = counted.getBytesRead();
            int reads = counted.getReadOps();
            try (FSDataInputStream in = system.open(file)) {
                in.readAllBytes();
                in.readFully(5, new byte[10]);
            }
            equal(300_010L, counted.getBytesRead() - readBefore);
            is(counted.getReadOps() - reads >= 2);
            reads = counted.getReadOps();
            system.listStatus(file.getParent());
            system.getFileStatus(file);
            equal(2, counted.getReadOps() - reads);
        });
        checks.check("what is not kept of a file is not pretended", () -> {
            Path file = fresh("file");
            write(file, "x");
            system.setPermission(file, new FsPermission("600"));
            Path withPermission = fresh("permission");
            FileSystem.create(system, withPermission, new FsPermission("660")).close(); // as Spark's event log is made
            is(system.exists(withPermission));
            String said = thrown(IOException.class, () -> system.setOwner(file, "somebody", null)).getMessage();
            is(said.contains("keeps no owners"));
            is(!system.setReplication(file, (short) 3));
            long time = system.getFileStatus(file).getModificationTime();
            system.setTimes(file, 1, 1);
            equal(time, system.getFileStatus(file).getModificationTime());
            for (Checks.Body body : List.<Checks.Body>of(
                    () -> system.setOwner(fresh("nothing"), "somebody", null),
                    () -> system.setReplication(fresh("nothing"), (short) 3))) {
                thrown(FileNotFoundException.class, body);
            }
        });
        checks.check("a relative path is below the working directory; another volume's path is not ours", () -> {
            Path directory = fresh("work");
            FileSystem own = FileSystem.get(ROOT.toUri(), configuration);
            equal(new Path("sos://payments/"), own.getWorkingDirectory());
            own.setWorkingDirectory(directory);
            own.mkdirs(new Path("below"));
            is(system.exists(new Path(directory, "below")));
            thrown(IllegalArgumentException.class, () -> system.exists(new Path("sos://other/x")));
            equal(URI.create("sos://payments"), system.getUri());
            equal(null, system.getCanonicalServiceName());
        });
    }

    private static void renaming(Checks checks) {
        checks.check("rename a file, and a tree", () -> {
            Path file = fresh("from");
            Path target = new Path(file.getParent(), "to");
            write(file, "x");
            is(system.rename(file, target));
            is(!system.exists(file));
            equal("x", read(target));
            Path tree = fresh("tree");
            write(new Path(tree, "a/b"), "y");
            Path moved = fresh("moved");
            is(system.rename(tree, moved));
            equal("y", read(new Path(moved, "a/b")));
            is(!system.exists(tree));
        });
        checks.check("rename of what is not there, onto a file, into itself: false, and nothing moves", () -> {
            is(!system.rename(fresh("nothing"), fresh("anywhere")));
            Path one = fresh("one");
            Path two = fresh("two");
            write(one, "1");
            write(two, "2");
            is(!system.rename(one, two));
            equal("1", read(one));
            equal("2", read(two));
            Path directory = fresh("directory");
            system.mkdirs(directory);
            is(!system.rename(directory, new Path(directory, "below")));
            is(system.exists(directory));
            is(system.rename(one, one));
        });
        checks.check("rename makes the parents of its target", () -> {
            Path file = fresh("file");
            write(file, "x");
            Path target = fresh("no/parent/target");
            is(system.rename(file, target));
            equal("x", read(target));
        });
        checks.check("rename into a directory keeps the name", () -> {
            Path file = fresh("file");
            Path directory = fresh("directory");
            write(file, "x");
            system.mkdirs(directory);
            is(system.rename(file, directory));
            equal("x", read(new Path(directory, "file")));
        });
    }

    private static void deleting(Checks checks) {
        checks.check("delete: nothing there, a file, a directory with and without recursive, the root", () -> {
            is(!system.delete(fresh("nothing"), true));
            Path file = fresh("directory/file");
            write(file, "x");
            thrown(PathIsNotEmptyDirectoryException.class, () -> system.delete(file.getParent(), false));
            is(system.exists(file));
            is(system.delete(file, false));
            is(!system.delete(file, false));
            is(system.delete(file.getParent(), false));
            write(file, "x");
            is(system.delete(file.getParent(), true));
            is(!system.exists(file));
            Path root = new Path("sos://payments/");
            is(!system.delete(root, true));
            thrown(PathIsNotEmptyDirectoryException.class, () -> system.delete(root, false));
            is(system.exists(ROOT));
        });
    }

    private static void copying(Checks checks) {
        checks.check("from local disk and back, small and large, as RocksDB's files go", () -> {
            java.nio.file.Path local = Files.createTempDirectory("sos-check");
            for (int size : new int[] {0, 10, 4_000_000}) {
                byte[] content = new byte[size];
                new java.util.Random(size).nextBytes(content);
                java.nio.file.Path source = local.resolve("source" + size);
                Files.write(source, content);
                Path target = fresh("copied" + size);
                system.copyFromLocalFile(new Path(source.toUri()), target);
                system.copyFromLocalFile(new Path(source.toUri()), target);
                java.nio.file.Path back = local.resolve("back" + size);
                system.copyToLocalFile(target, new Path(back.toUri()));
                is(Arrays.equals(content, Files.readAllBytes(back)));
                is(Files.exists(source));
            }
        });
        checks.check("to local disk: over an old file, into a directory, a whole directory, what is not there", () -> {
            java.nio.file.Path local = Files.createTempDirectory("sos-check");
            java.nio.file.Path old = Files.writeString(local.resolve("old"), "something longer");
            java.nio.file.Path sums = Files.writeString(local.resolve(".old.crc"), "of the old file");
            Path file = fresh("directory/name");
            write(file, "x");
            thrown(FileNotFoundException.class, () -> system.copyToLocalFile(fresh("nothing"), new Path(old.toUri())));
            equal("something longer", Files.readString(old));
            system.copyToLocalFile(file, new Path(old.toUri()));
            equal("x", Files.readString(old));
            is(!Files.exists(sums));
            system.copyToLocalFile(file, new Path(local.resolve("new/parents/file").toUri()));
            equal("x", Files.readString(local.resolve("new/parents/file")));
            system.copyToLocalFile(file, new Path(local.toUri()));
            equal("x", Files.readString(local.resolve("name")));
            system.copyToLocalFile(file.getParent(), new Path(local.toUri()));
            equal("x", Files.readString(local.resolve("directory/name")));
            system.moveToLocalFile(file, new Path(local.resolve("moved").toUri()));
            is(Files.exists(local.resolve("moved")) && !system.exists(file));
        });
        checks.check("to local disk: a file that is replaced meanwhile leaves none", () -> {
            java.nio.file.Path back = Files.createTempDirectory("sos-check").resolve("back");
            Path file = fresh("replaced");
            for (int turn = 0; turn < 6; turn++) {
                byte[] before = new byte[4_000_000];
                byte[] after = new byte[4_000_000];
                Arrays.fill(after, (byte) 1);
                write(file, before, true);
                Thread writer = new Thread(() -> replace(file, after));
                writer.start();
                try {
                    system.copyToLocalFile(file, new Path(back.toUri()));
                    byte[] found = Files.readAllBytes(back);
                    is(Arrays.equals(before, found) || Arrays.equals(after, found));
                } catch (IOException e) {
                    is(e.getMessage().contains("replaced") && !Files.exists(back));
                }
                writer.join();
                Files.deleteIfExists(back);
            }
        });
        checks.check("from local disk into a directory, without overwrite, moving, a whole directory", () -> {
            java.nio.file.Path local = Files.createTempDirectory("sos-check");
            java.nio.file.Path source = Files.writeString(local.resolve("name"), "x");
            Path directory = fresh("directory");
            system.mkdirs(directory);
            system.copyFromLocalFile(new Path(source.toUri()), directory);
            equal("x", read(new Path(directory, "name")));
            Path file = new Path(directory, "name");
            for (Path taken : List.of(file, directory)) {
                String said = thrown(PathExistsException.class,
                        () -> system.copyFromLocalFile(false, false, new Path(source.toUri()), taken)).getMessage();
                is(said.contains(file.toString()) && said.contains("exists"));
            }
            system.mkdirs(new Path(directory, "taken/name"));
            thrown(PathIsDirectoryException.class,
                    () -> system.copyFromLocalFile(new Path(source.toUri()), new Path(directory, "taken")));
            system.moveFromLocalFile(new Path(source.toUri()), new Path(directory, "moved"));
            is(!Files.exists(source));
            Files.createDirectories(local.resolve("deep/er"));
            Files.writeString(local.resolve("deep/er/file"), "y");
            system.copyFromLocalFile(new Path(local.resolve("deep").toUri()), new Path(directory, "deep"));
            equal("y", read(new Path(directory, "deep/er/file")));
        });
        checks.check("copies by FileUtil within the volume", () -> {
            Path file = fresh("file");
            write(file, "x");
            is(FileUtil.copy(system, file, system, fresh("copy"), false, configuration));
        });
    }

    private static void contexts(Checks checks) {
        checks.check("FileContext: create, open, list, status, delete", () -> {
            Path file = fresh("file");
            try (FSDataOutputStream out = context.create(
                    file, EnumSet.of(CreateFlag.CREATE), Options.CreateOpts.createParent())) {
                out.write("x".getBytes(StandardCharsets.UTF_8));
            }
            thrown(FileAlreadyExistsException.class, () -> context.create(file, EnumSet.of(CreateFlag.CREATE)));
            thrown(FileNotFoundException.class,
                    () -> context.create(fresh("no/parent"), EnumSet.of(CreateFlag.CREATE)));
            equal(List.of("file"), names(context.util().listStatus(file.getParent())));
            equal(1L, context.getFileStatus(file).getLen());
            equal(1, context.open(file).readAllBytes().length);
            thrown(FileNotFoundException.class, () -> context.open(fresh("nothing")));
            is(context.delete(file, false));
            is(!context.util().exists(file));
        });
        checks.check("FileContext: mkdir with and without parents", () -> {
            Path directory = fresh("a/b");
            thrown(IOException.class, () -> context.mkdir(directory, null, false));
            context.mkdir(directory, null, true);
            is(context.getFileStatus(directory).isDirectory());
        });
        checks.check("FileContext: rename without and with overwrite", () -> {
            Path source = fresh("source");
            Path target = fresh("target");
            write(source, "new");
            write(target, "old");
            thrown(FileAlreadyExistsException.class, () -> context.rename(source, target));
            equal("old", read(target));
            context.rename(source, target, Options.Rename.OVERWRITE);
            equal("new", read(target));
            is(!context.util().exists(source));
            thrown(FileNotFoundException.class, () -> context.rename(fresh("nothing"), fresh("anywhere")));
            thrown(FileNotFoundException.class, () -> context.rename(target, fresh("no/parent")));
            equal("new", read(target));
        });
        checks.check("FileContext: an empty directory is replaced by a directory, if told to", () -> {
            Path source = fresh("source");
            Path empty = fresh("empty");
            write(new Path(source, "file"), "x");
            system.mkdirs(empty);
            thrown(FileAlreadyExistsException.class, () -> context.rename(source, empty));
            context.rename(source, empty, Options.Rename.OVERWRITE);
            equal("x", read(new Path(empty, "file")));
            is(!system.exists(source));
            Path file = fresh("file");
            write(file, "y");
            Path other = fresh("other");
            system.mkdirs(other);
            thrown(IOException.class, () -> context.rename(file, other, Options.Rename.OVERWRITE));
            thrown(IOException.class, () -> context.rename(empty, other.getParent(), Options.Rename.OVERWRITE));
            thrown(IOException.class, () -> context.rename(other, new Path(other, "in"), Options.Rename.OVERWRITE));
            is(system.exists(other));
        });
        checks.check("FileContext: a directory with content is never replaced", () -> {
            Path source = fresh("source");
            Path directory = fresh("directory");
            write(source, "x");
            write(new Path(directory, "file"), "y");
            thrown(IOException.class, () -> context.rename(source, directory, Options.Rename.OVERWRITE));
            Path tree = fresh("tree");
            system.mkdirs(tree);
            thrown(IOException.class, () -> context.rename(tree, directory, Options.Rename.OVERWRITE));
            equal("y", read(new Path(directory, "file")));
        });
    }

    private static FSDataOutputStream createNonRecursive(Path file) throws IOException {
        return system.createNonRecursive(file, true, 4096, (short) 1, 1 << 20, null);
    }

    private static List<String> names(FileStatus[] statuses) {
        return Arrays.stream(statuses).map(each -> each.getPath().getName()).toList();
    }

    private static int counter;

    /** A path of its own below a directory of its own, which exists but for what the name has before its last slash. */
    private static Path fresh(String name) throws IOException {
        Path directory = new Path(ROOT, String.valueOf(counter++));
        system.mkdirs(directory);
        return new Path(directory, name);
    }

    private static void write(Path file, String content) throws IOException {
        write(file, content.getBytes(StandardCharsets.UTF_8), false);
    }

    private static void write(Path file, byte[] content, boolean overwrite) throws IOException {
        try (FSDataOutputStream out = system.create(file, overwrite)) {
            out.write(content);
        }
    }

    private static void replace(Path file, byte[] content) {
        try {
            write(file, content, true);
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private static String read(Path file) throws IOException {
        return read(system, file);
    }

    private static String read(FileSystem system, Path file) throws IOException {
        try (FSDataInputStream in = system.open(file)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }
}
