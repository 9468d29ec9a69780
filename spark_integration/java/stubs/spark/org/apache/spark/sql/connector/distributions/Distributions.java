package org.apache.spark.sql.connector.distributions;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public class Distributions {
    public static UnspecifiedDistribution unspecified() {
        throw new AssertionError("a stub");
    }
}
