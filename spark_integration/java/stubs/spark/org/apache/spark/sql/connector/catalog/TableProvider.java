package org.apache.spark.sql.connector.catalog;

import java.util.Map;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface TableProvider {
    StructType inferSchema(CaseInsensitiveStringMap options);

    Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties);
}
