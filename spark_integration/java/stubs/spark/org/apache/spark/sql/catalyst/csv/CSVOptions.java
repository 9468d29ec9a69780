package org.apache.spark.sql.catalyst.csv;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public class CSVOptions {
    public static boolean isValidOption(String name) {
        throw new AssertionError("a stub");
    }
}
