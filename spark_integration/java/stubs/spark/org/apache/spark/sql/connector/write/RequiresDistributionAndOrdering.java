package org.apache.spark.sql.connector.write;

import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.expressions.SortOrder;

/** What the shim sees of Spark's interface of this name. Compiled against, never shipped. */
public interface RequiresDistributionAndOrdering extends Write {
    Distribution requiredDistribution();

    SortOrder[] requiredOrdering();
}
