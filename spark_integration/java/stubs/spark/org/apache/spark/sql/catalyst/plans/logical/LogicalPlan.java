package org.apache.spark.sql.catalyst.plans.logical;

/** What the shim sees of Spark's class of this name. Compiled against, never shipped. */
public abstract class LogicalPlan {}
