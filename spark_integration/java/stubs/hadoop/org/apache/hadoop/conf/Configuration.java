package org.apache.hadoop.conf;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public class Configuration {
    public Configuration(Configuration other) {
        throw new AssertionError("a stub");
    }

    public String get(String name) {
        throw new AssertionError("a stub");
    }

    public String getTrimmed(String name) {
        throw new AssertionError("a stub");
    }

    public String getTrimmed(String name, String defaultValue) {
        throw new AssertionError("a stub");
    }

    public boolean getBoolean(String name, boolean defaultValue) {
        throw new AssertionError("a stub");
    }

    public int getInt(String name, int defaultValue) {
        throw new AssertionError("a stub");
    }

    public void unset(String name) {
        throw new AssertionError("a stub");
    }

    public void set(String name, String value) {
        throw new AssertionError("a stub");
    }
}
