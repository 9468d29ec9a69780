package org.apache.spark.sql.catalyst.json;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public class JSONOptions {
    public static boolean isValidOption(String name) {
        throw new AssertionError("a stub");
    }
}
