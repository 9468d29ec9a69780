package io.sos.spark.checks;

import java.util.Objects;

/** Runs named checks and prints one line for each, which the Python side reads. Exits with 1 if any failed. */
public final class Checks {
    public interface Body {
        void run() throws Exception;
    }

    private int failed;

    public void check(String name, Body body) {
        try {
            body.run();
            System.out.println("ok\t" + name);
        } catch (Throwable e) {
            failed++;
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

    public void end() {
        System.out.flush();
        System.exit(failed == 0 ? 0 : 1);
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
