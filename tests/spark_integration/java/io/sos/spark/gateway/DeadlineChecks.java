package io.sos.spark.gateway;

import static io.sos.spark.checks.Checks.equal;
import static io.sos.spark.checks.Checks.is;
import static io.sos.spark.checks.Checks.thrown;
import static io.sos.spark.gateway.CheckedService.client;
import static io.sos.spark.gateway.CheckedService.content;
import static io.sos.spark.gateway.CheckedService.fresh;
import static io.sos.spark.gateway.CheckedService.service;
import static io.sos.spark.gateway.ScriptedAnswers.frame;
import static io.sos.spark.gateway.ScriptedAnswers.status;

import io.sos.spark.checks.Checks;
import io.sos.spark.checks.FaultyProxy.Mode;
import io.sos.spark.checks.FaultyProxy;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/** Nobody waits longer than the deadline, or after an interrupt, and the error says what was tried. */
final class DeadlineChecks {
    private DeadlineChecks() {}

    static void run(Checks checks) {
        deadlines(checks);
        interrupts(checks);
    }

    private static void deadlines(Checks checks) {
        checks.waits("nobody listens: unavailable, nothing was changed", () -> {
            VolumeClient client = client(3, "127.0.0.1:1");
            ServiceUnavailableException e =
                    thrown(ServiceUnavailableException.class, () -> client.write(fresh(), content("x"), true, null));
            is(e.getMessage().contains("Nothing was changed"));
        });
        checks.waits("answers never come: the outcome is unknown, and the error says so", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service())) {
                VolumeClient client = client(3, proxy.address());
                proxy.mode = Mode.LOSE_ANSWERS;
                proxy.losses.set(Integer.MAX_VALUE);
                OutcomeUnknownException e =
                        thrown(OutcomeUnknownException.class, () -> client.write(fresh(), content("x"), true, null));
                is(e.getMessage().contains("Outcome unknown"));
                thrown(ServiceUnavailableException.class, () -> client.stat(fresh()));
            }
        });
        checks.waits("connections that end at once: the error says that, and what was tried", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service())) {
                proxy.mode = Mode.REFUSE;
                VolumeClient client = client(2, proxy.address());
                String said = thrown(ServiceUnavailableException.class, () -> client.stat("x")).getMessage();
                is(said.contains("stat x") && !said.contains("null"));
            }
        });
        checks.waits("the deadline ends an attempt: the error says what was wrong with those before", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service())) {
                proxy.mode = Mode.REFUSE;
                VolumeClient client = client(5, proxy.address());
                Thread later = new Thread(() -> {
                    LockSupport.parkNanos(1_000_000_000L);
                    proxy.mode = Mode.SILENT;
                });
                later.start();
                String said = thrown(ServiceUnavailableException.class, () -> client.stat("x")).getMessage();
                later.join();
                is(said.contains(", before that " + proxy.address()));
            }
        });
        checks.waits("a service that was never reached cannot have changed anything", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service());
                    ScriptedService odd = new ScriptedService("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes())) {
                proxy.mode = Mode.REFUSE;
                odd.greets = false;
                for (String address : List.of(proxy.address(), odd.address())) {
                    VolumeClient client = client(2, address);
                    thrown(ServiceUnavailableException.class, () -> client.write(fresh(), content("x"), true, null));
                }
            }
        });
        checks.waits("who was asked last, and what was wrong, is told, also when Java's exception does not", () -> {
            String unknown = "nobody".repeat(11) + ":7420"; // too long for a name: no name server is asked, which may take its time
            for (String address : List.of("127.0.0.1:1", unknown)) {
                VolumeClient client = client(8, address);
                String said = thrown(ServiceUnavailableException.class, () -> client.stat("x")).getMessage();
                is(said.contains(address));
                is(said.contains("refused") || said.contains("unknown host"));
                is(said.contains("sos-journal serve"));
            }
        });
        checks.check("a connection that ends before its answer: the error says so", () -> {
            DataInputStream cut = new DataInputStream(new ByteArrayInputStream(new byte[2]));
            is(thrown(EOFException.class, () -> Frames.read(cut)).getMessage().contains("closed the connection"));
        });
        checks.waits("a service that accepts and is silent: given up at the deadline", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service())) {
                proxy.mode = Mode.SILENT;
                VolumeClient client = client(1, proxy.address());
                long start = System.nanoTime();
                thrown(ServiceUnavailableException.class, () -> client.stat("x"));
                is(System.nanoTime() - start < 10_000_000_000L); // of one second that it was given
            }
        });
        checks.waits("a service that takes no bytes of a file for a while, and says that it works on it, is not silent", () -> {
            byte[] bytes = new byte[16 << 20]; // more than the buffers of TCP take
            byte[] entry = status(new MsgpackWriter().array(2).number(1), "x", bytes.length).toByteArray();
            try (ScriptedService busy = new ScriptedService(frame(0xa3, entry))) {
                VolumeClient client = client(60, busy.address());
                busy.waitsFor(3_000_000_000L);
                equal((long) bytes.length, client.write("x", content(bytes), true, null).size());
                equal(1, busy.connections.get());
            }
        });
        checks.waits("a service that takes no more bytes: writing ends at the deadline, too", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service())) {
                VolumeClient client = client(3, proxy.address());
                client.write(fresh(), content("x"), true, null);
                proxy.cut();
                proxy.mode = Mode.SILENT;
                thrown(IOException.class, () -> client.write(fresh(), content(new byte[1 << 20]), true, null));
            }
        });
    }

    private static void interrupts(Checks checks) {
        checks.waits("an interrupted thread leaves soon, the flag still set", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service())) {
                proxy.mode = Mode.SILENT;
                VolumeClient client = client(60, proxy.address());
                interrupted(() -> client.stat("x"));
                interrupted(() -> client.write(fresh(), content(new byte[8 << 20]), true, null));
            }
        });
        checks.waits("interrupted between two attempts", () -> {
            VolumeClient client = client(60, "127.0.0.1:1");
            interrupted(() -> client.stat("x"));
        });
        checks.check("interrupted before it began", () -> {
            VolumeClient client = client(60, service());
            Thread.currentThread().interrupt();
            thrown(InterruptedIOException.class, () -> client.stat("x"));
            is(Thread.interrupted());
        });
    }

    static void interrupted(Checks.Body body) throws Exception {
        Throwable[] caught = new Throwable[1];
        boolean[] flag = new boolean[1];
        Thread thread = new Thread(() -> {
            try {
                body.run();
            } catch (Throwable e) {
                caught[0] = e;
                flag[0] = Thread.currentThread().isInterrupted();
            }
        });
        thread.start();
        Thread.sleep(300);
        long start = System.nanoTime();
        thread.interrupt();
        thread.join(60_000);
        is(caught[0] instanceof InterruptedIOException);
        is(flag[0]);
        is(System.nanoTime() - start < 30_000_000_000L); // the deadline is at 60 s
    }
}
