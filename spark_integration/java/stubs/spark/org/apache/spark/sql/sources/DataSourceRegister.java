package org.apache.spark.sql.sources;

/** What the shim sees of Spark's trait of this name. Compiled against, never shipped. */
public interface DataSourceRegister {
    String shortName();
}
