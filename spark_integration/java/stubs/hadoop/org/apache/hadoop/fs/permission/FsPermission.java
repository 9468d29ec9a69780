package org.apache.hadoop.fs.permission;

/** What the shim sees of Hadoop's class of this name. Compiled against where no PySpark is at hand, never shipped. */
public class FsPermission {}
