package io.sos.spark.gateway;

import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.Socket;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import javax.net.ssl.SSLSocketFactory;

/**
 * One connection to one service for any number of threads (version 2 of the file protocol): each request has a tag, a
 * thread of the connection takes the answers and gives each to who waits for it. Who asks also writes, what others want
 * to ask as well: many requests leave with one write. A thread that gives up leaves the others alone; when the connection
 * breaks, all that wait on it learn it.
 */
final class SharedConnection implements Closeable {
    /** Requests in progress; who wants more waits. A service takes four times as many. */
    private static final int IN_PROGRESS_MAX = 256;
    /** What leaves with one write, and what one read takes. */
    private static final int BUFFER_BYTES = 256 * 1024;
    /** How long a waiting thread sleeps before it looks whether it was interrupted, or the service is silent. */
    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(250);
    /** Then somebody else writes: who asks should not be kept from its answer by those that follow. */
    private static final int WRITES_MAX = 16;

    private final ServiceAddress address;
    private final Socket socket = new Socket();
    private DataInputStream in;
    private OutputStream out;
    private final Map<Integer, Question> inProgress = new HashMap<>(); // also those whose thread has given up
    private final Deque<Question> unsent = new ArrayDeque<>();
    private boolean isWriting;
    private int lastTag;
    private IOException failure;
    private boolean isSilent;
    private volatile long heardNanos = System.nanoTime();
    private volatile Watch writing; // over the thread that writes, if one does

    /** A request on its way, and the thread that waits for its answer. */
    static final class Question {
        private final Thread asker = Thread.currentThread();
        private int tag;
        private byte[] frame;
        private volatile boolean hasSent;
        private volatile Answer answer;
        private volatile IOException failure;

        private Question(byte[] frame) {
            this.frame = frame;
        }

        boolean hasSent() {
            return hasSent;
        }

        private boolean isOver() {
            return answer != null || failure != null;
        }
    }

    SharedConnection(ServiceAddress address) {
        this.address = address;
    }

    /** Connects, says HELLO and opens the volume; the current thread is watched meanwhile. RefusedException: VERSION, AUTH … */
    long open(SSLSocketFactory tls, Request.Hello hello, String volume, SeenEpoch epochSeen, long deadlineNanos)
            throws IOException {
        Watch watch = new Watch(socket, deadlineNanos);
        try {
            Socket stream = ServiceConnection.dialled(socket, address, tls, deadlineNanos);
            watch.heard();
            in = new DataInputStream(
                    new BufferedInputStream(new HeardStream(stream.getInputStream(), this::heard), BUFFER_BYTES));
            out = stream.getOutputStream();
            out.write(Frames.of(hello));
            out.write(Frames.of(new Request.Open(volume, epochSeen.get()), ++lastTag));
            Answer welcome = Frames.read(in);
            epochSeen.checkOrUnlearn(welcome);
            ServiceConnection.check(greeted(welcome, Answer.Welcome.class), Limits.SHARED_VERSION);
            Frames.Tagged opened;
            do {
                watch.heard();
                opened = Frames.readTagged(in);
            } while (opened.answer() instanceof Answer.Waiting);
            epochSeen.checkOrUnlearn(opened.answer());
            ServiceConnection.check(greeted(opened.answer(), Answer.Opened.class), volume);
            if (opened.tag() != lastTag) {
                throw notAsked(opened.tag());
            }
            startReading();
            return opened.answer().epoch();
        } catch (IOException e) {
            close();
            throw watch.explain(e);
        } finally {
            watch.close();
        }
    }

    private static <T extends Answer> T greeted(Answer answer, Class<T> expected) throws IOException {
        if (answer instanceof Answer.Refusal refusal) {
            throw RefusedException.of(refusal);
        }
        if (!expected.isInstance(answer)) {
            throw new ProtocolException("answered " + answer.getClass().getSimpleName() + " to the greeting");
        }
        return expected.cast(answer);
    }

    ServiceAddress address() {
        return address;
    }

    /** Whether another request may be sent, as far as this side knows. */
    synchronized boolean isOpen() {
        return failure == null;
    }

    synchronized boolean wasSilent() {
        return isSilent;
    }

    /** Nobody has waited for anything for this long: who knows whether the connection is still there. */
    synchronized boolean isIdleLongerThan(long millis) {
        return inProgress.isEmpty() && System.nanoTime() - heardNanos > TimeUnit.MILLISECONDS.toNanos(millis);
    }

    /** Queues a request; `await` sends it. Waits while too many are in progress. */
    Question ask(Request request, long deadlineNanos) throws IOException {
        Question question = new Question(Frames.of(request, Frames.OF_THE_CONNECTION));
        while (true) {
            synchronized (this) {
                if (failure != null) {
                    throw broken(failure);
                }
                if (inProgress.size() < IN_PROGRESS_MAX) {
                    question.tag = nextTag();
                    Frames.tag(question.frame, question.tag);
                    if (inProgress.isEmpty()) {
                        heardNanos = System.nanoTime();
                    }
                    inProgress.put(question.tag, question);
                    unsent.add(question);
                    return question;
                }
            }
            look(deadlineNanos);
            LockSupport.parkNanos(this, TimeUnit.MILLISECONDS.toNanos(1));
        }
    }

    private int nextTag() {
        do {
            lastTag++;
        } while (lastTag == Frames.OF_THE_CONNECTION || inProgress.containsKey(lastTag));
        return lastTag;
    }

    /** The answer. An interrupted thread, or one whose deadline has passed, leaves without it: it is thrown away then. */
    Answer await(Question question, long deadlineNanos) throws IOException {
        while (!question.isOver()) {
            if (mayWrite()) {
                write(deadlineNanos);
            } else {
                try {
                    look(deadlineNanos);
                } catch (IOException e) {
                    giveUp(question);
                    throw e;
                }
                LockSupport.parkNanos(this, Math.min(LOOK_NANOS, Math.max(1, deadlineNanos - System.nanoTime())));
            }
        }
        if (question.failure != null) {
            throw broken(question.failure);
        }
        return question.answer;
    }

    /** Its answer is thrown away when it comes; what was not sent need not be. */
    private synchronized void giveUp(Question question) {
        if (unsent.remove(question)) {
            inProgress.remove(question.tag);
        }
    }

    private void look(long deadlineNanos) throws IOException {
        if (Thread.currentThread().isInterrupted()) {
            throw Watch.interrupted(null);
        }
        long now = System.nanoTime();
        if (now - heardNanos > TimeUnit.MILLISECONDS.toNanos(Limits.SILENCE_MILLIS_MAX)) {
            synchronized (this) {
                isSilent = failure == null || isSilent;
            }
            end(Watch.silence(null));
        } else if (now - deadlineNanos > 0) {
            throw Watch.late(null);
        }
    }

    private synchronized boolean mayWrite() {
        if (isWriting || unsent.isEmpty() || failure != null) {
            return false;
        }
        isWriting = true;
        return true;
    }

    /** Sends what is queued, in few writes. A thread that is stuck here and interrupted takes the connection with it. */
    private void write(long deadlineNanos) {
        Watch watch = new Watch(socket, deadlineNanos);
        writing = watch;
        try {
            for (int writes = 0; writes < WRITES_MAX; writes++) {
                byte[] frames = takeUnsent();
                if (frames == null) {
                    return;
                }
                out.write(frames);
                watch.heard();
            }
        } catch (IOException e) {
            synchronized (this) {
                isSilent |= failure == null && watch.foundSilence();
            }
            end(watch.explain(e));
        } finally {
            writing = null;
            watch.close();
            handOver();
        }
    }

    /** Frames for one write; null if there are none. */
    private synchronized byte[] takeUnsent() {
        int size = 0;
        int count = 0;
        for (Question question : unsent) {
            if (count > 0 && size + question.frame.length > BUFFER_BYTES) {
                break;
            }
            size += question.frame.length;
            count++;
        }
        if (count == 0) {
            return null;
        }
        byte[] frames = count == 1 ? unsent.peek().frame : new byte[size];
        int end = 0;
        for (; count > 0; count--) {
            Question question = unsent.remove();
            if (question.frame != frames) {
                System.arraycopy(question.frame, 0, frames, end, question.frame.length);
                end += question.frame.length;
            }
            question.frame = null;
            question.hasSent = true;
        }
        return frames;
    }

    private synchronized void handOver() {
        isWriting = false;
        if (!unsent.isEmpty()) {
            LockSupport.unpark(unsent.peek().asker);
        }
    }

    private void startReading() {
        Thread reader = new Thread(this::read, "sos-answers-" + address);
        reader.setDaemon(true);
        reader.setContextClassLoader(null);
        reader.start();
    }

    private void read() {
        try {
            while (true) {
                Frames.Tagged tagged = Frames.readTagged(in);
                if (tagged.tag() != Frames.OF_THE_CONNECTION) {
                    answered(tagged.tag(), tagged.answer());
                } else if (tagged.answer() instanceof Answer.Refusal refusal) {
                    // It ends the connection; what it says is no answer to anybody's request.
                    throw new IOException(RefusedException.of(refusal).getMessage());
                } else if (!(tagged.answer() instanceof Answer.Waiting)) {
                    throw new ProtocolException("an answer to nothing");
                }
            }
        } catch (IOException e) {
            end(e);
        } catch (RuntimeException | Error e) {
            end(new IOException("the answers of " + address + " cannot be taken", e));
            throw e;
        }
    }

    private void heard() {
        heardNanos = System.nanoTime();
        Watch watch = writing;
        if (watch != null) {
            watch.heard();
        }
    }

    private void answered(int tag, Answer answer) throws ProtocolException {
        Question question;
        synchronized (this) {
            question = inProgress.remove(tag);
        }
        if (question == null) {
            throw notAsked(tag);
        }
        question.answer = answer;
        LockSupport.unpark(question.asker);
    }

    private static ProtocolException notAsked(int tag) {
        return new ProtocolException("an answer to request " + (tag & 0xffffffffL) + ", which was not asked");
    }

    /** Breaks the connection; the first reason stays. */
    void end(IOException reason) {
        synchronized (this) {
            if (failure == null) {
                failure = reason;
                for (Question question : inProgress.values()) {
                    question.failure = reason;
                    LockSupport.unpark(question.asker);
                }
                inProgress.clear();
                unsent.clear();
            }
        }
        close();
    }

    /** For each who waits an exception of its own. */
    private static IOException broken(IOException failure) {
        if (failure instanceof ProtocolException) {
            return new ProtocolException(failure.getMessage(), failure);
        }
        String message = failure.getMessage() != null ? failure.getMessage() : failure.getClass().getSimpleName();
        return new IOException(message, failure);
    }

    /** The raw socket, not the TLS one: a goodbye could block, and nothing here needs it. */
    @Override
    public void close() {
        try {
            socket.close();
        } catch (IOException e) {
            // It is closed all the same.
        }
    }
}
