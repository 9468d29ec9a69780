package org.apache.spark.sql.execution;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public class QueryExecution {
    public LogicalPlan optimizedPlan() {
        throw new AssertionError("a stub");
    }
}
