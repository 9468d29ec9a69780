package org.apache.spark.sql.connector.expressions;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public class Expressions {
    public static NamedReference column(String name) {
        throw new AssertionError("a stub");
    }

    public static SortOrder sort(Expression expression, SortDirection direction) {
        throw new AssertionError("a stub");
    }
}
