package org.apache.spark.sql.internal;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public class SQLConf {
    public static SQLConf get() {
        throw new AssertionError("a stub");
    }

    public String getConfString(String key, String defaultValue) {
        throw new AssertionError("a stub");
    }

    public String sessionLocalTimeZone() {
        throw new AssertionError("a stub");
    }
}
