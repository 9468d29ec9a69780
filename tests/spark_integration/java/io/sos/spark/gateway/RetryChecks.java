package io.sos.spark.gateway;

import static io.sos.spark.checks.Checks.equal;
import static io.sos.spark.checks.Checks.is;
import static io.sos.spark.checks.Checks.thrown;
import static io.sos.spark.gateway.CheckedService.broken;
import static io.sos.spark.gateway.CheckedService.client;
import static io.sos.spark.gateway.CheckedService.content;
import static io.sos.spark.gateway.CheckedService.fresh;
import static io.sos.spark.gateway.CheckedService.read;
import static io.sos.spark.gateway.CheckedService.readAll;
import static io.sos.spark.gateway.CheckedService.service;
import static io.sos.spark.gateway.CheckedService.sized;

import io.sos.spark.checks.Checks;
import io.sos.spark.checks.FaultyProxy.Mode;
import io.sos.spark.checks.FaultyProxy;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.FutureTask;
import java.util.concurrent.locks.LockSupport;

/** What is lost on the way is asked again, and takes effect once. */
final class RetryChecks {
    private RetryChecks() {}

    static void run(Checks checks) {
        checks.check("a lost answer: the same operation again gets the first answer, not ALREADY_EXISTS", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service())) {
                VolumeClient client = client(20, proxy.address());
                proxy.mode = Mode.LOSE_ANSWERS;
                proxy.losses.set(3);
                String path = fresh();
                FileEntry entry = client.write(path, content("once"), false, null);
                equal(4L, entry.size());
                is(proxy.losses.get() <= 0);
                is(proxy.connections.get() >= 4);
                equal("once", read(client, path));
                thrown(RefusedException.class, () -> client.write(path, content("twice"), false, null));
            }
        });
        checks.check("a lost answer to delete still says that something was deleted", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service())) {
                VolumeClient client = client(20, proxy.address());
                String path = fresh();
                client.write(path, content("x"), false, null);
                proxy.cut();
                proxy.mode = Mode.LOSE_ANSWERS;
                proxy.losses.set(2);
                is(client.delete(path, false, null));
                is(!client.delete(path, false, null));
            }
        });
        checks.check("a lost answer to an append: it is there once", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service())) {
                VolumeClient client = client(20, proxy.address());
                String path = fresh();
                FileEntry entry = client.write(path, content("0"), false, null);
                proxy.cut();
                proxy.mode = Mode.LOSE_ANSWERS;
                for (int number = 1; number < 5; number++) {
                    proxy.losses.set(2);
                    entry = client.append(entry, new byte[] {(byte) ('0' + number)}, 1, null);
                    is(proxy.losses.get() <= 0);
                }
                equal("01234", read(client, path));
                FileEntry before = new FileEntry(path, false, 4, entry.modifiedMillis());
                RefusedException e = thrown(RefusedException.class, () -> client.append(before, new byte[1], 1, null));
                equal(ServiceCode.CHANGED, e.code());
            }
        });
        checks.check("a change whose answer is long in coming is not pushed out by the others", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service())) {
                VolumeClient slow = client(60, proxy.address());
                VolumeClient quick = client(60, service());
                proxy.mode = Mode.LOSE_ANSWERS;
                proxy.losses.set(Integer.MAX_VALUE);
                String path = fresh();
                FutureTask<FileEntry> change = new FutureTask<>(() -> slow.write(path, content("once"), false, null));
                new Thread(change).start();
                while (proxy.connections.get() < 2) { // its first answer is lost
                    LockSupport.parkNanos(1_000_000);
                }
                for (int number = 0; number < 40; number++) {
                    quick.write(fresh(), content("x"), false, null);
                }
                proxy.mode = Mode.PASS;
                equal(4L, change.get().size());
                equal("once", read(quick, path));
            }
        });
        checks.check("a large file goes on after a cut in its middle, whole", () -> {
            byte[] bytes = new byte[5_000_000];
            new Random(3).nextBytes(bytes);
            for (long cut : new long[] {100, 1_048_700, 3_000_000, 4_999_990}) {
                try (FaultyProxy proxy = new FaultyProxy(service())) {
                    VolumeClient client = client(20, proxy.address());
                    proxy.cutAfterBytes = cut;
                    String path = fresh();
                    client.write(path, content(bytes), false, null);
                    is(proxy.connections.get() > 1);
                    is(Arrays.equals(bytes, readAll(client, path, bytes.length)));
                }
            }
        });
        checks.waits("an idle connection that died costs nothing", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service())) {
                VolumeClient client = client(20, proxy.address());
                String path = fresh();
                client.write(path, content("x"), false, null);
                equal("x", read(client, path));
                equal(2, proxy.connections.get()); // what is read has one of its own
                LockSupport.parkNanos(1_100_000_000L);
                proxy.cut();
                long start = System.nanoTime();
                equal(1L, client.stat(path).size());
                equal("x", read(client, path));
                equal(4, proxy.connections.get());
                is(System.nanoTime() - start < 10_000_000_000L); // the deadline is at 20 s
            }
        });
        checks.check("many requests share a connection, refusals do not cost one", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service())) {
                VolumeClient client = client(20, proxy.address());
                for (int i = 0; i < 50; i++) {
                    thrown(RefusedException.class, () -> client.stat(fresh()));
                    client.write(fresh(), content("x"), false, null);
                }
                String path = fresh();
                client.write(path, content("x"), false, null);
                thrown(RefusedException.class, () -> client.write(path, content(new byte[3 << 20]), false, null));
                client.write(fresh(), content("x"), false, null);
                equal(2, proxy.connections.get()); // the large file had one of its own
            }
        });
        checks.check("content that cannot be read is not retried, and nothing is published", () -> {
            VolumeClient client = client(20, service());
            for (int size : new int[] {10, 3 << 20}) {
                String path = fresh();
                thrown(ContentException.class, () -> client.write(path, broken(size), false, null));
                equal(ServiceCode.NOT_FOUND, thrown(RefusedException.class, () -> client.stat(path)).code());
                Content longer = sized(new byte[size + 1], size);
                thrown(ContentException.class, () -> client.write(path, longer, false, null));
                Content shorter = sized(new byte[size - 1], size);
                thrown(ContentException.class, () -> client.write(path, shorter, false, null));
                equal(ServiceCode.NOT_FOUND, thrown(RefusedException.class, () -> client.stat(path)).code());
            }
        });
    }
}
