package org.apache.spark.sql.connector.catalog;

import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface SupportsRead extends Table {
    ScanBuilder newScanBuilder(CaseInsensitiveStringMap options);
}
