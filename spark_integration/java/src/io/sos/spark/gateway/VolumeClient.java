package io.sos.spark.gateway;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import javax.net.ssl.SSLSocketFactory;

/**
 * A volume as its journal service shows it. Each method is one operation: it goes on over lost connections, restarts of
 * the service and changes of owner, always with the same operation id, until the deadline of the settings.
 *
 * <p>All methods throw {@link RefusedException} when the service says no for good (nothing was changed), {@link
 * OutcomeUnknownException} or {@link ServiceUnavailableException} at the deadline, InterruptedIOException within 250 ms of
 * an interrupt. One instance per volume and settings in a JVM; safe for any number of threads.
 */
public final class VolumeClient implements VolumeTree {
    private static final OperationIds OPERATIONS = new OperationIds();
    private static final byte[] INSTANCE = OPERATIONS.randomBytes();
    private static final ConcurrentMap<Key, VolumeClient> CLIENTS = new ConcurrentHashMap<>();
    /** A large file may take longer than the deadline; below this rate it is given up. */
    private static final long BYTES_PER_MILLI_MIN = 1024;

    private final String volume;
    private final ServiceSettings settings;
    private final Route route;
    private final SeenEpoch epochSeen = new SeenEpoch();
    private final IdleConnections idle = new IdleConnections();
    private final SharedConnections shared = new SharedConnections();
    private final Request.Hello hello;
    private volatile SSLSocketFactory tls;

    private record Key(String volume, ServiceSettings settings) {}

    private interface Exchange<T> {
        T run(ServiceConnection connection) throws IOException;
    }

    /** A request of one frame, and its answer. */
    private interface Question<T> {
        T run(Talk talk) throws IOException;
    }

    private VolumeClient(Key key) {
        this.volume = key.volume;
        this.settings = key.settings;
        this.route = new Route(settings.addresses());
        this.hello = new Request.Hello(Limits.VERSION, settings.tokenBytes(), "spark", INSTANCE);
    }

    /** The JVM's client for this volume. Opens no connection. */
    public static VolumeClient of(String volume, ServiceSettings settings) {
        return CLIENTS.computeIfAbsent(new Key(volume, settings), VolumeClient::new);
    }

    @Override
    public FileEntry stat(String path) throws IOException {
        return ask("stat " + path, talk -> {
            talk.send(new Request.Stat(path, epochSeen.get()));
            return entryOf(path, talk);
        });
    }

    @Override
    public List<FileEntry> list(String path) throws IOException {
        return listAfter(path, "");
    }

    /** The children of a directory whose names come after this one. NOT_FOUND. */
    public List<FileEntry> listAfter(String path, String name) throws IOException {
        Listing listing = new Listing(path, name);
        do {
            Request.List request = new Request.List(path, listing.last(), Limits.LIST_ENTRIES_MAX, epochSeen.get());
            listing.add(ask("list " + path, talk -> {
                talk.send(request);
                Answer.Page page = talk.receive(Answer.Page.class);
                listing.check(page);
                return page;
            }));
        } while (listing.goesOn());
        return listing.entries();
    }

    @Override
    public Piece read(String path, long offset, int length, Long modifiedMillis) throws IOException {
        int wanted = Math.min(length, Limits.PIECE_BYTES_MAX);
        return transfer("read " + path, connection -> {
            connection.send(new Request.Read(path, offset, wanted, modifiedMillis, epochSeen.get()));
            FileEntry entry = fileOf(path, connection);
            if (modifiedMillis != null && entry.modifiedMillis() != modifiedMillis) {
                throw new ProtocolException("answered READ of " + path + " with another file");
            }
            byte[] bytes = new byte[(int) Math.max(0, Math.min(wanted, entry.size() - offset))];
            fill(path, offset, bytes, 0, bytes.length, connection);
            return new Piece(entry, offset, bytes);
        });
    }

    /**
     * The same into an array of the caller's, from {@code start} on: fewer than {@code length} bytes (at most 1 MiB) only at
     * the end of the file, which is answered as it was then. NOT_FOUND, IS_DIRECTORY, DAMAGED.
     */
    public FileEntry readInto(String path, long offset, byte[] bytes, int start, int length) throws IOException {
        int wanted = Math.min(length, Limits.PIECE_BYTES_MAX);
        return transfer("read " + path, connection -> {
            connection.send(new Request.Read(path, offset, wanted, null, epochSeen.get()));
            FileEntry entry = fileOf(path, connection);
            fill(path, offset, bytes, start, (int) Math.max(0, Math.min(wanted, entry.size() - offset)), connection);
            return entry;
        });
    }

    private static FileEntry fileOf(String path, ServiceConnection connection) throws IOException {
        FileEntry entry = entryOf(path, connection);
        if (entry.isDirectory()) {
            throw new ProtocolException("answered READ of " + path + " with another file");
        }
        return entry;
    }

    /** All that follows the status of a file that is read. */
    private static void fill(
            String path, long offset, byte[] bytes, int start, int length, ServiceConnection connection)
            throws IOException {
        int filled = 0;
        Answer answer;
        while ((answer = connection.receive()) instanceof Answer.Data data) {
            int size = data.payload().remaining();
            if (data.offset() != offset + filled || size > length - filled) {
                throw new ProtocolException("bytes of " + path + " that were not asked for");
            }
            data.payload().get(bytes, start + filled, size);
            filled += size;
        }
        if (!(answer instanceof Answer.ReadEnd end) || filled != length || end.nextOffset() != offset + filled) {
            throw new ProtocolException("READ of " + path + " ended after " + filled + " of " + length + " bytes");
        }
    }

    @Override
    public FileEntry write(String path, Content content, boolean overwrite, PathClaim claim) throws IOException {
        long deadlineMillis = settings.deadlineMillis() + content.size() / BYTES_PER_MILLI_MIN;
        if (content.size() <= Limits.SHARED_PUT_BYTES_MAX) {
            return change("write " + path, path, claim, deadlineMillis, (talk, stamp) -> {
                put(talk, path, content, overwrite, stamp);
                return written(path, content, talk);
            });
        }
        return transferChange("write " + path, path, claim, deadlineMillis, (connection, stamp) -> {
            if (content.size() <= Limits.PIECE_BYTES_MAX) {
                put(connection, path, content, overwrite, stamp);
            } else {
                stream(connection, path, content, overwrite, stamp);
            }
            return written(path, content, connection);
        });
    }

    private static FileEntry written(String path, Content content, Talk talk) throws IOException {
        FileEntry entry = entryOf(path, talk);
        if (entry.isDirectory() || entry.size() != content.size()) {
            throw new ProtocolException("answered the write of " + path + " with another file");
        }
        return entry;
    }

    @Override
    public FileEntry append(FileEntry before, byte[] bytes, int length, PathClaim claim) throws IOException {
        String path = before.path();
        Change<FileEntry> change = (talk, stamp) -> {
            talk.send(new Request.Append(path, before.size(), before.modifiedMillis(), stamp, bytes, length));
            FileEntry entry = entryOf(path, talk);
            if (entry.isDirectory() || entry.size() != before.size() + length) {
                throw new ProtocolException("answered the append to " + path + " with another file");
            }
            return entry;
        };
        String what = "append to " + path;
        return length <= Limits.SHARED_PUT_BYTES_MAX
                ? change(what, path, claim, settings.deadlineMillis(), change)
                : transferChange(what, path, claim, settings.deadlineMillis(), change::run);
    }

    @Override
    public void mkdirs(String path, PathClaim claim) throws IOException {
        change("mkdirs " + path, path, claim, stamp -> new Request.Mkdirs(path, stamp));
    }

    @Override
    public boolean delete(String path, boolean recursive, PathClaim claim) throws IOException {
        return change("delete " + path, path, claim, stamp -> new Request.Delete(path, recursive, stamp));
    }

    @Override
    public void rename(String source, String target, boolean overwrite, PathClaim claim) throws IOException {
        change("rename " + source + " to " + target, source, claim,
                stamp -> new Request.Rename(source, target, overwrite, stamp));
    }

    @Override
    public void claim(String path, PathClaim claim) throws IOException {
        change("claim " + path, path, claim, stamp -> new Request.Claim(path, stamp));
    }

    /** Names this moment in the volume's log. */
    void mark(Map<String, String> values) throws IOException {
        change("mark", "", null, stamp -> new Request.Mark(values, stamp));
    }

    /** STATUS, which must be of the path that was asked for. */
    private static FileEntry entryOf(String path, Talk talk) throws IOException {
        FileEntry entry = talk.receive(Answer.Status.class).entry();
        if (!entry.path().equals(path)) {
            throw new ProtocolException("answered for another path than " + path);
        }
        return entry;
    }

    private interface Change<T> {
        T run(Talk talk, OperationStamp stamp) throws IOException;
    }

    private interface TransferredChange<T> {
        T run(ServiceConnection connection, OperationStamp stamp) throws IOException;
    }

    private interface StampedRequest {
        Request with(OperationStamp stamp);
    }

    private boolean change(String what, String path, PathClaim claim, StampedRequest request) throws IOException {
        return change(what, path, claim, settings.deadlineMillis(), (talk, stamp) -> {
            Request sent = request.with(stamp);
            talk.send(sent);
            boolean applied = talk.receive(Answer.Done.class).applied();
            if (!applied && !(sent instanceof Request.Delete)) {
                throw new ProtocolException("answered that " + what + " was not done, without a refusal");
            }
            return applied;
        });
    }

    private <T> T change(String what, String path, PathClaim claim, long deadlineMillis, Change<T> change)
            throws IOException {
        return stamped(what, path, claim, deadlineMillis, (retries, operation) ->
                runShared(retries, talk -> change.run(talk, new OperationStamp(operation, claim, epochSeen.get()))));
    }

    private <T> T transferChange(
            String what, String path, PathClaim claim, long deadlineMillis, TransferredChange<T> change)
            throws IOException {
        return stamped(what, path, claim, deadlineMillis, (retries, operation) ->
                run(retries, connection -> change.run(connection, new OperationStamp(operation, claim, epochSeen.get()))));
    }

    private interface Attempts<T> {
        T run(Retries retries, OperationId operation) throws IOException;
    }

    private <T> T stamped(String what, String path, PathClaim claim, long deadlineMillis, Attempts<T> attempts)
            throws IOException {
        OperationId operation = OPERATIONS.lend();
        Retries retries = new Retries(route, settings, true, what + " in volume " + volume, deadlineMillis);
        try {
            T answer = attempts.run(retries, operation);
            OPERATIONS.giveBack(operation);
            return answer;
        } catch (RefusedException refusal) {
            OPERATIONS.giveBack(operation);
            throw refusal.code() == ServiceCode.FENCED ? FencedException.of(refusal, path, claim) : refusal;
        }
    }

    private <T> T ask(String what, Question<T> question) throws IOException {
        return runShared(reading(what), question);
    }

    private <T> T transfer(String what, Exchange<T> exchange) throws IOException {
        return run(reading(what), exchange);
    }

    private Retries reading(String what) {
        return new Retries(route, settings, false, what + " in volume " + volume, settings.deadlineMillis());
    }

    /** On the connection that all threads share, or on one of its own if the service knows no other. */
    private <T> T runShared(Retries retries, Question<T> question) throws IOException {
        SSLSocketFactory tls = tls(); // authorities that cannot be used are no reason to try again
        while (shared.isOffered(route.current())) {
            failIfInterrupted(null);
            SharedTalk talk = new SharedTalk(route.current(), epochSeen, retries.deadlineNanos());
            try {
                talk.on(shared.to(talk.address(), connection -> openShared(connection, tls, retries), retries.deadlineNanos()));
                T result = question.run(talk);
                epochSeen.add(talk.answeredEpoch());
                return result;
            } catch (RefusedException refusal) {
                if (refusal.code() == ServiceCode.VERSION && !talk.isOpened()) {
                    shared.isSingle(talk.address());
                } else {
                    retries.refused(refusal, talk.address());
                }
            } catch (ContentException failure) {
                throw failure;
            } catch (IOException failure) {
                failIfInterrupted(failure);
                if (failure instanceof ProtocolException unbelieved) {
                    talk.distrust(unbelieved);
                }
                if (talk.wasSilent()) {
                    idle.forget(talk.address());
                }
                retries.failed(failure, talk, talk.wasIdle());
            }
        }
        return run(retries, question::run);
    }

    private void openShared(SharedConnection connection, SSLSocketFactory tls, Retries retries) throws IOException {
        Request.Hello shares = hello.with(Limits.SHARED_VERSION);
        epochSeen.add(connection.open(tls, shares, volume, epochSeen, retries.deadlineNanos()));
    }

    private <T> T run(Retries retries, Exchange<T> exchange) throws IOException {
        SSLSocketFactory tls = tls();
        while (true) {
            failIfInterrupted(null);
            ServiceConnection connection = idle.take(route.current());
            boolean wasIdle = connection != null;
            if (!wasIdle) {
                connection = new ServiceConnection(route.current(), epochSeen);
            }
            boolean isReusable = false;
            connection.begin(retries.deadlineNanos());
            try {
                if (!wasIdle) {
                    connection.connect(tls, hello, volume, retries.deadlineNanos());
                }
                T result = exchange.run(connection);
                epochSeen.add(connection.answeredEpoch());
                isReusable = true;
                return result;
            } catch (RefusedException refusal) {
                isReusable = connection.outlives(refusal);
                retries.refused(refusal, connection.address());
            } catch (ContentException failure) {
                throw failure;
            } catch (IOException failure) {
                failIfInterrupted(failure);
                if (connection.wasSilent()) {
                    idle.forget(connection.address());
                }
                retries.failed(connection.explain(failure), connection, wasIdle);
            } finally {
                connection.end();
                if (isReusable) {
                    idle.put(connection);
                } else {
                    connection.close();
                }
            }
        }
    }

    private SSLSocketFactory tls() throws IOException {
        if (settings.tls() && tls == null) {
            tls = TrustedAuthorities.socketFactory(settings.authorities());
        }
        return tls;
    }

    private static void failIfInterrupted(IOException cause) throws InterruptedIOException {
        if (Thread.currentThread().isInterrupted()) {
            throw Watch.interrupted(cause);
        }
    }

    private static void put(
            Talk talk, String path, Content content, boolean overwrite, OperationStamp stamp)
            throws IOException {
        byte[] bytes = new byte[(int) content.size()];
        try (ContentReader reader = new ContentReader(path, content)) {
            reader.next(bytes);
            reader.checkEnd();
        }
        talk.send(new Request.Put(path, overwrite, stamp, bytes));
    }

    private static void stream(
            ServiceConnection connection, String path, Content content, boolean overwrite, OperationStamp stamp)
            throws IOException {
        connection.send(new Request.WriteOpen(path, overwrite, stamp));
        byte[] buffer = new byte[Limits.PIECE_BYTES_MAX];
        try (ContentReader reader = new ContentReader(path, content)) {
            long offset = 0;
            int size;
            while ((size = reader.next(buffer)) > 0) {
                connection.send(new Request.Data(offset, buffer, size));
                connection.flushUnlessRefused();
                offset += size;
            }
            reader.checkEnd();
        }
        connection.send(new Request.WriteCommit(content.size()));
    }
}
