package io.sos.spark.gateway;

import static io.sos.spark.checks.Checks.equal;
import static io.sos.spark.checks.Checks.is;
import static io.sos.spark.checks.Checks.thrown;
import static io.sos.spark.gateway.CheckedService.client;
import static io.sos.spark.gateway.CheckedService.content;
import static io.sos.spark.gateway.CheckedService.fresh;
import static io.sos.spark.gateway.CheckedService.service;
import static io.sos.spark.gateway.DeadlineChecks.interrupted;
import static io.sos.spark.gateway.ScriptedAnswers.frame;
import static io.sos.spark.gateway.ScriptedAnswers.refusal;
import static io.sos.spark.gateway.ScriptedAnswers.status;

import io.sos.spark.checks.Checks;
import io.sos.spark.checks.FaultyProxy;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/** Requests of many threads on one connection. */
final class SharingChecks {
    private SharingChecks() {}

    static void run(Checks checks) {
        checks.check("many threads share one connection, and each gets its own answer", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service())) {
                VolumeClient client = client(60, proxy.address());
                String directory = fresh();
                inThreads(64, number -> {
                    for (int round = 0; round < 20; round++) {
                        String path = directory + "/" + number + "/" + round;
                        byte[] bytes = new byte[number * 20 + round];
                        equal((long) bytes.length, client.write(path, content(bytes), false, null).size());
                        equal(path, client.stat(path).path());
                        thrown(RefusedException.class, () -> client.write(path, content("x"), false, null));
                        is(client.delete(path, false, null));
                    }
                });
                equal(64, client.list(directory).size());
                equal(1, proxy.connections.get());
            }
        });
        checks.check("a connection that is cut again and again: each change is made once", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service())) {
                VolumeClient client = client(600, proxy.address());
                String directory = fresh();
                AtomicInteger done = new AtomicInteger();
                AtomicInteger left = new AtomicInteger(32);
                Thread cutter = new Thread(() -> {
                    for (int next = 10; left.get() > 0; LockSupport.parkNanos(1_000_000)) {
                        if (done.get() < next) {
                            continue; // however slow it is, it gets on between two cuts
                        }
                        next = done.get() + 10;
                        try {
                            proxy.cut();
                        } catch (IOException e) {
                            throw new UncheckedIOException(e);
                        }
                    }
                });
                cutter.start();
                inThreads(32, number -> {
                    try {
                        for (int round = 0; round < 10; round++) {
                            String path = directory + "/" + number + "-" + round;
                            client.write(path, content("x"), false, null);
                            is(client.delete(path, false, null));
                            client.write(path, content("y"), false, null);
                            done.incrementAndGet();
                        }
                    } finally {
                        left.decrementAndGet();
                    }
                });
                cutter.join();
                equal(320, client.list(directory).size());
                is(proxy.connections.get() > 10);
            }
        });
        checks.waits("a thread that is interrupted, or late, leaves the connection to the others", () -> {
            byte[] entry = status(new MsgpackWriter().array(2).number(1), "x", 1).toByteArray();
            try (ScriptedService slow = new ScriptedService(frame(0xa3, entry))) {
                VolumeClient client = client(30, slow.address());
                equal(1L, client.stat("x").size());
                slow.waits = true; // says that it works on it, and answers when it is told to
                FutureTask<FileEntry> patient = new FutureTask<>(() -> client.stat("x"));
                new Thread(patient).start();
                interrupted(() -> client.stat("x"));
                LockSupport.parkNanos(3_000_000_000L); // longer than silence may last
                is(!patient.isDone());
                slow.waits = false;
                equal(1L, patient.get().size());
                equal(1L, client.stat("x").size());
                equal(1, slow.connections.get());
            }
        });
        checks.waits("a service that takes no bytes for a while, and says that it works on it, is not silent", () -> {
            byte[] bytes = new byte[120 * 1024]; // 80 of them are more than the buffers of TCP take
            byte[] entry = status(new MsgpackWriter().array(2).number(1), "x", bytes.length).toByteArray();
            try (ScriptedService busy = new ScriptedService(frame(0xa3, entry))) {
                VolumeClient client = client(60, busy.address());
                busy.waitsFor(3_000_000_000L);
                inThreads(80, number -> equal((long) bytes.length, client.write("x", content(bytes), true, null).size()));
                equal(1, busy.connections.get());
            }
        });
        checks.waits("an answer that comes slowly is no silence, on a connection that is shared or not", () -> {
            byte[] entry = status(new MsgpackWriter().array(2).number(1), "x".repeat(200), 1).toByteArray();
            for (int version : new int[] {1, 2}) {
                try (ScriptedService slow = new ScriptedService(frame(0xa3, entry))) {
                    slow.versionMax = version;
                    slow.parts = 8;
                    VolumeClient client = client(30, slow.address());
                    equal(1L, client.stat("x".repeat(200)).size());
                    equal(1, slow.requests.get());
                }
            }
        });
        checks.waits("no sign for too long breaks the connection for all who wait on it", () -> {
            try (FaultyProxy owner = new FaultyProxy(service())) {
                VolumeClient client = client(60, owner.address(), service());
                String path = fresh();
                client.write(path, content("x"), false, null);
                owner.frozen = true;
                long start = System.nanoTime();
                inThreads(16, number -> equal(1L, client.stat(path).size()));
                is(System.nanoTime() - start < 24_000_000_000L); // one after the other they would wait for 32 s
                equal(1, owner.swallowed.get());
            }
        });
        checks.check("a service that takes one request at a time is spoken to as before", () -> {
            byte[] entry = status(new MsgpackWriter().array(2).number(1), "x", 1).toByteArray();
            try (ScriptedService older = new ScriptedService(frame(0xa3, entry))) {
                older.versionMax = 1;
                VolumeClient client = client(20, older.address());
                equal(1L, client.stat("x").size());
                equal(1L, client.stat("x").size());
                equal(2, older.connections.get()); // one was refused
                equal(2, older.requests.get());
            }
        });
        checks.check("an answer to what nobody asked breaks the connection", () -> {
            byte[] entry = status(new MsgpackWriter().array(2).number(1), "x", 1).toByteArray();
            try (ScriptedService rogue = new ScriptedService(frame(0xa3, entry))) {
                rogue.tagsAhead = 1;
                VolumeClient client = client(20, rogue.address(), service());
                equal(ServiceCode.NOT_FOUND, thrown(RefusedException.class, () -> client.stat("x")).code());
                is(rogue.requests.get() > 0);
            }
        });
        checks.check("an answer to OPEN has the tag of it", () -> {
            byte[] entry = status(new MsgpackWriter().array(2).number(1), "x", 1).toByteArray();
            try (ScriptedService rogue = new ScriptedService(frame(0xa3, entry))) {
                rogue.openedAhead = 1;
                VolumeClient client = client(20, rogue.address(), service());
                equal(ServiceCode.NOT_FOUND, thrown(RefusedException.class, () -> client.stat("x")).code());
                equal(0, rogue.requests.get());
            }
        });
        checks.check("what ends the connection is no answer: the request is asked again", () -> {
            try (ScriptedService leaving = new ScriptedService(refusal(53, "you talk nonsense", "x", "y"))) {
                leaving.ofTheConnection = true;
                VolumeClient client = client(20, leaving.address(), service());
                String path = fresh();
                equal(1L, client.write(path, content("x"), false, null).size());
                is(leaving.requests.get() > 0);
            }
        });
    }

    private interface Numbered {
        void run(int number) throws Exception;
    }

    private static void inThreads(int count, Numbered body) throws Exception {
        List<FutureTask<Void>> tasks = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int number = i;
            FutureTask<Void> task = new FutureTask<>(() -> {
                body.run(number);
                return null;
            });
            tasks.add(task);
            new Thread(task).start();
        }
        for (FutureTask<Void> task : tasks) {
            task.get();
        }
    }
}
