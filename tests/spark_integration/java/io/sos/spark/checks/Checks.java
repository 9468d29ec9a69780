package io.sos.spark.checks;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/** Runs named checks and prints one line for each, which the Python side reads. Exits with 1 if any failed. */
public final class Checks {
    public interface Body {
        void run() throws Exception;
    }

    private final List<Thread> waiting = new ArrayList<>();
    private int failed;

    public void check(String name, Body body) {
        try {
            body.run();
            System.out.println("ok\t" + name);
        } catch (Throwable e) {
            failed();
            StackTraceElement where = null;
            for (StackTraceElement each : e.getStackTrace()) {
                if (where == null && !each.getClassName().equals(Checks.class.getName())) {
                    where = each;
                }
            }
            System.out.println("FAIL\t" + name + "\t" + String.valueOf(e).replace('\n', ' ') + " at " + where);
            e.printStackTrace();
        }
    }

    /** For what mostly waits, with connections of its own: it goes on beside the checks that follow. */
    public void waits(String name, Body body) {
        Thread thread = new Thread(() -> check(name, body));
        waiting.add(thread);
        thread.start();
    }

    public void end() throws InterruptedException {
        for (Thread thread : waiting) {
            thread.join();
        }
        System.out.flush();
        System.exit(failed == 0 ? 0 : 1);
    }

    private synchronized void failed() {
        failed++;
    }

    public static void equal(Object expected, Object actual) {
        if (!Objects.deepEquals(expected, actual)) {
            throw new AssertionError("expected " + expected + ", got " + actual);
        }
    }

    public static void is(boolean condition) {
        if (!condition) {
            throw new AssertionError("not so");
        }
    }

    /** The exception, which must be of this class. */
    public static <T extends Throwable> T thrown(Class<T> expected, Body body) {
        try {
            body.run();
        } catch (Throwable e) {
            if (expected.isInstance(e)) {
                return expected.cast(e);
            }
            throw new AssertionError("expected " + expected.getSimpleName() + ", got " + e, e);
        }
        throw new AssertionError("expected " + expected.getSimpleName() + ", nothing was thrown");
    }
}
