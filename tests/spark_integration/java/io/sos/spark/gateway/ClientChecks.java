package io.sos.spark.gateway;

import static io.sos.spark.checks.Checks.equal;
import static io.sos.spark.checks.Checks.is;
import static io.sos.spark.checks.Checks.thrown;

import io.sos.spark.checks.Checks;
import io.sos.spark.checks.FaultyProxy;
import io.sos.spark.checks.FaultyProxy.Mode;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/** What the client does when things go wrong. Argument: a service with the volumes payments and other. */
public final class ClientChecks {
    private static final String ROOT = "client-" + System.nanoTime() + "/";
    private static String service;
    private static int counter;

    public static void main(String[] arguments) throws Exception {
        service = arguments[0];
        Checks checks = new Checks();
        retries(checks);
        deadlines(checks);
        interrupts(checks);
        addresses(checks);
        claims(checks);
        answers(checks);
        sharing(checks);
        tokens(checks);
        checks.end();
    }

    private static void retries(Checks checks) {
        checks.check("a lost answer: the same operation again gets the first answer, not ALREADY_EXISTS", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service)) {
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
            try (FaultyProxy proxy = new FaultyProxy(service)) {
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
            try (FaultyProxy proxy = new FaultyProxy(service)) {
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
            try (FaultyProxy proxy = new FaultyProxy(service)) {
                VolumeClient slow = client(60, proxy.address());
                VolumeClient quick = client(60, service);
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
            new java.util.Random(3).nextBytes(bytes);
            for (long cut : new long[] {100, 1_048_700, 3_000_000, 4_999_990}) {
                try (FaultyProxy proxy = new FaultyProxy(service)) {
                    VolumeClient client = client(20, proxy.address());
                    proxy.cutAfterBytes = cut;
                    String path = fresh();
                    client.write(path, content(bytes), false, null);
                    is(proxy.connections.get() > 1);
                    is(Arrays.equals(bytes, readAll(client, path, bytes.length)));
                }
            }
        });
        checks.check("an idle connection that died costs nothing", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service)) {
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
                is(System.nanoTime() - start < 1_000_000_000L);
            }
        });
        checks.check("many requests share a connection, refusals do not cost one", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service)) {
                VolumeClient client = client(20, proxy.address());
                for (int i = 0; i < 50; i++) {
                    thrown(RefusedException.class, () -> client.stat(ROOT + "nothing"));
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
            VolumeClient client = client(20, service);
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

    private static void deadlines(Checks checks) {
        checks.check("nobody listens: unavailable, nothing was changed", () -> {
            VolumeClient client = client(3, "127.0.0.1:1");
            ServiceUnavailableException e =
                    thrown(ServiceUnavailableException.class, () -> client.write(fresh(), content("x"), true, null));
            is(e.getMessage().contains("Nothing was changed"));
        });
        checks.check("answers never come: the outcome is unknown, and the error says so", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service)) {
                VolumeClient client = client(3, proxy.address());
                proxy.mode = Mode.LOSE_ANSWERS;
                proxy.losses.set(Integer.MAX_VALUE);
                OutcomeUnknownException e =
                        thrown(OutcomeUnknownException.class, () -> client.write(fresh(), content("x"), true, null));
                is(e.getMessage().contains("Outcome unknown"));
                thrown(ServiceUnavailableException.class, () -> client.stat(fresh()));
            }
        });
        checks.check("connections that end at once: the error says that, and what was tried", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service)) {
                proxy.mode = Mode.REFUSE;
                VolumeClient client = client(2, proxy.address());
                String said = thrown(ServiceUnavailableException.class, () -> client.stat("x")).getMessage();
                is(said.contains("stat x") && !said.contains("null"));
            }
        });
        checks.check("the deadline ends an attempt: the error says what was wrong with those before", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service)) {
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
        checks.check("a service that was never reached cannot have changed anything", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service);
                    Scripted odd = new Scripted("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes())) {
                proxy.mode = Mode.REFUSE;
                odd.greets = false;
                for (String address : List.of(proxy.address(), odd.address())) {
                    VolumeClient client = client(2, address);
                    thrown(ServiceUnavailableException.class, () -> client.write(fresh(), content("x"), true, null));
                }
            }
        });
        checks.check("who was asked last, and what was wrong, is told, also when Java's exception does not", () -> {
            String unknown = "nobody".repeat(11) + ":7420"; // too long for a name: no name server is asked, which may take its time
            for (String address : List.of("127.0.0.1:1", unknown)) {
                VolumeClient client = client(3, address);
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
        checks.check("a service that accepts and is silent: given up at the deadline", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service)) {
                proxy.mode = Mode.SILENT;
                VolumeClient client = client(1, proxy.address());
                long start = System.nanoTime();
                thrown(ServiceUnavailableException.class, () -> client.stat("x"));
                is(System.nanoTime() - start < 10_000_000_000L); // of one second that it was given
            }
        });
        checks.check("a service that takes no bytes of a file for a while, and says that it works on it, is not silent", () -> {
            byte[] bytes = new byte[16 << 20]; // more than the buffers of TCP take
            byte[] entry = status(new MsgpackWriter().array(2).number(1), "x", bytes.length).toByteArray();
            try (Scripted busy = new Scripted(frame(0xa3, entry))) {
                VolumeClient client = client(60, busy.address());
                busy.waitsFor(3_000_000_000L);
                equal((long) bytes.length, client.write("x", content(bytes), true, null).size());
                equal(1, busy.connections.get());
            }
        });
        checks.check("a service that takes no more bytes: writing ends at the deadline, too", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service)) {
                VolumeClient client = client(3, proxy.address());
                client.write(fresh(), content("x"), true, null);
                proxy.cut();
                proxy.mode = Mode.SILENT;
                thrown(IOException.class, () -> client.write(fresh(), content(new byte[1 << 20]), true, null));
            }
        });
    }

    private static void interrupts(Checks checks) {
        checks.check("an interrupted thread leaves soon, the flag still set", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service)) {
                proxy.mode = Mode.SILENT;
                VolumeClient client = client(60, proxy.address());
                interrupted(() -> client.stat("x"));
                interrupted(() -> client.write(fresh(), content(new byte[8 << 20]), true, null));
            }
        });
        checks.check("interrupted between two attempts", () -> {
            VolumeClient client = client(60, "127.0.0.1:1");
            interrupted(() -> client.stat("x"));
        });
        checks.check("interrupted before it began", () -> {
            VolumeClient client = client(60, service);
            Thread.currentThread().interrupt();
            thrown(InterruptedIOException.class, () -> client.stat("x"));
            is(Thread.interrupted());
        });
    }

    private static void interrupted(Checks.Body body) throws Exception {
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
        thread.join(10_000);
        is(caught[0] instanceof InterruptedIOException);
        is(flag[0]);
        is(System.nanoTime() - start < 5_000_000_000L); // the deadline is at 60 s, silence ends after 20 s
    }

    private static void addresses(Checks checks) {
        checks.check("the next address when the first is dead, and it stays with the one that answers", () -> {
            try (FaultyProxy dead = new FaultyProxy(service)) {
                dead.mode = Mode.REFUSE;
                VolumeClient client = client(20, dead.address(), service);
                String path = fresh();
                client.write(path, content("x"), false, null);
                for (int i = 0; i < 20; i++) {
                    equal("x", read(client, path));
                }
                equal(1, dead.connections.get());
            }
        });
        checks.check("a service that is gone without a sign is found out once, however many connections it had", () -> {
            try (FaultyProxy owner = new FaultyProxy(service)) {
                VolumeClient client = client(60, owner.address(), service);
                String path = fresh();
                client.write(path, content("x"), false, null);
                List<Thread> threads = new java.util.ArrayList<>();
                for (int i = 0; i < 6; i++) {
                    threads.add(new Thread(() -> {
                        for (int n = 0; n < 200 && owner.connections.get() < 4; n++) {
                            thrown(RefusedException.class, () -> read(client, ROOT + "nothing"));
                        }
                    }));
                }
                threads.forEach(Thread::start);
                for (Thread thread : threads) {
                    thread.join();
                }
                is(owner.connections.get() > 1);
                owner.frozen = true;
                equal("x", read(client, path));
                equal(1, owner.swallowed.get());
                equal("x", read(client, path));
                equal(1, owner.swallowed.get());
            }
        });
        checks.check("a service that cannot answer now is not the only one that is asked", () -> {
            for (int code : new int[] {30, 31, 32, 33}) {
                try (Scripted cutOff = new Scripted(refusal(code, "alone", "x", "y"))) {
                    VolumeClient client = client(60, cutOff.address(), service);
                    String path = fresh();
                    client.write(path, content("x"), false, null);
                    equal("x", read(client, path));
                    equal(1, cutOff.requests.get());
                }
            }
        });
        checks.check("NOT_OWNER leads to the owner, whether or not it is in the list", () -> {
            try (Scripted other = new Scripted(refusal(22, "not mine", "address", service))) {
                VolumeClient client = client(20, other.address());
                String path = fresh();
                client.write(path, content("x"), false, null);
                equal("x", read(client, path));
                equal(1, other.requests.get());
            }
        });
        checks.check("UNAVAILABLE is asked again, with the same operation", () -> {
            try (Scripted busy = new Scripted(refusal(31, "no quorum at the moment", "x", "y"))) {
                VolumeClient client = client(3, busy.address());
                ServiceUnavailableException e =
                        thrown(ServiceUnavailableException.class, () -> client.stat("x"));
                is(e.getMessage().contains("no quorum"));
                is(busy.requests.get() >= 3);
            }
        });
        checks.check("OUTCOME_UNKNOWN until the deadline is an unknown outcome", () -> {
            try (Scripted lame = new Scripted(refusal(30, "the quorum was lost", "x", "y"))) {
                VolumeClient client = client(3, lame.address());
                thrown(OutcomeUnknownException.class, () -> client.write(fresh(), content("x"), true, null));
            }
        });
        checks.check("a service that may have made a change, and then turns the client away, leaves the outcome unknown", () -> {
            for (int code : new int[] {50, 51, 52, 53, 54, 57, 999}) {
                try (Scripted forgetful = new Scripted(refusal(30, "the quorum was lost", "x", "y"))) {
                    VolumeClient client = client(20, forgetful.address());
                    FutureTask<IOException> change = new FutureTask<>(() -> thrown(
                            IOException.class, () -> client.write(fresh(), content("x"), true, null)));
                    new Thread(change).start();
                    while (forgetful.requests.get() == 0) {
                        LockSupport.parkNanos(1_000_000);
                    }
                    forgetful.answer = refusal(code, "who are you?", "x", "y");
                    is(change.get() instanceof OutcomeUnknownException);
                    is(change.get().getMessage().contains("who are you?"));
                }
            }
        });
        checks.check("a code from the future is final", () -> {
            try (Scripted odd = new Scripted(refusal(999, "because", "x", "y"))) {
                VolumeClient client = client(20, odd.address());
                RefusedException e = thrown(RefusedException.class, () -> client.stat("x"));
                equal(ServiceCode.UNKNOWN, e.code());
                equal(1, odd.requests.get());
            }
        });
        checks.check("an answer of an older epoch is thrown away", () -> {
            MsgpackWriter old = new MsgpackWriter();
            old.array(2).number(3).array(4).text("x").bool(false).number(1).number(1);
            try (Scripted stale = new Scripted(frame(0xa3, old))) {
                stale.epoch = 9;
                VolumeClient client = client(8, stale.address());
                IOException e = thrown(IOException.class, () -> client.stat("x"));
                is(e.getMessage().contains("epoch 3"));
            }
        });
        checks.check("an unknown volume is final when every service says so", () -> {
            VolumeClient client = VolumeClient.of("nobody", settings(20, service));
            equal(ServiceCode.VOLUME_NOT_FOUND, thrown(RefusedException.class, () -> client.stat("x")).code());
        });
        checks.check("something that is not a journal service is told from one", () -> {
            try (Scripted odd = new Scripted("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes())) {
                odd.greets = false;
                VolumeClient client = client(3, odd.address());
                IOException e = thrown(IOException.class, () -> client.stat("x"));
                is(e.getMessage().contains("is this a journal service?"));
            }
        });
        checks.check("addresses are parsed or refused with a sentence", () -> {
            equal(List.of(new ServiceAddress("a", 1), new ServiceAddress("::1", 7500)),
                    ServiceAddress.parseList(" a:1, [::1]:7500 ,"));
            for (String wrong : List.of("a", "a:", ":1", "a:0", "a:65536", "a:x")) {
                thrown(IllegalArgumentException.class, () -> ServiceAddress.parse(wrong));
            }
        });
    }

    private static void claims(Checks checks) {
        checks.check("FENCED names both applications, and everything but the tree is free", () -> {
            VolumeClient client = client(20, service);
            PathClaim older = new PathClaim("app-older", 1000);
            PathClaim newer = new PathClaim("app-newer", 2000);
            String tree = fresh();
            client.claim(tree, older);
            client.write(tree + "/offsets/0", content("0"), false, older);
            client.claim(tree, newer);
            FencedException e = thrown(
                    FencedException.class, () -> client.write(tree + "/offsets/1", content("1"), false, older));
            is(e.getMessage().contains("app-older") && e.getMessage().contains("app-newer"));
            thrown(FencedException.class, () -> client.delete(tree, true, older));
            thrown(FencedException.class, () -> client.write(tree + "/x", content("1"), false, null));
            thrown(FencedException.class, () -> client.write(tree + "/x", content(new byte[2 << 20]), true, older));
            thrown(FencedException.class, () -> client.claim(tree, older));
            FileEntry begun = client.stat(tree + "/offsets/0");
            thrown(FencedException.class, () -> client.append(begun, new byte[1], 1, older));
            thrown(FencedException.class, () -> client.append(begun, new byte[1], 1, null));
            equal(2L, client.append(begun, new byte[1], 1, newer).size());
            client.write(tree + "/offsets/1", content("1"), false, newer);
            client.write(fresh(), content("1"), false, older);
        });
        checks.check("volumes are apart", () -> {
            String path = fresh();
            client(20, service).write(path, content("x"), false, null);
            VolumeClient other = VolumeClient.of("other", settings(20, service));
            thrown(RefusedException.class, () -> other.stat(path));
        });
        checks.check("settings do not show the token", () -> {
            String token = "ab".repeat(32);
            is(!tokenSettings(service, token, false, false).toString().contains(token));
            thrown(IllegalArgumentException.class, () -> tokenSettings(service, "short", false, false));
        });
    }

    /** Answers that are well-formed, and not what was asked for: from a service that is broken, or is none. */
    private static void answers(Checks checks) {
        checks.check("a STATUS of another path is not an answer", () -> {
            byte[] other = frame(0xa3, status(new MsgpackWriter().array(2).number(1), "other", 4));
            refusesAnswer(other, client -> thrown(RefusedException.class, () -> client.stat("asked")));
            refusesAnswer(other, client -> thrown(RefusedException.class, () -> client.read("asked", 0, 4, null)));
            refusesAnswer(other, client -> client.write("asked", content("four"), true, null));
        });
        checks.check("a write is not answered by a file of another size", () -> {
            byte[] shorter = frame(0xa3, status(new MsgpackWriter().array(2).number(1), "asked", 3));
            refusesAnswer(shorter, client -> client.write("asked", content("four"), true, null));
        });
        checks.check("a PAGE again and again ends the listing", () -> {
            MsgpackWriter page = new MsgpackWriter().array(3).number(1).array(2);
            status(page, "dir/a", 1);
            status(page, "dir/b", 1).bool(true);
            refusesAnswer(frame(0xa5, page), client -> thrown(RefusedException.class, () -> client.list("dir")));
        });
        checks.check("a PAGE of nothing, of strangers, or out of order", () -> {
            MsgpackWriter nothing = new MsgpackWriter().array(3).number(1).array(0).bool(true);
            refusesAnswer(frame(0xa5, nothing), client -> thrown(RefusedException.class, () -> client.list("dir")));
            MsgpackWriter stranger = new MsgpackWriter().array(3).number(1).array(1);
            status(stranger, "other/a", 1).bool(false);
            refusesAnswer(frame(0xa5, stranger), client -> thrown(RefusedException.class, () -> client.list("dir")));
            MsgpackWriter disorder = new MsgpackWriter().array(3).number(1).array(2);
            status(disorder, "dir/b", 1);
            status(disorder, "dir/a", 1).bool(false);
            refusesAnswer(frame(0xa5, disorder), client -> thrown(RefusedException.class, () -> client.list("dir")));
        });
        checks.check("pages without an end are refused before they fill the memory", () -> {
            Listing listing = new Listing("d", "");
            String padding = "x".repeat(1000);
            RefusedException refusal = thrown(RefusedException.class, () -> {
                for (int number = 1_000_000; ; number++) {
                    Answer.Page page =
                            new Answer.Page(1, List.of(new FileEntry("d/" + number + padding, false, 1, 1)), true);
                    listing.check(page);
                    listing.add(page);
                    is(number < 2_000_000);
                }
            });
            equal(ServiceCode.TOO_LARGE, refusal.code());
        });
        checks.check("an epoch that cannot be does not keep the true ones out", () -> {
            for (long epoch : new long[] {Long.MAX_VALUE, (1L << 40) + 1, seconds() + (2L << 20) + 100}) {
                MsgpackWriter poison = status(new MsgpackWriter().array(2).number(epoch), "x", 1);
                try (Scripted rogue = new Scripted(frame(0xa3, poison))) {
                    VolumeClient client = client(20, rogue.address(), service);
                    equal(ServiceCode.NOT_FOUND, thrown(RefusedException.class, () -> client.stat("x")).code());
                    is(rogue.requests.get() > 0);
                }
            }
        });
        checks.check("a running client follows an epoch that somebody took as far as the clock goes", () -> {
            long far = seconds() + (1L << 20);
            try (Scripted only = new Scripted(frame(0xa3, status(new MsgpackWriter().array(2).number(1), "x", 1)))) {
                VolumeClient client = client(8, only.address());
                equal(1L, client.stat("x").size());
                only.answer = frame(0xa3, status(new MsgpackWriter().array(2).number(far), "x", 2));
                equal(2L, client.stat("x").size());
            }
        });
        checks.check("an epoch that was never an owner's is forgotten when the owner says so, and no other", () -> {
            MsgpackWriter poison = status(new MsgpackWriter().array(2).number(1000), "x", 1);
            try (Scripted only = new Scripted(frame(0xa3, poison))) {
                VolumeClient client = client(3, only.address());
                equal(1L, client.stat("x").size());
                only.greets = false; // an owner of an older epoch opens nothing for whoever has seen a newer one
                only.answer = notOwner(999, 1);
                thrown(ServiceUnavailableException.class, () -> client.stat("x"));
                only.greets = true;
                thrown(ServiceUnavailableException.class, () -> client.stat("x"));
                only.greets = false;
                only.answer = notOwner(1000, 1);
                thrown(ServiceUnavailableException.class, () -> client.stat("x"));
                only.greets = true;
                only.answer = frame(0xa3, status(new MsgpackWriter().array(2).number(1), "x", 2));
                equal(2L, client.stat("x").size());
            }
        });
        checks.check("an answer that is refused leaves no epoch behind", () -> {
            MsgpackWriter other = status(new MsgpackWriter().array(2).number(1000), "other", 1);
            try (Scripted rogue = new Scripted(frame(0xa3, other))) {
                VolumeClient client = client(20, rogue.address(), service);
                equal(ServiceCode.NOT_FOUND, thrown(RefusedException.class, () -> client.stat("x")).code());
            }
        });
    }

    /** Requests of many threads on one connection. */
    private static void sharing(Checks checks) {
        checks.check("many threads share one connection, and each gets its own answer", () -> {
            try (FaultyProxy proxy = new FaultyProxy(service)) {
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
            try (FaultyProxy proxy = new FaultyProxy(service)) {
                VolumeClient client = client(60, proxy.address());
                String directory = fresh();
                AtomicInteger left = new AtomicInteger(32);
                Thread cutter = new Thread(() -> {
                    while (left.get() > 0) {
                        LockSupport.parkNanos(30_000_000);
                        try {
                            proxy.cut();
                        } catch (IOException e) {
                            throw new java.io.UncheckedIOException(e);
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
                        }
                    } finally {
                        left.decrementAndGet();
                    }
                });
                cutter.join();
                equal(320, client.list(directory).size());
                is(proxy.connections.get() > 2);
            }
        });
        checks.check("a thread that is interrupted, or late, leaves the connection to the others", () -> {
            byte[] entry = status(new MsgpackWriter().array(2).number(1), "x", 1).toByteArray();
            try (Scripted slow = new Scripted(frame(0xa3, entry))) {
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
        checks.check("a service that takes no bytes for a while, and says that it works on it, is not silent", () -> {
            byte[] bytes = new byte[120 * 1024]; // 80 of them are more than the buffers of TCP take
            byte[] entry = status(new MsgpackWriter().array(2).number(1), "x", bytes.length).toByteArray();
            try (Scripted busy = new Scripted(frame(0xa3, entry))) {
                VolumeClient client = client(60, busy.address());
                busy.waitsFor(3_000_000_000L);
                inThreads(80, number -> equal((long) bytes.length, client.write("x", content(bytes), true, null).size()));
                equal(1, busy.connections.get());
            }
        });
        checks.check("no sign for too long breaks the connection for all who wait on it", () -> {
            try (FaultyProxy owner = new FaultyProxy(service)) {
                VolumeClient client = client(60, owner.address(), service);
                String path = fresh();
                client.write(path, content("x"), false, null);
                owner.frozen = true;
                long start = System.nanoTime();
                inThreads(16, number -> equal(1L, client.stat(path).size()));
                is(System.nanoTime() - start < 12_000_000_000L);
                equal(1, owner.swallowed.get());
            }
        });
        checks.check("a service that takes one request at a time is spoken to as before", () -> {
            byte[] entry = status(new MsgpackWriter().array(2).number(1), "x", 1).toByteArray();
            try (Scripted older = new Scripted(frame(0xa3, entry))) {
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
            try (Scripted rogue = new Scripted(frame(0xa3, entry))) {
                rogue.tagsAhead = 1;
                VolumeClient client = client(20, rogue.address(), service);
                equal(ServiceCode.NOT_FOUND, thrown(RefusedException.class, () -> client.stat("x")).code());
                is(rogue.requests.get() > 0);
            }
        });
        checks.check("what ends the connection is no answer: the request is asked again", () -> {
            try (Scripted leaving = new Scripted(refusal(53, "you talk nonsense", "x", "y"))) {
                leaving.ofTheConnection = true;
                VolumeClient client = client(20, leaving.address(), service);
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
        List<FutureTask<Void>> tasks = new java.util.ArrayList<>();
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

    private static long seconds() {
        return System.currentTimeMillis() / 1000;
    }

    private interface Asking {
        void ask(VolumeClient client) throws IOException;
    }

    /** The answer is thrown away, and the one of the next service is taken. */
    private static void refusesAnswer(byte[] answer, Asking asking) throws Exception {
        try (Scripted rogue = new Scripted(answer)) {
            VolumeClient client = client(20, rogue.address(), service);
            asking.ask(client);
            is(rogue.requests.get() > 0);
        }
    }

    private static MsgpackWriter status(MsgpackWriter out, String path, long size) {
        return out.array(4).text(path).bool(false).number(size).number(1);
    }

    private static void tokens(Checks checks) {
        String token = "ab".repeat(32);
        checks.check("a token does not go to another host in clear, unless that is wanted", () -> {
            for (String host : List.of("a.example:1", "10.0.0.1:1", "[fe80::1]:1", "127.a.example:1", "127.0.0.1:1,b:1")) {
                String said = thrown(IllegalArgumentException.class, () -> tokenSettings(host, token, false, false))
                        .getMessage();
                is(said.contains("fs.sos.insecure") && said.contains("fs.sos.tls") && !said.contains(token));
                tokenSettings(host, token, true, false);
                tokenSettings(host, token, false, true);
                tokenSettings(host, null, false, false);
            }
            tokenSettings("localhost:1,127.0.0.1:1,127.9.9.9:1,[::1]:1", token, false, false);
        });
        checks.check("nor to whomever a service without TLS names as owner", () -> {
            try (Scripted other = new Scripted(refusal(22, "not mine", "address", "192.0.2.1:7420"))) {
                ServiceSettings settings = new ServiceSettings(
                        ServiceAddress.parseList(other.address()), token, false, null, false, 2000L + counter++);
                VolumeClient client = VolumeClient.of("payments", settings);
                String said = thrown(ServiceUnavailableException.class, () -> client.stat("x")).getMessage();
                is(said.contains("192.0.2.1:7420 is not asked"));
            }
        });
    }

    private static ServiceSettings tokenSettings(String addresses, String token, boolean tls, boolean insecure) {
        return new ServiceSettings(ServiceAddress.parseList(addresses), token, tls, null, insecure, 1000);
    }

    /** A service that greets, then answers every request with the same bytes, one connection after the other. */
    private static final class Scripted implements AutoCloseable {
        final AtomicInteger connections = new AtomicInteger();
        final AtomicInteger requests = new AtomicInteger();
        volatile int versionMax = 2;
        /** How far from its request's tag an answer's is. */
        volatile int tagsAhead;
        /** Answers concern the connection. */
        volatile boolean ofTheConnection;
        /** While it does, it says that it works on the request. */
        volatile boolean waits;
        volatile long epoch = 1;
        volatile boolean greets = true;
        volatile byte[] answer;
        private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());

        Scripted(byte[] answer) throws IOException {
            this.answer = answer;
            Thread thread = new Thread(() -> {
                while (!listener.isClosed()) {
                    try (Socket client = listener.accept()) {
                        serve(client);
                    } catch (IOException e) {
                        // the next one
                    }
                }
            });
            thread.setDaemon(true);
            thread.start();
        }

        private void serve(Socket client) throws IOException {
            connections.incrementAndGet();
            DataInputStream in = new DataInputStream(client.getInputStream());
            DataOutputStream out = new DataOutputStream(client.getOutputStream());
            int version = 1;
            for (int i = 0; ; i++) {
                byte[] request = new byte[in.readInt()];
                in.readFully(request);
                int tag = version == 1 || i == 0 ? 0 : ByteBuffer.wrap(request).getInt(1);
                if (greets && i == 0) {
                    version = ByteBuffer.wrap(request).getShort(1);
                    if (version > versionMax) {
                        out.write(refusal(50, "not this version", "x", "y"));
                        return;
                    }
                    MsgpackWriter welcome = new MsgpackWriter();
                    welcome.array(5).number(version).bytes(new byte[16]).number(2 << 20).number(1 << 20).number(0);
                    out.write(frame(0xa1, welcome));
                } else if (greets && i == 1) {
                    MsgpackWriter opened = new MsgpackWriter();
                    opened.array(2).number(epoch).text("payments");
                    out.write(tagged(version, tag, frame(0xa2, opened)));
                } else {
                    requests.incrementAndGet();
                    while (waits) {
                        LockSupport.parkNanos(200_000_000L);
                        out.write(tagged(version, 0, frame(0xa7, new MsgpackWriter().array(2).number(1).number(1))));
                    }
                    if (request[0] != 0x24 && request[0] != 0x25) { // a file that is streamed is answered at its end
                        out.write(tagged(version, ofTheConnection ? 0 : tag + tagsAhead, answer));
                    }
                }
            }
        }

        private static byte[] tagged(int version, int tag, byte[] frame) {
            if (version == 1) {
                return frame;
            }
            byte[] tagged = new byte[frame.length + 4];
            ByteBuffer.wrap(tagged).putInt(frame.length).put(frame[4]).putInt(tag).put(frame, 5, frame.length - 5);
            return tagged;
        }

        void waitsFor(long nanos) {
            waits = true;
            new Thread(() -> {
                LockSupport.parkNanos(nanos);
                waits = false;
            }).start();
        }

        String address() {
            return "127.0.0.1:" + listener.getLocalPort();
        }

        @Override
        public void close() throws IOException {
            listener.close();
        }
    }

    private static byte[] notOwner(long seen, long owned) {
        MsgpackWriter body = new MsgpackWriter();
        body.array(4).number(owned).number(22).text("not so").array(2);
        body.array(2).text("epoch").number(seen).array(2).text("owned").number(owned);
        return frame(0xaa, body);
    }

    private static byte[] refusal(int code, String message, String field, String value) {
        MsgpackWriter body = new MsgpackWriter();
        body.array(4).number(1).number(code).text(message).array(1).array(2).text(field).text(value);
        return frame(0xaa, body);
    }

    private static byte[] frame(int type, MsgpackWriter body) {
        return frame(type, body.toByteArray());
    }

    private static byte[] frame(int type, byte[] bytes) {
        String head = String.format("%08x%02x", bytes.length + 1, type);
        return HexFormat.of().parseHex(head + HexFormat.of().formatHex(bytes));
    }

    private static VolumeClient client(int deadlineSeconds, String... addresses) {
        return VolumeClient.of("payments", settings(deadlineSeconds, addresses));
    }

    /** Deadlines differ by a millisecond, so that each check has a client, and connections, of its own. */
    private static ServiceSettings settings(int deadlineSeconds, String... addresses) {
        return new ServiceSettings(
                ServiceAddress.parseList(String.join(",", addresses)), null, false, null, false,
                deadlineSeconds * 1000L + counter++);
    }

    private static synchronized String fresh() {
        return ROOT + counter++;
    }

    private static Content content(String text) {
        return content(text.getBytes());
    }

    private static Content content(byte[] bytes) {
        return sized(bytes, bytes.length);
    }

    private static Content sized(byte[] bytes, long size) {
        return new Content() {
            public long size() {
                return size;
            }

            public InputStream open() {
                return new ByteArrayInputStream(bytes);
            }
        };
    }

    private static Content broken(long size) {
        return new Content() {
            public long size() {
                return size;
            }

            public InputStream open() {
                return new InputStream() {
                    public int read() throws IOException {
                        throw new IOException("a bad sector");
                    }
                };
            }
        };
    }

    private static String read(VolumeClient client, String path) throws IOException {
        return new String(client.read(path, 0, 1000, null).bytes());
    }

    private static byte[] readAll(VolumeClient client, String path, int size) throws IOException {
        byte[] all = new byte[size];
        int filled = 0;
        while (filled < size) {
            byte[] piece = client.read(path, filled, 1 << 20, null).bytes();
            System.arraycopy(piece, 0, all, filled, piece.length);
            filled += piece.length;
        }
        return all;
    }
}
