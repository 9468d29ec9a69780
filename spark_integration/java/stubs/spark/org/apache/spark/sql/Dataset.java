package org.apache.spark.sql;

import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.types.StructType;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public abstract class Dataset<T> {
    public Dataset<Row> select(Column... columns) {
        throw new AssertionError("a stub");
    }

    public abstract StructType schema();

    public abstract QueryExecution queryExecution();
}
